from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.modules.used_as_module import is_treated_as_module
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.gpu_tensors import is_on_cpu
from torchlint.idioms.values.invariants import LoopNode, loops_around, may_be_changed, stays_the_same
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.nodes import (
    begins_before,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    scope_at,
    statement_of,
    targets_of,
)
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Functions that compute with each tensor that they are given by itself.
_FUNCTIONS = (
    "torch.nn.functional.",
    "torch.matmul",
    "torch.mm",
    "torch.bmm",
    "torch.cdist",
    "torch.where",
    "torch.index_select",
)
_MOVES = ("to", "cuda", "cpu", "to_empty", "load")


class RedundantTransfer(Rule):
    """## What it does

    Reports `.to(device)` and `.cuda()` in a loop on a tensor that is the same in each iteration, and on a module that
    is there already.

    ## Why is this bad?

    The same numbers are copied over the bus in every iteration, and the copy waits for the host. A module is walked
    through, with all of its parameters, to find that nothing is to be done.

    ## Example

    ```python
    import torch

    weights = torch.tensor([1.0, 4.0])
    for images, labels in loader:
        logits = model(images.to(device))
        loss = torch.nn.functional.cross_entropy(logits, labels.to(device), weights.to(device))
    ```

    ## Use instead

    ```python
    import torch

    weights = torch.tensor([1.0, 4.0])
    weights_on_device = weights.to(device)
    for images, labels in loader:
        logits = model(images.to(device))
        loss = torch.nn.functional.cross_entropy(logits, labels.to(device), weights_on_device)
    ```

    The fix is not safe: the copies are one object then.

    ## Exceptions

    A tensor or device that the loop binds again or may change in place, a copy that is changed in place, a call under a
    condition, `x = x.to(device)` (only the first one copies), a tensor that was made on a device or moved there before,
    loops that wait for the GPU to measure something, and modules that something else in the file moves, too.

    ## References

    - [Performance Tuning Guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization)
    """

    code = "TL606"
    name = "redundant-transfer"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The same data are copied to the device in every iteration; once before the loop is enough."

    @on_method("to", "cuda")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        path = dotted(receiver)
        if path is None or not _is_move(call, semantics):
            return
        loop = _outermost(call, semantics)
        if loop is None:
            return
        if _binds(call, path):
            return
        is_module = _is_module(call, receiver, semantics)
        if is_module:
            if not _is_moved_here_alone(call, semantics):
                return
            message = (
                f"`{path}` is a module, which stays where it was moved: in each iteration all its parameters are "
                "walked through for nothing."
            )
        elif (
            _is_tensor(call, receiver, semantics)
            and not _changes(call, path, loop, semantics)
            and not _is_measured(loop)
        ):
            on_cpu = is_on_cpu(semantics, receiver)
            if on_cpu is False:
                return
            copied = "copied again in each" if on_cpu else "moved in each, which copies it unless it is there already"
            message = f"`{path}` is the same in each iteration and is {copied}: move it before the loop."
        else:
            return
        fix = FixPlan("Move it before the loop", "unsafe", lambda edit: _hoist(edit, call, loop, is_module))
        yield self.found(call, message, related=[(loop, "in each iteration of this loop")], fixes=[fix])


def _is_module(call: ast.Call, receiver: ast.expr, semantics: Semantics) -> bool:
    """Whether what is moved is a module: for certain, or by a statement that would do nothing to anything else."""
    kind = semantics.kind(receiver)
    if kind is not None and kind.proven:
        return kind.is_module
    if kind is not None and not kind.is_module:
        return False
    in_place = isinstance(parent_of(call), ast.Expr) and is_treated_as_module(receiver, semantics)
    return in_place or any(_is_called(copy) for copy in _copies(call))


def _is_called(copy: ast.expr) -> bool:
    holder = parent_of(copy)
    return isinstance(holder, ast.Call) and holder.func is copy and bool(holder.args)


def _is_tensor(call: ast.Call, receiver: ast.expr, semantics: Semantics) -> bool:
    """Whether what is moved is a tensor: for certain, or because a function of torch computes with the copy."""
    kind = semantics.kind(receiver)
    if kind is not None:
        return kind.is_tensor and (kind.proven or any(_is_computed_with(copy, semantics) for copy in _copies(call)))
    return any(_is_computed_with(copy, semantics) for copy in _copies(call))


def _is_computed_with(copy: ast.expr, semantics: Semantics) -> bool:
    holder = parent_of(copy)
    if isinstance(holder, ast.keyword):
        holder = parent_of(holder)
    if isinstance(holder, ast.Call):
        return holder.func is not copy and semantics.name(holder.func).startswith(_FUNCTIONS)
    return isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.MatMult)


