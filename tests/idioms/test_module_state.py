"""What modules keep, what reads their attributes, and when code depends on the mode."""

from __future__ import annotations

import ast

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.plain_containers import plain_containers
from torchlint.idioms.modules.training_guard import depends_on_mode
from torchlint.semantics.classes import ClassView

CLASSES = """
import torch
import torch.nn as nn


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 3
        self.fc = nn.Linear(2, 2)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(2))


class Empty(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.act = nn.ReLU()


class Given(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)
"""


@pytest.mark.parametrize(
    ("made", "state"),
    [
        ("nn.Linear(2, 2)", State.WEIGHTS),
        ("nn.BatchNorm1d(2, affine=False)", State.WEIGHTS),
        ("nn.LayerNorm(2, elementwise_affine=False)", State.NOTHING),
        ("nn.Dropout(rate)", State.MODE),
        ("nn.Dropout(0.0)", State.NOTHING),
        ("nn.ReLU()", State.NOTHING),
        ("nn.Sequential(nn.ReLU(), nn.Linear(2, 2))", State.WEIGHTS),
        ("nn.Sequential(nn.ReLU(), nn.Dropout(0.1))", State.MODE),
        ("nn.Parameter(torch.ones(1))", State.WEIGHTS),
        ("Weighted()", State.WEIGHTS),
        ("Table()", State.BUFFERS),
        ("Empty(3)", State.NOTHING),
        ("Given(other)", State.UNKNOWN),
        ("somewhere()", State.UNKNOWN),
    ],
)
def test_what_a_module_keeps(made: str, state: State) -> None:
    meaning = Meaning(f"{CLASSES}\n\nx = {made}\n")
    expression = next(node for node in ast.walk(ast.parse(made)) if isinstance(node, ast.expr))
    found = meaning.expression(ast.unparse(expression))
    assert state_of(meaning.semantics.kind(found), meaning.semantics) is state


def test_who_reads_an_attribute() -> None:
    module = Meaning(
        "class A:\n    def f(self):\n        return self.own\n\n\nprint(a.other, 'named.weight')\n"
    ).semantics.module
    assert module.reads_attribute("own")
    assert not module.reads_attribute("own", of_others=True)
    assert module.reads_attribute("other", of_others=True)
    assert module.reads_attribute("named", of_others=True)
    assert not module.reads_attribute("missing")


def test_who_is_a_base() -> None:
    module = Meaning("import m\n\n\nclass A:\n    pass\n\n\nclass B(m.A, C[int]):\n    pass\n").semantics.module
    assert [module.is_base(name) for name in ("A", "C", "B")] == [True, True, False]


def test_containers_that_are_kept_as_such() -> None:
    text = """
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.kept = [nn.ReLU()]
        self.wrapped = []
        self.wrapped.append(nn.ReLU())
        self.list = nn.ModuleList(self.wrapped)
        local = []
        local += [nn.ReLU()]
        self.built = local
        self.grown = {}
        self.grown["a"] = nn.ReLU()
"""
    semantics = Meaning(text).semantics
    (facts,) = semantics.module.classes()
    found = {item.name: len(item.elements) for item in plain_containers(ClassView(semantics, facts.header))}
    assert found == {"kept": 1, "built": 1, "grown": 1}


@pytest.mark.parametrize(
    ("body", "depends"),
    [
        ("if self.training:\n            use(x)", True),
        ("y = use(x) if self.training else x", True),
        ("y = self.training and use(x)", True),
        ("if not self.training:\n            return x\n        use(x)", True),
        ("if self.deep:\n            use(x)", False),
        ("use(x)", False),
    ],
)
def test_code_that_depends_on_the_mode(body: str, depends: bool) -> None:
    meaning = Meaning(f"class Net:\n    def forward(self, x):\n        {body}\n")
    assert depends_on_mode(meaning.expression("use(x)"), meaning.semantics) is depends
