"""Formulas are read alike however they are written."""

from __future__ import annotations

import ast

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.formulas import applied, factors, is_log_of_two_pi, squared, terms
from torchlint.semantics.kinds import Grade

HEAD = "import math, torch\nimport numpy as np\nfrom torch import exp\n"


def read(expression: str) -> tuple[Meaning, ast.expr]:
    meaning = Meaning(f"{HEAD}look_at({expression})\n")
    (call,) = meaning.semantics.module.calls_of("look_at")
    return meaning, call.args[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + a - b", "+1 +a -b"),
        ("1 - (a - b)", "+1 -a +b"),
        ("-(a + b) - c", "-a -b -c"),
        ("a.add_(b).mul_(-1).sub(c)", "-a -b -c"),
        ("a * b + c", "+a * b +c"),
    ],
)
def test_terms(expression: str, expected: str) -> None:
    _, node = read(expression)
    found = " ".join(("+" if sign > 0 else "-") + ast.unparse(term) for sign, term in terms(node))
    assert found == expected


def test_factors() -> None:
    _, node = read("a.mul(b) * c")
    assert [ast.unparse(factor) for factor in factors(node)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "expression", ["a ** 2", "a.pow(2)", "torch.pow(a, 2)", "torch.square(a)", "a.square()", "a * a"]
)
def test_squares(expression: str) -> None:
    meaning, node = read(expression)
    base = squared(meaning.semantics, node)
    assert base is not None
    assert ast.unparse(base) == "a"


@pytest.mark.parametrize("expression", ["torch.exp(a)", "a.exp()", "a.exp_()", "exp(a)", "np.exp(a)"])
def test_exponentials(expression: str) -> None:
    meaning, node = read(expression)
    operand = applied(meaning.semantics, node, "exp")
    assert operand is not None
    assert ast.unparse(operand) == "a"


@pytest.mark.parametrize("expression", ["a ** 3", "a.pow(n)", "a * b", "other.exp(a)", "exp2(a)"])
def test_what_is_neither(expression: str) -> None:
    meaning, node = read(expression)
    assert squared(meaning.semantics, node) is None
    assert applied(meaning.semantics, node, "exp") is None


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("math.log(2 * math.pi)", True),
        ("0.5 * np.log(2 * np.pi)", True),
        ("torch.log(2 * torch.tensor(math.pi)) / 2", True),
        ("0.9189385332", True),
        ("math.log(2)", False),
        ("math.pi * 2", False),
    ],
)
def test_the_logarithm_of_two_pi(expression: str, answer: bool) -> None:
    meaning, node = read(expression)
    assert is_log_of_two_pi(meaning.semantics, node) is answer


@pytest.mark.parametrize(
    ("argument", "grade"),
    [
        ("torch.device('cuda')", Grade.PROVEN),
        ("'cuda:0'", Grade.PROVEN),
        ("f'cuda:{n}'", Grade.PROVEN),
        ("0", Grade.PROVEN),
        ("torch.zeros(3).device", Grade.PROVEN),
        ("'cuda' if x else 'cpu'", Grade.PROVEN),
        ("args.device", Grade.LIKELY),
        ("device", Grade.LIKELY),
        ("get_device()", Grade.LIKELY),
        ("'cuda' if x else device", Grade.LIKELY),
        ("torch.float16", None),
        ("torch.zeros(3)", None),
        ("target", None),
        ("'cuda' if x else target", None),
    ],
)
def test_what_may_be_a_device(argument: str, grade: Grade | None) -> None:
    meaning, node = read(argument)
    assert device_evidence(meaning.semantics, node) is grade
