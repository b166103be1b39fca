from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.arguments import with_keyword
from torchlint.fixes.editor import Editor
from torchlint.idioms.values.creations import creation_of
from torchlint.idioms.values.hard_coded_devices import (
    HardCodedDevice,
    hard_coded_argument,
    hard_coded_move,
    hard_coded_object,
)
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_keyword, on_method
from torchlint.semantics.nodes import is_static
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import factory_facts


class HardCodedDeviceInModule(Rule):
    """## What it does

    Reports code of a module (a subclass of `nn.Module`) that names a CUDA device in so many words: `x.cuda()`,
    `x.to("cuda")`, `device="cuda:0"`, `torch.device("cuda")`.

    ## Why is this bad?

    Where a module runs is for its user to say, with `model.to(device)`. A module that names the device fails on a
    machine without a GPU (also when its weights are only loaded to be looked at), and on the second GPU of a machine
    it mixes tensors of two devices.

    ## Example

    ```python
    import torch
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 64)

        def forward(self, x):
            hidden = torch.zeros(1, x.size(1), 64).cuda()
            return self.rnn(x, hidden)
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 64)

        def forward(self, x):
            hidden = torch.zeros(1, x.size(1), 64, device=x.device)
            return self.rnn(x, hidden)
    ```

    In `__init__` nothing has to be moved: parameters and buffers (`register_buffer`) follow the module.

    ## Exceptions

    A test of what the code runs on, around the place or before it (`if torch.cuda.is_available():`, `if USE_CUDA:`,
    `assert x.is_cuda`); a module whose parts are spread over several devices; defaults of parameters
    (`def __init__(self, device="cuda")`); methods that are about the device (`to_gpu`, `export_onnx`); modules that
    are made inside a test.

    ## References

    - [CUDA semantics: device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    """

    code = "TL125"
    name = "hard-coded-device-in-module"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The module runs on CUDA only, whatever device its user moves it to."

    @on_method("cuda", "to")
    def check_move(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        place = hard_coded_move(unit.semantics, call)
        if place is None:
            return
        assert isinstance(call.func, ast.Attribute)
        written = ast.unparse(call)[len(ast.unparse(call.func.value)) :].replace("'", '"')
        yield self._reported(place, written, unit.semantics)

    @on_keyword(lambda name: name == "device")
    def check_argument(self, keyword: ast.keyword, unit: Unit) -> Iterator[Diagnosis]:
        place = hard_coded_argument(unit.semantics, keyword)
        if place is not None:
            yield self._reported(place, ast.unparse(keyword).replace("'", '"'), unit.semantics)

    @on_call("torch.device")
    def check_device(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        place = hard_coded_object(unit.semantics, call)
        if place is not None:
            yield self._reported(place, ast.unparse(call).replace("'", '"'), unit.semantics)

    def _reported(self, place: HardCodedDevice, written: str, semantics: Semantics) -> Diagnosis:
        method = f"{place.owner.name}.{place.method.name}"
        message = f"`{written}` in `{method}` ties the module to CUDA: "
        if place.method.name == "__init__":
            message += "it cannot be built without a GPU, and `.to(device)` of its user comes too late."
        else:
            message += "it fails without a GPU, and on any other device than the one that it names."
        fix = _moved_by_user(place, semantics) if place.method.name == "__init__" else _as_input(place, semantics)
        return self.found(place.node, message, fixes=[fix] if fix is not None else [])


def _moved_by_user(place: HardCodedDevice, semantics: Semantics) -> FixPlan | None:
    """Leaves out the move of a layer or parameter in the constructor, where the module's own move takes it along."""
    move = place.move
    if move is None:
        return None
    assert isinstance(move.func, ast.Attribute)
    receiver = move.func.value
    statement = parent_of(move)
    if semantics.class_of_self(receiver) is place.owner and isinstance(statement, ast.Expr):
        return FixPlan("Leave the move to the user of the module", "unsafe", lambda e: e.remove_statement(statement))
    kind = semantics.kind(receiver)
    if kind is None or not kind.proven or not (kind.is_module or _is_value_of_parameter(move, semantics)):
        return None
    return FixPlan(
        "Leave the move to the user of the module", "unsafe", lambda edit: edit.replace_by_operand(move, receiver)
    )


def _is_value_of_parameter(move: ast.Call, semantics: Semantics) -> bool:
    holder = parent_of(move)
    return semantics.is_call_to(holder, "torch.nn.Parameter")


def _as_input(place: HardCodedDevice, semantics: Semantics) -> FixPlan | None:
    """Takes the device from the first tensor that the method is given."""
    name = _tensor_parameter(place.method, semantics)
    if name is None:
        return None
    device = f"{name}.device"
    move = place.move
    if move is None:
        return FixPlan(f"Use `{device}`", "unsafe", lambda edit: edit.replace(place.node, device))
    assert isinstance(move.func, ast.Attribute)
    receiver = move.func.value
    kind = semantics.kind(receiver)
    if kind is None or not kind.is_tensor or (isinstance(receiver, ast.Name) and receiver.id == name):
        return None
    if len(move.args) + len(move.keywords) > 1:
        return None
    created = creation_of(semantics, receiver)
    facts = factory_facts(semantics.name(created.func)) if created is not None else None
    direct = facts is not None and facts.takes_device and not facts.like
    if created is not None and direct and all(item.arg not in ("device", None) for item in created.keywords):
        return FixPlan(
            f"Create it with `device={device}`", "unsafe", lambda e: _create(e, move, receiver, created, device)
        )
    text = f".to({device})"
    return FixPlan(f"Use `{text}`", "unsafe", lambda edit: edit.replace(move, edit.source(receiver) + text))


def _create(edit: Editor, move: ast.Call, receiver: ast.expr, created: ast.Call, device: str) -> None:
    (start, end), (outer, _) = edit.span(created), edit.span(receiver)
    source = edit.source(receiver)
    made = with_keyword(edit.source(created), "device", device)
    edit.replace(move, source[: start - outer] + made + source[end - outer :])


def _tensor_parameter(method: FunctionNode, semantics: Semantics) -> str | None:
    """The first parameter of a method that is a tensor, and is not bound again to anything else."""
    positional = [*method.args.posonlyargs, *method.args.args]
    own = positional if is_static(method) else positional[1:]
    forward_input = own[0] if own and method.name == "forward" and not method.args.defaults else None
    for item in own:
        if item.annotation is None and item is forward_input:
            return item.arg
        if item.annotation is not None and semantics.is_named(item.annotation, "torch.Tensor"):
            return item.arg
    return None