def _copies(call: ast.Call) -> Iterator[ast.expr]:
    """The call itself, and the uses of the name that its statement gives the copy."""
    yield call
    match parent_of(call):
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) as statement:
            scope = enclosing_function(statement)
            for use in nodes_within(scope, ast.Name) if scope is not None else ():
                if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load):
                    yield use


def _is_move(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call moves to a device, and does nothing else."""
    assert isinstance(call.func, ast.Attribute)
    if has_unknown_arguments(call):
        return False
    keywords = {item.arg: item.value for item in call.keywords}
    if len(call.args) > 1 or not keywords.keys() <= {"device", "non_blocking"}:
        return False
    device = call.args[0] if call.args else keywords.get("device")
    if device is None:
        return call.func.attr == "cuda"
    return call.func.attr == "cuda" or device_evidence(semantics, device) is not None


def _outermost(call: ast.Call, semantics: Semantics) -> LoopNode | None:
    """The outermost loop around a call, of those in which nothing of it changes."""
    assert isinstance(call.func, ast.Attribute)
    given = [call.func.value, *call.args, *(item.value for item in call.keywords)]
    found: LoopNode | None = None
    for loop in loops_around(call):
        if not all(stays_the_same(semantics, expression, loop) for expression in given):
            return found
        found = loop
    return found


def _binds(call: ast.Call, path: str) -> bool:
    """Whether this is ``x = x.to(device)``."""
    return any(dotted(target) == path for target in targets_of(parent_of(call)))


def _changes(call: ast.Call, path: str, loop: LoopNode, semantics: Semantics) -> bool:
    """Whether the tensor or its copy may be changed in place in the loop, so that each iteration needs its own."""
    if may_be_changed(semantics, path, loop, by_calls=True):
        return True
    match parent_of(call):
        case ast.Assign() | ast.AnnAssign() as statement:
            names = [dotted(target) for target in targets_of(statement)]
            return any(
                name is None or "." in name or may_be_changed(semantics, name, loop, by_calls=False) for name in names
            )
        case ast.Attribute(attr=attribute):
            return attribute.endswith("_")
        case ast.Subscript(ctx=context):
            return not isinstance(context, ast.Load)
        case _:
            return False


def _is_measured(loop: LoopNode) -> bool:
    """Whether a loop waits for the GPU, as those do that measure the copy."""
    return any(
        isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "synchronize"
        for call in nodes_within(loop, ast.Call)
    )


def _is_moved_here_alone(call: ast.Call, semantics: Semantics) -> bool:
    """Whether no other call in the file moves something of that last name."""
    assert isinstance(call.func, ast.Attribute)
    last = (dotted(call.func.value) or "").rpartition(".")[2]
    return not any(
        other is not call
        and isinstance(other.func, ast.Attribute)
        and (dotted(other.func.value) or "").rpartition(".")[2] == last
        for name in _MOVES
        for other in semantics.module.calls_of(name)
    )


def _hoist(edit: Editor, call: ast.Call, loop: LoopNode, is_module: bool) -> None:
    assert isinstance(call.func, ast.Attribute)
    source = edit.source(call)
    statement = statement_of(call)
    if isinstance(statement, ast.Expr) and statement.value is call:
        edit.insert_statement_before(loop, source)
        edit.remove_statement(statement)
        return
    if is_module:
        edit.insert_statement_before(loop, source)
        edit.replace_by_operand(call, call.func.value)
        return
    if (
        isinstance(statement, ast.Assign | ast.AnnAssign)
        and statement.value is call
        and len(targets_of(statement)) == 1
    ):
        target = targets_of(statement)[0]
        if isinstance(target, ast.Name) and statement in loop.body and _is_bound_once(target, loop):
            edit.insert_statement_before(loop, edit.source(statement))
            edit.remove_statement(statement)
            return
    name = _free_name(call)
    edit.insert_statement_before(loop, f"{name} = {source}")
    edit.replace(call, name)


def _is_bound_once(target: ast.Name, loop: LoopNode) -> bool:
    bound = [
        node
        for node in nodes_within(loop, ast.Name)
        if isinstance(node, ast.Name) and node.id == target.id and not isinstance(node.ctx, ast.Load)
    ]
    return bound == [target] and target.id not in {
        node.id for node in nodes_within(loop, ast.Name) if isinstance(node, ast.Name) and begins_before(node, target)
    }


def _free_name(call: ast.Call) -> str:
    """``weights_on_device``, or with a number where that is taken."""
    assert isinstance(call.func, ast.Attribute)
    name = (dotted(call.func.value) or "tensor").rpartition(".")[2].strip("_") + "_on_device"
    taken = scope_at(call).definitions
    return next(
        candidate for candidate in (name, *(f"{name}_{number}" for number in range(2, 99))) if candidate not in taken
    )
