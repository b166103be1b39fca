"""What the actions of a training function are to an optimizer, and who owns the loop."""

from __future__ import annotations

import ast
import textwrap
from functools import partial

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.training.construction import constructions, modules_given
from torchlint.idioms.training.frameworks import Duty, is_framework_base, owned_duties
from torchlint.idioms.training.modes import forwards, mode_dependent_layer, mode_events
from torchlint.idioms.training.vocabulary import Training
from torchlint.semantics.unit import Root, flow_of

HEAD = "import torch\nfrom torch import nn\n"


def training(code: str, name: str = "f") -> Training:
    meaning = Meaning(HEAD + textwrap.dedent(code))
    function = meaning.function(name)
    return Training(meaning.semantics, Root(function, partial(flow_of, meaning.semantics, function)))


def events(code: str, optimizer: str = "opt", name: str = "f") -> list[str]:
    """The events of one optimizer, with the calls that they are."""
    found = training(code, name)
    (wanted,) = [item for item in found.optimizers if item.ref.shown == optimizer]
    classify = found.events_of(wanted)
    return [f"{event}: {ast.unparse(action.node)}" for action in found.actions for event in classify(action)]


def test_a_step_through_a_scaler_is_a_step_and_a_scaled_loss_is_backpropagated() -> None:
    code = """
    def f(net, x):
        opt = torch.optim.SGD(net.parameters(), lr=1.0)
        scaler = torch.amp.GradScaler()
        scaler.scale(net(x).sum()).backward()
        scaler.step(opt)
    """
    assert events(code) == [
        "built: torch.optim.SGD(net.parameters(), lr=1.0)",
        "backward: scaler.scale(net(x).sum()).backward()",
        "step: scaler.step(opt)",
    ]
    assert [scaler.shown for scaler in training(code).scaled.values()] == ["scaler"]


@pytest.mark.parametrize(
    ("statement", "event"),
    [
        ("opt.zero_grad()", "clear"),
        ("net.zero_grad()", "clear"),
        ("other.zero_grad()", None),
        ("unknown.zero_grad()", "perhaps clear"),
        ("other_opt.zero_grad()", None),
        ("opts[i].zero_grad()", "perhaps clear"),
        ("clear_gradients(x)", "perhaps clear"),
        ("zero_grad(x)", "perhaps clear"),
        ("torch._foreach_zero_(x)", "perhaps clear"),
        ("engine.backward(x)", "escape"),
        ("finish(opt)", "escape"),
        ("print(opt)", None),
        ("set_learning_rate(opt, 0.1)", None),
        ("opt.state_dict()", None),
        ("opt.tidy_up()", "escape"),
        ("torch.optim.lr_scheduler.StepLR(opt, 1)", None),
    ],
)
def test_what_a_call_does_to_the_gradients_of_an_optimizer(statement: str, event: str | None) -> None:
    code = f"""
    def f(x, i, opts, unknown, engine):
        net = nn.Linear(2, 2)
        other = nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), lr=1.0)
        other_opt = torch.optim.SGD(other.parameters(), lr=1.0)
        {statement}
        net(x).sum().backward()
        opt.step()
        other_opt.step()
    """
    assert [found.split(":")[0] for found in events(code) if found.endswith(statement)] == ([event] if event else [])


def test_gradients_cleared_by_hand_belong_to_the_module_of_the_loop() -> None:
    code = """
    def f(net, other, x):
        opt = torch.optim.SGD(net.parameters(), lr=1.0)
        net(x).sum().backward()
        for p in net.parameters():
            p.grad = None
        for name, p in other.named_parameters():
            p.grad.zero_()
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad.data.zero_()
        opt.step()
    """
    assert [event for event in events(code) if "clear" in event] == [
        "clear: p.grad",
        "perhaps clear: p.grad.zero_()",
        "clear: p.grad.data.zero_()",
    ]


def test_a_wrapper_module_may_hold_what_it_was_built_from() -> None:
    code = """
    class GAN(nn.Module):
        def __init__(self, generator):
            super().__init__()
            self.generator = generator

    def f(x):
        net = nn.Linear(2, 2)
        gan = GAN(net)
        opt = torch.optim.SGD(net.parameters(), lr=1.0)
        gan.zero_grad()
        net(x).sum().backward()
        opt.step()
    """
    assert "perhaps clear: gan.zero_grad()" in events(code)


@pytest.mark.parametrize(
    ("parameters", "modules"),
    [
        ("net.parameters()", {"net"}),
        ("list(net.parameters()) + list(self.head.parameters())", {"net", "head"}),
        ("itertools.chain(net.parameters(), self.head.parameters())", {"net", "head"}),
        ("[*net.parameters()]", {"net"}),
        ("filter(lambda p: p.requires_grad, net.parameters())", {"net"}),
        ("[{'params': net.parameters()}, {'params': self.head.parameters(), 'lr': 0.1}]", {"net", "head"}),
        ("[p for p in net.parameters() if p.ndim > 1]", {"net"}),
        ("split(net)", None),
    ],
)
def test_the_modules_that_an_optimizer_is_given(parameters: str, modules: set[str] | None) -> None:
    meaning = Meaning(
        f"import itertools\n{HEAD}class A:\n    def f(self, net):\n        o = torch.optim.SGD({parameters}, lr=1.0)\n"
    )
    call = meaning.expression(ast.unparse(ast.parse(f"torch.optim.SGD({parameters}, lr=1.0)").body[0]))
    assert isinstance(call, ast.Call)
    found = modules_given(meaning.semantics, call)
    assert (found and {path.lstrip("%").removeprefix("self.") for path in found}) == modules


