"""One argument more or less, with comments, commas, layout and line ends kept."""

from __future__ import annotations

import pytest

from torchlint.fixes.arguments import with_keyword, without_argument


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f()", "f(k=1)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a, k=2)", "f(a, k=1)"),
        ("f(a, **o)", "f(a, k=1, **o)"),
        ("f(a,)", "f(a, k=1,)"),
        ("f(\n    a,\n)", "f(\n    a,\n    k=1,\n)"),
        ("f(\r\n    a,\r\n    b,\r\n)", "f(\r\n    a,\r\n    b,\r\n    k=1,\r\n)"),
        ("f(\n    a,  # one\n    b,  # two\n)", "f(\n    a,  # one\n    b,  # two\n    k=1,\n)"),
        ("f(\n    a,\n    # on b\n    b,\n    # end\n)", "f(\n    a,\n    # on b\n    b,\n    k=1,\n    # end\n)"),
        ("x\n.view(1)\n.to(a)", "x\n.view(1)\n.to(a, k=1)"),
    ],
)
def test_a_keyword_is_added(call: str, expected: str) -> None:
    assert with_keyword(call, "k", "1") == expected


@pytest.mark.parametrize(
    ("call", "position", "expected"),
    [
        ("f(a)", 0, "f()"),
        ("f(a, b=1)", 0, "f(b=1)"),
        ("f(a, b=1)", 1, "f(a)"),
        ("x\n.view(1)\n.to(a, b)", 0, "x\n.view(1)\n.to(b)"),
    ],
)
def test_an_argument_is_taken_away(call: str, position: int, expected: str) -> None:
    assert without_argument(call, position) == expected
