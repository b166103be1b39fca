"""Which assignments reach a use: along the paths of the function, not by what stands above."""

from __future__ import annotations

import textwrap

import pytest

from tests.semantics.meaning import Meaning


def reaching(code: str) -> list[str]:
    """The values that can reach the ``v`` of ``use(v)`` inside a function with this body."""
    text = "def f(p):\n" + textwrap.indent(textwrap.dedent(code).strip(), "    ")
    meaning = Meaning(text)
    name = meaning.expression("use(v)").args[0]  # type: ignore[attr-defined]
    return [
        str(definition.value.value) if definition.value is not None else definition.kind.value  # type: ignore[attr-defined]
        for definition in meaning.semantics.definitions(name)
    ]


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("v = 1\nuse(v)", ["1"]),
        ("v = 1\nv = 2\nuse(v)", ["2"]),
        ("v = 1\nuse(v)\nv = 2", ["1"]),
        ("v = 1\nif p:\n    v = 2\nuse(v)", ["1", "2"]),
        ("if p:\n    v = 1\nelse:\n    v = 2\nuse(v)", ["1", "2"]),
        ("v = 1\nif p:\n    v = 2\n    return\nuse(v)", ["1"]),
        ("v = 1\nif p:\n    v = 2\n    raise E\nuse(v)", ["1"]),
        ("v = 1\nwhile p:\n    use(v)\n    v = 2", ["1", "2"]),
        ("v = 1\nfor i in p:\n    v = 2\nuse(v)", ["1", "2"]),
        ("v = 1\nfor i in p:\n    v = 2\n    if i:\n        break\n    v = 3\nuse(v)", ["1", "2", "3"]),
        ("v = 1\nfor i in p:\n    if i:\n        v = 2\n        continue\n    v = 3\n    use(v)", ["3"]),
        ("v = 1\nfor i in p:\n    use(v)\n    if i:\n        v = 2\n        continue\n    v = 3", ["1", "2", "3"]),
        ("v = 1\ntry:\n    v = 2\n    g()\nexcept E:\n    use(v)", ["1", "2"]),
        ("try:\n    v = 1\nexcept E:\n    v = 2\nuse(v)", ["1", "2"]),
        ("try:\n    v = 1\nexcept E:\n    return\nuse(v)", ["1"]),
        ("v = 1\ntry:\n    v = 2\nfinally:\n    use(v)", ["1", "2"]),
        ("with p:\n    v = 1\nuse(v)", ["1"]),
        ("if (v := 1):\n    use(v)", ["1"]),
        ("v = 1\ndel v\nv = 2\nuse(v)", ["2"]),
        ("match p:\n    case 1:\n        v = 1\n    case _:\n        v = 2\nuse(v)", ["1", "2"]),
        ("v = 1\n[use(v) for i in p]\nv = 2", ["1"]),
    ],
)
def test_values_that_reach_a_use(code: str, values: list[str]) -> None:
    assert reaching(code) == values


def test_a_nested_function_sees_all_bindings() -> None:
    assert reaching("v = 1\ndef g():\n    use(v)\nv = 2") == ["1", "2"]


def test_module_code_has_paths_too() -> None:
    meaning = Meaning("v = 1\nuse(v)\nv = 2\ndef f():\n    return v\n")
    first = meaning.expression("v", 0)
    inside = meaning.expression("v", -1)
    assert len(meaning.semantics.definitions(first)) == 1  # type: ignore[arg-type]
    assert len(meaning.semantics.definitions(inside)) == 2  # type: ignore[arg-type]


def test_loops_inside_loops_are_followed_however_deep() -> None:
    # Walking each level twice would take a million walks here.
    depth = 19
    loops = "".join(f"{'    ' * i}for i{i} in p:\n" for i in range(depth))
    assert reaching(f"v = 1\n{loops}{'    ' * depth}use(v); v = 2") == ["1", "2"]


def test_a_chain_of_900_elif_is_followed_to_its_end() -> None:
    chain = "".join(f"elif p == {i}:\n    v = 2\n" for i in range(900))
    assert reaching(f"v = 1\nif p:\n    pass\n{chain}else:\n    v = 3\nuse(v)") == ["1", *["2"] * 900, "3"]
