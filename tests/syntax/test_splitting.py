"""A text that is split into parts means what the whole text means."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torchlint
from torchlint.semantics.index import index_of
from torchlint.syntax import SyntaxModule, parse_module, part_of

PACKAGE = Path(torchlint.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

LAYOUTS = {
    "decorated class": "@one\n@two(3)\nclass A(B):\n    'Doc.'\n\n    @property\n    def x(self): pass\n    y = 2\n",
    "comments between members": "class A:\n    # first\n    x = 1\n# margin\n    # second\n    def f(self): pass\n",
    "class on one line": "class A: pass\nclass B(A): x = 1; y = 2\n",
    "tabs": "class A:\n\tdef f(self):\n\t\treturn 1\n\tx = 2\n",
    "clauses": "if a:\n    pass\nelif b:\n    pass\nelse:\n    pass\ntry:\n    x\nexcept E:\n    y\nfinally:\n    z\n",
    "if in a class": "class A:\n    if x:\n        def f(self): pass\n    else:\n        f = 1\n    z = 1\n",
    "text at the margin": 'class A:\n    x = """\ndef not_code(:\n"""\n    def f(self): pass\n',
    "brackets at the margin": "x = [\n1,\n2,\n]\ndef f(\na,\nb,\n):\n    pass\n",
    "backslash": "x = 1 + \\\n2\nassert x, \\\n    'no'\n",
    "semicolons": "import a; import b\nx = 1; y = 2\n",
    "form feed": "x = 1\n\f\ndef f():\n    pass\n\fclass A:\n    pass\n",
    "nested quotes": "x = 'it\\'s' \"#\" '''a\n'b' \"c\"'''  # a 'comment\ny = 2\n",
    "prefixes": 'a = rb"\\\\"\nb = f"{x[0]}"\nc = Rb"""\n\\"""\n"""\n',
    "CRLF": "class A:\r\n    def f(self):\r\n        return 1\r\n\r\nx = 2\r\n",
    "CR only": "class A:\r    def f(self):\r        return 1\rx = 2\r",
    "no end of line": "x = 1\nclass A:\n    def f(self):\n        return 1",
    "empty": "",
    "comment only": "# nothing\n\n",
    "matrix product": "x = (a\n@ b)\ny = 1\n",
    "comments above": (
        "# one\n# two\nx = 1\n\n# three\nclass A:\n    # four\n    # five\n    @d\n    def f(self): pass\n"
    ),
    "backslash above": "\\\nx = 1\nclass A:\n    \\\n    def f(self): pass\n",
    "backslash on a line of its own": (
        "if x:\n\\\n    pass\nclass A:\n\\\n    \n    y = 1\n\\\n  \\\n    # c\n    z = 2\n"
    ),
    "form feed before a member": "class A:\n\f    x = 1\n    def f(self): pass\n",
    "match": "match x:\n    case [1, *rest]:\n        pass\n    case {'a': b}:\n        pass\n",
    "decorator over lines": "@f(\n    1,\n)\ndef g():\n    pass\n",
    "async": "async def f():\n    async with a as b:\n        pass\nawait_ = 1\n",
    "emoji": "s = '😀'\nclass Å:\n    é = 'ß'  # 😀\n    def ü(self): pass\n",
}


def trees(module: SyntaxModule) -> list[str]:
    return [ast.dump(statement) for statement in module.body]


def places(module: SyntaxModule) -> list[tuple[int, str]]:
    """Row (from 1) and type of each statement inside functions and classes, as the version knows them."""
    found = []
    for statement in module.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef):
                part = part_of(_root(module, node))
                found.append((module.row_of(part) + node.lineno - part.lead, type(node).__name__))
    return sorted(found)


def _root(module: SyntaxModule, node: ast.AST) -> ast.AST:
    for group in module.groups:
        for part in group.parts:
            for statement in part.body:
                if any(inner is node for inner in ast.walk(statement)):
                    return statement
    raise AssertionError(node)


