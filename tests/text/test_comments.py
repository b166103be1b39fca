"""Comments and logical lines are found as Python's tokenizer finds them, and in text that it gives up on."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from torchlint.text import Document, LogicalLines, comments


def texts_of(text: str) -> list[str]:
    return [comment.text for comment in comments(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1  # one\n# two\n", ["# one", "# two"]),
        ("x = '# no'  # yes", ["# yes"]),
        ("x = '''\n# no\n'''  # yes", ["# yes"]),
        ('x = """ " # no \\""" # no\n"""  # yes', ["# yes"]),
        (r"x = r'\'  # no'  # yes", ["# yes"]),
        ("x = rb'''\n# no'''# yes", ["# yes"]),
        ("x = 'a\\\n# no'  # yes", ["# yes"]),
        ("x = f'{y:#x} # no'  # yes", ["# yes"]),
        ("x = f'{y!r:>#{width}} {{# no'  # yes", ["# yes"]),
        ("""x = f"{d["#"]} {f'{"#"}'}"  # yes""", ["# yes"]),
        ("x = f'''{\n  y  # yes, since Python 3.12\n} # no'''  # yes", ["# yes, since Python 3.12", "# yes"]),
        (r"x = f'\N{NUMBER SIGN} # no \{y} \'# no'  # yes", ["# yes"]),
        (r"""x = rf'\{y["k"]} # no'  # yes""", ["# yes"]),
        ("x = f'{ {1: '#'}[1] } # no'  # yes", ["# yes"]),
        ("y if x else't' # yes", ["# yes"]),
        ("elif'{#'  # yes", ["# yes"]),
        ("#\r# two\r\n# three\n", ["#", "# two", "# three"]),
        ("# form feed\f and \u2028 stay in the comment\n", ["# form feed\f and \u2028 stay in the comment"]),
        ("x = '🔥#'  # é", ["# é"]),
    ],
)
def test_comments(text: str, expected: list[str]) -> None:
    assert texts_of(text) == expected


@pytest.mark.parametrize(
    "broken",
    [
        "x = 'open",
        'x = f"{y',
        'x = f"{y["k"',
        "x = f'{y:",
        "foo(",
        "x = model.",
        "if x",
        "don't do this",
        "x = f'{'",
        ")]}",
    ],
)
def test_a_broken_row_does_not_hide_the_comments_of_the_next(broken: str) -> None:
    text = f"a = 1  # first\n{broken}\nb = '# no'  # second\nc = f\"{{d['#']}}\"  # third\n"
    assert texts_of(text) == ["# first", "# second", "# third"]


def test_deeply_nested_and_hostile_strings_end() -> None:
    assert texts_of('f"{' * 5000 + "\n# yes") == ["# yes"]
    assert texts_of("f'{x:{x:{x:" * 5000 + "\n# yes") == ["# yes"]


def test_rows_and_offsets() -> None:
    text = "é = 1\r\n\r\nx  # note\r\n"
    (comment,) = comments(text)
    assert (comment.row, text[comment.start : comment.end]) == (2, "# note")


def test_only_comments_that_mention_a_word() -> None:
    text = "'noqa'  # one\nx  # NOQA: TL1\n"
    assert [comment.text for comment in comments(text, re.compile("noqa", re.IGNORECASE))] == ["# NOQA: TL1"]
    assert comments("x  # one", re.compile("noqa")) == []


def logical_rows(text: str) -> list[list[str]]:
    """The rows of every logical line."""
    logical = LogicalLines(text)
    spans = sorted({logical.containing(offset) for offset in range(len(text) + 1)})
    return [text[start:end].splitlines() or [""] for start, end in spans]


def test_brackets_backslashes_and_strings_join_rows() -> None:
    text = "a = f(\n  1,  # )\n  '(',\n)\nb = 1 + \\\n  2\n\nc = '''\n(\n''' + \"d\"  # e\n# f"
    assert logical_rows(text) == [
        ["a = f(", "  1,  # )", "  '(',", ")"],
        ["b = 1 + \\", "  2"],
        [""],
        ["c = '''", "(", "''' + \"d\"  # e"],
        ["# f"],
    ]


def test_an_unfinished_bracket_ends_before_the_next_statement() -> None:
    text = "def f():\n    x = g(\n    y = 1\n    return x\nimport b\n"
    assert logical_rows(text) == [["def f():"], ["    x = g(", "    y = 1"], ["    return x"], ["import b"], [""]]


def test_a_yield_from_in_brackets_is_no_import() -> None:
    assert logical_rows("x = (yield\nfrom y)\nz") == [["x = (yield", "from y)"], ["z"]]


def test_a_logical_line_ends_with_its_notebook_cell() -> None:
    text = "f(\nx\n"
    assert LogicalLines(text, (0, 3)).containing(0) == (0, 2)
    assert LogicalLines(text, (0, 3)).containing(3) == (3, 4)
    assert LogicalLines(text).containing(0) == (0, len(text))


def test_strings_of_several_rows() -> None:
    text = 'f("""a\nb""", "c",\n d)\n'
    logical = LogicalLines(text)
    assert logical.string_around(text.index("b")) == (2, text.index(", "))
    assert logical.string_around(text.index("c")) is None


_LIBRARY = Path(tokenize.__file__).parent
_FILES = ["tokenize.py", "argparse.py", "typing.py", "turtle.py", "test/test_fstring.py", "test/test_tokenize.py"]


@pytest.mark.parametrize("name", [name for name in _FILES if (_LIBRARY / name).exists()])
def test_real_files_agree_with_the_tokenizer(name: str) -> None:
    with tokenize.open(_LIBRARY / name) as file:
        text = file.read()
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    expected = [(token.start[0] - 1, token.string) for token in tokens if token.type == tokenize.COMMENT]
    assert [(comment.row, comment.text) for comment in comments(text)] == expected
    document = Document(text)
    first = None
    for token in tokens:
        if token.type in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            continue
        first = token.start[0] - 1 if first is None else first
        if token.type == tokenize.NEWLINE:
            start, end = document.logical_lines.containing(document.lines.line_start(first))
            assert (document.lines.row_of(start), document.lines.row_of(end)) == (first, token.start[0] - 1)
            first = None
