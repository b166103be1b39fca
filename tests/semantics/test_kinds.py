"""What a value is, by evidence: never by what it is called."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning

HEAD = """\
import torch, copy, itertools
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.rnn = nn.LSTM(2, 2)
        self.layers = nn.ModuleList([nn.Conv2d(1, 1, 1)])
    def forward(self, x):
        return self.fc(x)
def build(name):
    return Net().eval()
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.criterion = nn.CrossEntropyLoss()
    def run(self):
        return self.model, self.optimizer, self.criterion
"""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("v = torch.zeros(3)", "proven tensor"),
        ("v = torch.zeros(3).to('cpu').view(-1)[0]", "proven tensor"),
        ("v = 2 * torch.ones(3) - 1", "proven tensor"),
        ("v = F.relu(unknown)", "proven tensor"),
        ("v = nn.Linear(2, 3)(unknown)", "proven tensor"),
        ("v = nn.CrossEntropyLoss()(a, b)", "proven tensor"),
        ("v = torch.zeros(3).sum().item()", "proven number"),
        ("v = torch.zeros(3).shape", "proven tuple"),
        ("v = torch.zeros(3).device", "proven device"),
        ("v = Net()", "proven module"),
        ("v = Net().cuda()", "proven module"),
        ("v = nn.DataParallel(Net())", "proven module"),
        ("v = copy.deepcopy(Net())", "proven module"),
        ("v = build('x')", "proven module"),
        ("v = torchvision.models.resnet18()", "proven module"),
        ("v = Net().fc", "proven module"),
        ("v = Net().layers[0]", "proven module"),
        ("v = Net().fc.weight", "proven parameter"),
        ("v = Net().parameters()", "proven iterator of parameters"),
        ("v = filter(lambda p: p.requires_grad, Net().parameters())", "proven iterator of parameters"),
        ("v = itertools.chain(Net().parameters(), Net().parameters())", "proven iterator of parameters"),
        ("v = torch.optim.SGD(Net().parameters(), lr=1)", "proven optimizer"),
        ("v = torch.optim.lr_scheduler.StepLR(o, 1)", "proven scheduler"),
        ("v = torch.amp.GradScaler()", "proven scaler"),
        ("v = torch.cuda.amp.GradScaler()", "proven scaler"),
        ("v = DataLoader(d)", "proven loader"),
        ("v = nn.CrossEntropyLoss()", "proven loss"),
        ("v = nn.Parameter(torch.ones(1))", "proven parameter"),
        ("a, v = nn.Linear(1, 1), torch.ones(1)", "proven tensor"),
        ("v = Net() if c else build('y')", "proven module"),
        ("for v, y in DataLoader(d):\n    pass", "likely tensor"),
        ("for i, (v, y) in enumerate(DataLoader(d)):\n    pass", "likely tensor"),
        ("for v in Net().parameters():\n    pass", "proven parameter"),
        ("for n, v in Net().named_parameters():\n    pass", "proven parameter"),
        ("v = Trainer(Net()).optimizer", "proven optimizer"),
        ("v = model", None),
        ("v = loss", None),
        ("v = unknown(torch.ones(1))", None),
        ("v = torch.ones(1) if c else unknown", None),
        ("v = Net()\nif c:\n    v = unknown()", None),
    ],
)
def test_kind_of_a_variable(code: str, kind: str | None) -> None:
    assert Meaning(f"{HEAD}{code}\nuse(v)").what("v") == kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def f(v: torch.Tensor): use(v)", "proven tensor"),
        ("def f(v: 'nope'): use(v)", None),
        ("def f(v: nn.Module): use(v)", "proven module"),
        ("def f(v: Net): use(v)", "proven module"),
        ("def f(v: torch.Tensor | None = None): use(v)", "proven tensor"),
        ("def f(v): v.backward(); use(v)", "likely tensor"),
        ("def f(v): v.zero_grad(); v.step(); use(v)", "likely optimizer"),
        ("def f(v): v.parameters(); use(v)", "likely module"),
        ("def f(v): use(v)\nf(Net())", "likely module"),
        ("def f(v): use(v)\nf(Net())\nf(3)", None),
        ("def f(v): use(v)", None),
        ("def f(optimizer, v): use(v)\nf(1, torch.ones(1))\nf(2, v=torch.zeros(1))", "likely tensor"),
    ],
)
def test_kind_of_a_parameter(code: str, kind: str | None) -> None:
    assert Meaning(f"{HEAD}{code}").what("v") == kind


def test_kinds_of_attributes() -> None:
    meaning = Meaning(HEAD)
    assert meaning.what("self.fc") == "proven module"
    assert meaning.what("self.optimizer") == "proven optimizer"
    assert meaning.what("self.criterion") == "proven loss"
    assert meaning.what("self.model") is None
    assert Meaning(f"{HEAD}Trainer(Net())").what("self.model") == "likely module"


def test_a_path_decides() -> None:
    text = f"{HEAD}def f():\n    v = torch.ones(1)\n    use(v)\n    v = Net()\n    use(v)\n"
    meaning = Meaning(text)
    assert [meaning.what("v", place) for place in (0, 1)] == ["proven tensor", "proven module"]


def test_a_module_knows_its_class() -> None:
    kind = Meaning(f"{HEAD}v = build('x')\nuse(v)").kind("v")
    assert kind is not None
    assert kind.class_node is not None
    assert (kind.origin, kind.class_node.name) == (".Net", "Net")


def test_a_buffer_is_what_it_is_registered_as() -> None:
    code = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("mean", mean)
        self.register_buffer("step", torch.zeros(()))
        self.step = 0

    def forward(self, x):
        return self.scale, self.mean, self.step
"""
    meaning = Meaning(code)
    assert meaning.what("self.scale") == "proven tensor"
    assert meaning.what("self.mean") is None
    assert meaning.what("self.step") == "proven number"