def expected_places(text: str) -> list[tuple[int, str]]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    return sorted((node.lineno, type(node).__name__) for node in nodes if not isinstance(node, ast.ClassDef))


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_parts_give_the_trees_and_rows_of_the_whole_text(text: str) -> None:
    module = parse_module(text)
    assert list(module.problems()) == []
    assert trees(module) == [ast.dump(statement) for statement in ast.parse(text).body]
    assert places(module) == expected_places(text)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_own_sources_are_split_right(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert trees(parse_module(text)) == [ast.dump(statement) for statement in ast.parse(text).body]


def _described(module: SyntaxModule) -> list[object]:
    """All that a version says of its groups and parts, with the places of nodes as rules see them."""
    for part in (part for group in module.groups for part in group.parts):
        index_of(part)
    return [
        (
            (start, row, group.rows, group.row_count, [_placed(statement) for statement in group.body]),
            *(
                (source.text, source.part.kind, source.part.lead, [_placed(one) for one in source.part.body])
                for source in group.sources
            ),
        )
        for start, row, group in zip(module.starts, module.rows, module.groups, strict=True)
    ]


def _placed(statement: ast.stmt) -> str:
    # A class is shown with its header's place only: members have the places of their own parts.
    if isinstance(statement, ast.ClassDef):
        return f"{statement.name} {statement.lineno} {statement.end_lineno} {statement.end_col_offset}"
    return ast.dump(statement, include_attributes=True)


@pytest.mark.parametrize("text", [*LAYOUTS.values(), *(path.read_text("utf-8") for path in SOURCES[::5])])
def test_cuts_along_the_tree_are_those_along_lines(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    along_the_tree = _described(parse_module(text))
    monkeypatch.setattr("torchlint.syntax.module.whole_layout", lambda text: None)
    assert along_the_tree == _described(parse_module(text))


PIECES = st.sampled_from(
    [
        "x = 1\n",
        "def f(a):\n    return a\n",
        "class A:\n    x = 1\n    def f(self):\n        pass\n",
        "    y = 2\n",
        "else:\n    z = 3\n",
        "if x:\n    pass\n",
        '"""doc\n"""\n',
        "foo(\n",
        ")\n",
        "@d\n",
        "\n",
        "# c\n",
        "    # d\n",
        "'",
        '"""',
        "    def g(self): pass\n",
        "    else:\n        w = 4\n",
        "\f    v = 5\n",
        "  u = 6\n",
        "😀",
        "\r\n",
        "\f",
        "\\\n",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12), st.data())
def test_an_edited_version_is_the_cold_one(before: list[str], after: list[str], data: st.DataObject) -> None:
    old, new = "".join(before), "".join(after)
    cut = data.draw(st.integers(0, len(old)))
    edited = old[:cut] + new + old[data.draw(st.integers(cut, len(old))) :]
    version = parse_module(edited, parse_module(old))
    cold = parse_module(edited)
    assert trees(version) == trees(cold)
    assert (version.starts, version.rows) == (cold.starts, cold.rows)
    assert list(version.problems()) == list(cold.problems())


#: What classes are made of, and what is typed into them.
CLASS_PIECES = st.sampled_from(
    [
        "class A:\n    x = 1\n    def f(self):\n        pass\n",
        "class B(A):\n    # e\n    def h(self,\n      a):\n        return [a\n]\n\n    # f\n    w = 5\n",
        "    y = 2\n",
        "    z = (3,\n",
        "      4)\n",
        "    else:\n        z = 3\n",
        "    if x:\n        pass\n",
        '    """doc\n    """\n',
        "    foo(\n",
        "    @d\n",
        "    # d\n",
        "    def g(self): pass\n",
        "        q = 1\n",
        "  r\n",
        "x = 1\n",
        "# c\n",
        "@e\n",
        "\n",
        "\r\n",
        "(",
        ")",
        "'",
        '"""',
        "    ",
        "#",
        "d",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(CLASS_PIECES, min_size=2, max_size=12), st.lists(CLASS_PIECES, max_size=2), st.data())
def test_an_edit_inside_a_class_gives_the_cuts_of_a_cold_parse(
    before: list[str], typed: list[str], data: st.DataObject
) -> None:
    old = "".join(["class C:\n", *before])
    start = data.draw(st.integers(0, len(old)))
    end = min(start + data.draw(st.sampled_from([0, 0, 0, 1, 2, 20])), len(old))
    edited = old[:start] + "".join(typed) + old[end:]
    version, cold = parse_module(edited, parse_module(old)), parse_module(edited)
    assert _cuts(version) == _cuts(cold)
    assert trees(version) == trees(cold)
    assert list(version.problems()) == list(cold.problems())


def _cuts(module: SyntaxModule) -> list[object]:
    return [
        (start, row, group.rows, group.row_count, [(source.part.kind, source.text) for source in group.sources])
        for start, row, group in zip(module.starts, module.rows, module.groups, strict=True)
    ]


def test_a_class_whose_members_are_all_clauses_is_a_statement_that_does_not_parse() -> None:
    module = parse_module("x = 1\nclass A:\n    else:\n        y = 2\nz = 3\n")
    assert [row for row, _ in module.problems()] == [2]
    assert [type(statement).__name__ for statement in module.body] == ["Assign", "ClassDef", "Assign"]


def test_the_header_of_a_class_is_kept_where_its_members_are_indented_anew() -> None:
    old = parse_module("class A:\n  x = 1\n")
    for text in ("class A:\n    x = 1\n", "class A:\n\f    x = 1\n    y = 2\n", "class A:\n\tx = 1\n"):
        version = parse_module(text, old)
        assert _described(version) == _described(parse_module(text))
        assert version.groups[0].parts[0] is old.groups[0].parts[0]


def test_an_edit_keeps_the_trees_of_all_other_members() -> None:
    text = "import a\n\nclass A:\n    def f(self):\n        return 1\n\n    def g(self): pass\n\ndef h(): pass\n"
    old = parse_module(text)
    new = parse_module(text.replace("return 1", "x = 0\n        return 1"), old)
    kept = {part for group in old.groups for part in group.parts}
    kept &= {part for group in new.groups for part in group.parts}
    first_lines = {part.text.split("\n")[0].strip() for part in kept}
    assert first_lines == {"import a", "class A:", "def g(self): pass", "def h(): pass"}
    assert new.rows == (0, 2, 9)


def test_a_cell_of_a_notebook_ends_what_was_left_open() -> None:
    text = "x = foo(\ny = 1\nz = 2\n"
    end = text.index("y = 1")
    assert [ast.unparse(statement) for statement in parse_module(text, ends=(end,)).body] == ["pass", "y = 1", "z = 2"]


CLASS_AND_FUNCTION = "class A:\n    def f(self):\n        a = 1\n        return a\n\n    x = 1\n\ndef g():\n    b = 2\n"


@pytest.mark.parametrize("above", ["        return a", "    b = 2"], ids=["method", "function"])
def test_what_is_left_of_code_that_does_not_parse_keeps_its_trees(above: str) -> None:
    def typed(line: str) -> str:
        indent = above[: len(above) - len(above.lstrip())]
        return CLASS_AND_FUNCTION.replace(above, f"{indent}{line}\n{above}")

    version = parse_module(CLASS_AND_FUNCTION)
    broken = []
    for line in ("c", "c =", "c = ", "c = d", "c = d.", "c = d.e", "c = d.e(", "c = d.e(1", "c = d.e(1)"):
        version = parse_module(typed(line), version)
        cold = parse_module(typed(line))
        assert trees(version) == trees(cold)
        assert places(version) == places(cold)
        assert list(version.problems()) == list(cold.problems())
        if list(version.problems()):
            broken.append([group.trees for group in version.groups])
    assert len(broken) == 5
    assert all(found == broken[0] for found in broken)


def test_a_part_that_comes_back_is_the_old_one() -> None:
    first = parse_module(CLASS_AND_FUNCTION)
    second = parse_module(CLASS_AND_FUNCTION.replace("a = 1", "a = 12"), first)
    third = parse_module(CLASS_AND_FUNCTION, second)
    assert second.groups[0].trees is not first.groups[0].trees
    assert third.groups[0].trees is first.groups[0].trees
    twice = CLASS_AND_FUNCTION + CLASS_AND_FUNCTION
    parts = [part for group in parse_module(twice, third).groups for part in group.parts]
    assert len(set(parts)) == len(parts)
