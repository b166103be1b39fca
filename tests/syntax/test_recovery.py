"""One unfinished line costs its own statement, not the file."""

from __future__ import annotations

import ast

import pytest

from torchlint.syntax import parse_module

FILE = '''\
import torch


def before(x):
    """Text over
    lines."""
    return x.sum()


class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = torch.nn.Linear(size, size)
        self.other = torch.nn.Linear(
            size,
            size,
        )

    def forward(self, x):
        h = self.layer(x)
        if h is None:
            return x
        for _ in range(3):
            h = self.other(h)
        return h


def after(y):
    z = before(y)
    return z
'''
UNFINISHED = [
    "x = model.",
    "foo(",
    "s = 'abc",
    "if ready:",
    "y = [1, 2",
    "for i in",
    "def broken(",
    "return (a",
    "with open(",
    "x ==",
    "a b",
    "@",
    'z = """abc',
]
ROWS = [6, 11, 12, 13, 18, 19, 20, 22, 24, 28, 29]


def simple_statements(text: str) -> list[str]:
    return [
        ast.dump(node)
        for statement in parse_module(text).body
        for node in ast.walk(statement)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
    ]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("line", UNFINISHED)
def test_statements_around_an_unfinished_line_are_kept(line: str, row: int) -> None:
    lines = FILE.splitlines(keepends=True)
    indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
    broken = "".join([*lines[:row], f"{indent}{line}\n", *lines[row:]])
    lost = set(simple_statements(FILE)) - set(simple_statements(broken))
    assert lost == set()
    assert len(list(parse_module(broken).problems())) >= 1


def test_the_problem_is_told_once_with_its_row() -> None:
    module = parse_module("x = 1\n\ndef f():\n    y = (1,\n    return 2\n")
    assert [row for row, _ in module.problems()] == [3]


def test_several_broken_lines_cost_only_themselves() -> None:
    text = "def f():\n    a = model.\n    b = 1\n    c = foo(\n    d = 2\n    if x\n    e = 3\n"
    kept = [statement for statement in simple_statements(text) if "Assign" in statement]
    assert len(kept) == 3


@pytest.mark.parametrize(
    "text", ["\0", "x = '\0'\n", "(" * 5000, "x = " + "-" * 100_000 + "1\n", "\ufeffx = 1\n", "\x0c\x0b"]
)
def test_nothing_makes_parsing_fail(text: str) -> None:
    module = parse_module(text)
    assert len(module.rows) == len(module.groups)


def test_syntax_of_a_newer_python_costs_its_statement() -> None:
    text = "x = 1\ntype? Alias = int\ny = 2\n"
    module = parse_module(text)
    assert [ast.unparse(statement) for statement in module.body if isinstance(statement, ast.Assign)] == [
        "x = 1",
        "y = 2",
    ]
    assert [row for row, _ in module.problems()] == [1]


@pytest.mark.parametrize("line", ["x = model.", "foo(", "name = 'half a", "if ready:"])
@pytest.mark.parametrize("before", ["        return self.only(x)", "        h = self.a(x)"])
def test_a_body_holds_what_it_held_without_the_unfinished_line(line: str, before: str) -> None:
    text = (
        "class Net:\n    def one(self, x):\n        return self.only(x)\n\n"
        '    def two(self, x):\n        """Text."""\n        h = self.a(x)\n        return self.b(h)\n'
    )
    typed = text.replace(before, f"        {line}\n{before}")
    assert typed != text
    (net,) = parse_module(typed).body
    assert ast.unparse(net) == ast.unparse(ast.parse(text))


def test_a_pass_that_somebody_wrote_stays() -> None:
    (function,) = parse_module("def f():\n    pass\n    foo(\n    a = 1\n").body
    assert ast.unparse(function) == "def f():\n    pass\n    a = 1"
