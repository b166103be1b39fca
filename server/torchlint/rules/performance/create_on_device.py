from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.fixes.arguments import position_of, with_keyword, without_argument
from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.values.creations import creation_of
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.hard_coded_devices import hard_coded_move
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import Grade
from torchlint.semantics.nodes import has_unknown_arguments, targets_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import FactoryFacts, factory_facts

#: These wrap data that is there already, so that nothing is created on the CPU.
_WRAP_DATA = frozenset(("torch.as_tensor", "torch.asarray"))
#: These are given data of the host, which has to be copied anyway.
_TAKE_DATA = frozenset(("torch.tensor", "torch.scalar_tensor"))
#: These are given tensors, or are methods of one.
_TAKE_TENSORS = ("torch.nested.", "torch.Tensor.", "torch.sparse_")
_MAKES_A_DIFFERENCE = ("device", "generator", "out", "pin_memory", "layout")


@dataclass(frozen=True, eq=False)
class _Move:
    """A ``.to(device)`` or ``.cuda()``: ``device`` is the argument (None: the current CUDA device)."""

    call: ast.Call
    device: ast.expr | None
    grade: Grade
    #: Whether nothing but the device is asked for.
    plain: bool


class CreateOnDevice(Rule):
    """## What it does

    Reports a tensor that is created on the CPU and then moved: `torch.zeros(n).to(device)`, `torch.rand(n).cuda()`.

    ## Why is this bad?

    The tensor is allocated and filled in host memory and copied over the bus, and the copy waits for the host. With
    `device=` it is made where it is needed.

    ## Example

    ```python
    import torch

    device = torch.device("cuda")
    hidden = torch.zeros(8, 128).to(device)
    ```

    ## Use instead

    ```python
    import torch

    device = torch.device("cuda")
    hidden = torch.zeros(8, 128, device=device)
    ```

    `torch.tensor(data).to(device)` is only a hint: its data are on the host, and `device=` saves one call.

    The fix of a random tensor (`randn`, `randint`, ...) is not safe: each device has a random number generator of its
    own, so other numbers are drawn.

    ## Exceptions

    `.to(dtype)` and `.to(other_tensor)`; `torch.from_numpy`, `torch.as_tensor` and the `..._like` functions; a tensor
    with `requires_grad=True` (it would become a leaf), with a `generator`, in pinned memory or with a device already;
    code under `with torch.device(...)` or after `torch.set_default_device`; a CUDA device that a module names in a
    method of its own, which `hard-coded-device-in-module` reports.

    ## References

    - [Performance Tuning Guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL601"
    name = "create-on-device"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The tensor is made on the CPU and copied; `device=` makes it where it is needed."

    @on_method("to", "cuda")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        move = _move(call, unit)
        if move is None:
            return
        assert isinstance(call.func, ast.Attribute)
        factory = creation_of(unit.semantics, call.func.value)
        earlier = None
        if factory is None:
            earlier, factory = _statement_before(call, unit)
        if factory is None:
            return
        facts = factory_facts(unit.semantics.name(factory.func))
        if facts is None or not _is_created_on_cpu(factory, facts, unit) or _device_is_set_around(call, unit):
            return
        if hard_coded_move(unit.semantics, call) is not None:
            return  # TL125 says more: the device is the input's
        shown = ast.unparse(factory.func)
        message = f"`{shown}` makes the tensor on the CPU and `.{_shown_call(call)}` copies it: "
        # The data of `torch.tensor` come from the host in any case; only one tensor and one call are saved.
        has_data = facts.name in _TAKE_DATA
        message += f"`device={_shown_device(move)}` " + ("does both in one call." if has_data else "makes it there.")
        safe = facts.deterministic and move.grade is Grade.PROVEN
        fix = FixPlan(
            f"Create it with `device={_shown_device(move)}`",
            "safe" if safe else "unsafe",
            lambda edit: _rewrite(edit, factory, move, earlier is not None),
        )
        related = [(factory, "created here")] if earlier is not None else []
        severity = Severity.HINT if has_data else None
        yield self.found(call, message, related=related, fixes=[fix], severity=severity)


def _move(call: ast.Call, unit: Unit) -> _Move | None:
    """The call as a move to a device that is not the CPU."""
    assert isinstance(call.func, ast.Attribute)
    if has_unknown_arguments(call):
        return None
    keywords = {item.arg: item.value for item in call.keywords}
    if not keywords.keys() <= {"device", "dtype", "non_blocking"}:
        return None
    device = keywords.get("device") or (call.args[0] if call.args else None)
    if device is None:
        return _Move(call, None, Grade.PROVEN, True) if call.func.attr == "cuda" else None
    literal = unit.semantics.literal(device)
    if literal is None or (isinstance(literal, str) and literal.startswith("cpu")):
        return None
    grade = device_evidence(unit.semantics, device)
    if call.func.attr == "cuda":
        grade = grade or Grade.LIKELY
    if grade is None or _is_cpu(device, unit):
        return None
    plain = "dtype" not in keywords and (len(call.args) < 2 or call.func.attr == "cuda")
    return _Move(call, device, grade, plain)


def _is_cpu(device: ast.expr, unit: Unit) -> bool:
    value = unit.semantics.value_of(device)
    if not isinstance(value, ast.Call) or not unit.semantics.is_named(value.func, "torch.device") or not value.args:
        return False
    return unit.semantics.literal(value.args[0]) == "cpu"


def _statement_before(call: ast.Call, unit: Unit) -> tuple[ast.stmt | None, ast.Call | None]:
    """``x = torch.zeros(n)`` right before ``x = x.to(device)``: that statement and the creation."""
    assert isinstance(call.func, ast.Attribute)
    statement, receiver = parent_of(call), call.func.value
    targets = targets_of(statement)
    if not isinstance(statement, ast.stmt) or not isinstance(receiver, ast.Name) or len(targets) != 1:
        return None, None
    (target,) = targets
    definitions = unit.semantics.definitions(receiver)
    if not isinstance(target, ast.Name) or target.id != receiver.id or len(definitions) != 1:
        return None, None
    (definition,) = definitions
    before = definition.node
    if definition.kind is not Binding.ASSIGNMENT or definition.path or definition.value is None:
        return None, None
    if (
        len(targets_of(before)) != 1
        or not isinstance(before, ast.stmt)
        or not _is_right_before(before, statement, unit)
    ):
        return None, None
    return before, creation_of(unit.semantics, definition.value)


def _is_right_before(first: ast.stmt, second: ast.stmt, unit: Unit) -> bool:
    holder = parent_of(first)
    blocks = [getattr(holder, name, None) for name in ("body", "orelse", "finalbody")]
    if holder is None:
        blocks = [[statement for index in unit.indexes for statement in index.part.body]]
    for block in blocks:
        if isinstance(block, list) and first in block:
            place = block.index(first)
            return block[place + 1 : place + 2] == [second]
    return False


def _is_created_on_cpu(factory: ast.Call, facts: FactoryFacts, unit: Unit) -> bool:
    if facts.like or facts.name in _WRAP_DATA or facts.name.startswith(_TAKE_TENSORS):
        return False
    given = {item.arg: item.value for item in factory.keywords}
    if None in given or any(name in given for name in _MAKES_A_DIFFERENCE):
        return False
    if facts.name == "torch.normal" and "size" not in given and len(factory.args) < 3:
        return False  # drawn around given tensors: there is no `device=` then
    gradient = given.get("requires_grad")
    return gradient is None or unit.semantics.literal(gradient) is False


def _device_is_set_around(call: ast.Call, unit: Unit) -> bool:
    """Whether new tensors may be made on another device than the CPU here."""
    module = unit.semantics.module
    if module.mentions_call("set_default_device") or module.mentions_call("set_default_tensor_type"):
        return True
    holder = parent_of(call)
    while holder is not None:
        if isinstance(holder, ast.With):
            for item in holder.items:
                context = item.context_expr
                if unit.semantics.is_call_to(context, "torch.device") or device_evidence(unit.semantics, context):
                    return True
        holder = parent_of(holder)
    return False


def _shown_call(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    text = ast.unparse(call)[len(ast.unparse(call.func.value)) + 1 :]
    return text.replace("'", '"') if len(text) <= 60 else f"{call.func.attr}(...)"


def _shown_device(move: _Move) -> str:
    if move.device is None:
        return '"cuda"'
    text = ast.unparse(move.device)
    return text.replace("'", '"') if len(text) <= 40 else "..."


def _rewrite(edit: Editor, factory: ast.Call, move: _Move, is_statement: bool) -> None:
    device = edit.source(move.device) if move.device is not None else '"cuda"'
    if is_statement:
        edit.add_keyword(factory, "device", device)
        if move.plain or move.device is None:
            edit.remove_statement(edit.statement_of(move.call))
        else:
            edit.remove_argument(move.call, move.device)
        return
    # The creation stands inside the move: both are rewritten as one text.
    assert isinstance(move.call.func, ast.Attribute)
    kept = move.call.func.value if move.plain else move.call
    (start, end), (outer, _) = edit.span(factory), edit.span(kept)
    source = edit.source(kept)
    text = source[: start - outer] + with_keyword(edit.source(factory), "device", device) + source[end - outer :]
    if not move.plain and move.device is not None:
        text = without_argument(text, position_of(move.call, move.device))
    edit.replace(move.call, text)
