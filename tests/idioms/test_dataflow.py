"""What was done to a value last, on each path that leads to it."""

from __future__ import annotations

import ast

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.values.dataflow import last_operations

PRELUDE = """
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)
        self.tail = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1), nn.Flatten())

    def hidden(self, x):
        return torch.relu(self.fc(x))

    def forward(self, x):
        h = self.hidden(x)
        return h, self.tail(x)


class Head(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 3), nn.Sigmoid())


net = Net()
"""


def operations(code: str, expression: str = "value") -> list[str]:
    """The names of the last operations of a variable's last use, sorted."""
    meaning = Meaning(PRELUDE + code + f"\nlook_at({expression})\n")
    call = meaning.semantics.module.calls_of("look_at")[-1]
    return sorted(operation.name for operation in last_operations(meaning.semantics, call.args[0]))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("value = torch.softmax(x, 1)", ["torch.softmax"]),
        ("value = F.softmax(x, 1).view(-1, 3)[:, 0].cuda()", ["torch.nn.functional.softmax"]),
        ("value = torch.squeeze(torch.exp(x), 1)", ["torch.exp"]),
        ("p = x.softmax(dim=1)\nvalue = p", ["torch.Tensor.softmax"]),
        ("value = backend.softmax(x, 1)", [""]),
        ("value = torch.exp(x) * 2", [""]),
        ("value = torch.exp(x) if flag else torch.log(x)", ["torch.exp", "torch.log"]),
        ("if flag:\n    value = torch.exp(x)\nelse:\n    value = torch.log(x)", ["torch.exp", "torch.log"]),
        ("value = torch.exp(x)\nif flag:\n    value = value + 1", ["", "torch.exp"]),
        ("value = torch.exp(x)\nvalue += 1", [""]),
        ("value, other = torch.exp(x), torch.log(x)", ["torch.exp"]),
        ("value = {'a': torch.exp(x), 'b': torch.log(x)}['b']", ["torch.log"]),
        ("value = unknown(x)", [""]),
    ],
)
def test_values(code: str, expected: list[str]) -> None:
    assert operations(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("value = net(x)[0]", ["torch.relu"]),
        ("value = net(x)[-1]", ["torch.nn.Softmax"]),
        ("_, value = net(x)", ["torch.nn.Softmax"]),
        ("value = net(x)", [""]),
        ("value = net.hidden(x)", ["torch.relu"]),
        ("value = nn.DataParallel(net)(x)[0]", ["torch.relu"]),
        ("value = Head()(x)", ["torch.nn.Sigmoid"]),
        ("value = nn.Sequential(nn.Linear(8, 3), Head())(x)", ["torch.nn.Sigmoid"]),
        ("value = nn.Sequential(*layers, nn.Tanh())(x)", ["torch.nn.Tanh"]),
        ("value = nn.Sequential(nn.Tanh(), *layers)(x)", [""]),
        ("layers = [nn.ReLU(), nn.Tanh()]\nvalue = nn.Sequential(nn.ReLU(), *layers)(x)", ["torch.nn.Tanh"]),
        ("layers = [nn.ReLU()]\nlayers.append(nn.Tanh())\nvalue = nn.Sequential(*layers)(x)", [""]),
        ("layers = [nn.ReLU()]\nlayers += [nn.Tanh()]\nvalue = nn.Sequential(*layers)(x)", [""]),
        ("s = nn.Sequential(nn.Tanh())\ns.append(nn.ReLU())\nvalue = s(x)", [""]),
        ("s = nn.Sequential({'a': nn.ReLU(), 'b': nn.Tanh()})\nvalue = s(x)", ["torch.nn.Tanh"]),
    ],
)
def test_modules(code: str, expected: list[str]) -> None:
    assert operations(code) == expected


def test_arguments_belong_to_the_call_that_is_followed() -> None:
    code = "def same(v):\n    return v.view(-1)\nfirst = same(torch.exp(x))\nvalue = same(torch.log(x))"
    assert operations(code) == ["torch.log"]


def test_a_parameter_is_what_all_calls_give() -> None:
    code = "def f(v):\n    look_at(v)\nf(torch.exp(x))\nf(torch.log(x))"
    meaning = Meaning(PRELUDE + code)
    (call,) = meaning.semantics.module.calls_of("look_at")
    assert sorted(item.name for item in last_operations(meaning.semantics, call.args[0])) == ["torch.exp", "torch.log"]


def test_recursion_ends() -> None:
    code = "def f(v):\n    return f(v) if flag else torch.exp(v)\nvalue = f(x)"
    assert operations(code) == ["", "torch.exp"]
    assert operations("value = x\nwhile flag:\n    value = value.view(-1)") == [""]


def test_the_operand_is_told_where_it_stands() -> None:
    meaning = Meaning(PRELUDE + "look_at(F.softmax(x, 1)); look_at(x.softmax(1)); look_at(nn.Softmax(1)(x))")
    for call in meaning.semantics.module.calls_of("look_at"):
        (operation,) = last_operations(meaning.semantics, call.args[0])
        assert isinstance(operation.operand, ast.Name)
        assert operation.operand.id == "x"
