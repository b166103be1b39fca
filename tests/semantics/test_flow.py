"""The tree of events that a person would draw of a training function."""

from __future__ import annotations

import re
import textwrap

from tests.semantics.meaning import Meaning
from torchlint.semantics.debug import print_flow
from torchlint.semantics.flow import actions
from torchlint.semantics.unit import flow_of
from torchlint.text import Document

MODEL = (
    "import torch\nfrom torch import nn, optim\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
)


def flow(code: str, root: str) -> str:
    """The printed flow of one function, without row numbers and kinds."""
    text = print_flow(Document(f"{MODEL}{textwrap.dedent(code)}"))
    (tree,) = [block for block in text.split("\n\n") if block.split(":")[0].endswith(root)]
    return "\n".join(re.sub("<[a-z ]*>", "", line[8:]) for line in tree.splitlines()[1:])


def test_called_functions_stand_in_the_place_of_the_call_with_the_callers_objects() -> None:
    code = """
        def step(net, opt, batch):
            loss = net(batch).sum()
            loss.backward()
            opt.step()

        def main(loader):
            model = Net()
            optimizer = optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                optimizer.zero_grad()
                step(model, optimizer, batch)
    """
    assert flow(code, "main").splitlines()[-7:] == [
        "loop over loader",
        "  optimizer.zero_grad()",
        "  call of step",
        "    model(loader[])",
        "    net(batch).sum()",
        "    loss.backward()",
        "    optimizer.step()",
    ]


def test_methods_of_a_trainer_are_followed_on_its_own_attributes() -> None:
    code = """
        class Trainer:
            def __init__(self):
                self.net = Net()
                self.opt = optim.SGD(self.net.parameters(), lr=0.1)

            def optimize(self, loss):
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()

            def fit(self, loader):
                for batch in loader:
                    self.optimize(self.net(batch))
    """
    printed = flow(code, "fit")
    assert "call of optimize" in printed
    assert "self.opt.zero_grad()" in printed
    assert "self.opt.step()" in printed


def test_a_trainer_used_from_outside_is_the_object_it_is() -> None:
    code = """
        class Trainer:
            def __init__(self):
                self.opt = optim.SGD(Net().parameters(), lr=0.1)

            def update(self):
                self.opt.step()

        def main():
            trainer = Trainer()
            trainer.update()
    """
    assert "trainer.opt.step()" in flow(code, "main")


def test_structure_is_kept() -> None:
    code = """
        def train(opt, scaler, loss, loader):
            for batch in loader:
                try:
                    if scaler:
                        scaler.step(opt)
                    else:
                        opt.step()
                except RuntimeError:
                    continue
                with torch.no_grad():
                    opt.zero_grad()
    """
    words = [line.strip().split("(")[0] for line in flow(code, "train").splitlines()]
    assert words == [
        "loop over loader",
        "try",
        "if scaler",
        "scaler.step",
        "else",
        "opt.step",
        "except",
        "continue",
        "torch.no_grad",
        "with torch.no_grad",
        "opt.zero_grad",
    ]


def test_recursion_ends() -> None:
    code = """
        def again(opt, n):
            opt.step()
            again(opt, n - 1)
    """
    assert flow(code, "again").count(".step()") == 1


def test_functions_inside_a_function_share_its_objects() -> None:
    code = """
        def main(model, loader):
            optimizer = optim.SGD(model.parameters(), lr=0.1)

            def train():
                def step(batch):
                    model(batch).sum().backward()
                    optimizer.step()

                model.train()
                for batch in loader:
                    step(batch)

            def test():
                model.eval()

            train()
            test()
    """
    lines = [line.strip() for line in flow(code, "main").splitlines()]
    assert [line for line in lines if ".train()" in line or ".eval()" in line] == ["model.train()", "model.eval()"]
    assert "optimizer.step()" in lines


def test_a_closure_names_the_objects_of_the_call_that_made_them() -> None:
    meaning = Meaning(
        "def outer(net):\n    def inner():\n        net.eval()\n    inner()\n"
        "def main(model):\n    outer(model)\n    model.train()\n"
    )
    whole = flow_of(meaning.semantics, meaning.function("main"))
    paths = {action.verb: action.receiver.path for action in actions(whole) if action.receiver is not None}
    assert paths == {"eval": "%model", "train": "%model"}


def test_a_function_inside_a_method_has_the_self_of_the_method() -> None:
    meaning = Meaning(
        "class Trainer:\n    def fit(self):\n        def step():\n            self.optimizer.step()\n        step()\n"
        "def main():\n    trainer = Trainer()\n    trainer.fit()\n"
    )
    whole = flow_of(meaning.semantics, meaning.function("main"))
    paths = [action.receiver.path for action in actions(whole) if action.verb == "step" and action.receiver is not None]
    assert paths == ["$trainer.optimizer"]