def test_constructions_are_followed_through_names_attributes_and_functions() -> None:
    meaning = Meaning(
        HEAD
        + textwrap.dedent(
            """
            def make(net):
                return torch.optim.Adam(net.parameters())

            class Trainer:
                def __init__(self, net, sgd):
                    self.net = nn.DataParallel(nn.Linear(2, 2).cuda())
                    self.opt = torch.optim.SGD(net.parameters(), lr=1.0) if sgd else make(net)

                def step(self):
                    opt = self.opt
                    opt.step()
                    self.net.eval()
            """
        )
    )
    optimizer = constructions(meaning.semantics, meaning.expression("opt"))
    assert [ast.unparse(call.func) for call in optimizer.calls] == ["torch.optim.SGD", "torch.optim.Adam"]
    assert optimizer.complete
    assert [ast.unparse(call) for call in constructions(meaning.semantics, meaning.expression("self.net")).calls] == [
        "nn.Linear(2, 2)"
    ]


def test_an_optimizer_without_a_kind_is_known_by_being_the_only_thing_stepped_after_a_backward_pass() -> None:
    code = "def f(model, optimizer, scheduler):\n    model().backward()\n    optimizer.step()\n    scheduler.step()\n"
    assert [item.ref.shown for item in training(code).optimizers] == ["optimizer"]
    two = "def f(a_opt, b_opt):\n    x.backward()\n    a_opt.step()\n    b_opt.step()\n"
    assert training(two).optimizers == ()
    closure = "def f(opt: torch.optim.Optimizer):\n    opt.step(lambda: 1)\n"
    assert training(closure).optimizers == ()


@pytest.mark.parametrize(
    ("name", "owned"),
    [
        ("pytorch_lightning.LightningModule", True),
        ("lightning.pytorch.callbacks.Callback", True),
        ("transformers.Trainer", True),
        ("transformers.PreTrainedModel", False),
        ("torch.nn.Module", False),
        ("skorch.NeuralNetClassifier", True),
        ("lightning.LightningDataModule", True),
        ("lightning.fabric.Fabric", False),
    ],
)
def test_who_owns_a_loop(name: str, owned: bool) -> None:
    assert is_framework_base(name) is owned


def test_ownership_comes_from_the_base_class_not_from_the_import() -> None:
    meaning = Meaning(
        "import pytorch_lightning as pl\nclass Mine:\n    def a(self):\n        pass\n"
        "class Base(pl.LightningModule):\n    pass\nclass Theirs(Base):\n    def b(self):\n        pass\n"
        "def c():\n    pass\n"
    )
    duties = {name: owned_duties(meaning.semantics, meaning.function(name)) for name in "abc"}
    assert duties == {"a": Duty.NONE, "b": Duty.ALL, "c": Duty.NONE}


@pytest.mark.parametrize(
    ("expression", "layer"),
    [
        ("nn.Sequential(nn.Linear(2, 2), nn.Dropout())", "Dropout"),
        ("nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))", ""),
        ("nn.Sequential(nn.Sequential(nn.BatchNorm1d(2)))", "BatchNorm1d"),
        ("nn.LSTM(2, 2, 2, dropout=0.5)", "LSTM"),
        ("nn.LSTM(2, 2)", ""),
        ("nn.LayerNorm(2)", ""),
        ("Net()", "Dropout"),
        ("nn.DataParallel(Net())", "Dropout"),
        ("Plain()", ""),
        ("torchvision.models.resnet18()", "resnet18"),
    ],
)
def test_layers_that_depend_on_the_mode(expression: str, layer: str) -> None:
    meaning = Meaning(
        f"import torchvision\n{HEAD}"
        + textwrap.dedent(
            f"""
            def block():
                return [nn.ReLU(), nn.Dropout(0.1)]

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(*block())

            class Plain(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(2, 2)

            model = {expression}
            """
        )
    )
    assert mode_dependent_layer(meaning.semantics, meaning.semantics.kind(meaning.expression(expression))) == layer


def test_what_switches_the_mode_of_a_module() -> None:
    code = """
    def f(x, flag, other):
        net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        net.eval()
        net.train(False)
        net.train(flag)
        net[1].train()
        other.train()
        prepare(net)
        torch.save(net, "x")
        net(x)
    """
    found = training(code)
    (net,) = [item for item in forwards(found) if item.module.shown == "net"]
    classify = mode_events(found, net.module)
    assert [(event, ast.unparse(a.node)) for a in found.actions for event in classify(a)] == [
        ("train", "nn.Sequential(nn.Linear(2, 2), nn.Dropout())"),
        ("eval", "net.eval()"),
        ("eval", "net.train(False)"),
        ("mode unknown", "net.train(flag)"),
        ("mode unknown", "net[1].train()"),
        ("mode unknown", "prepare(net)"),
    ]
