from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training.autocast import cuda_autocast_around
from torchlint.idioms.values.dataflow import Operation
from torchlint.idioms.values.losses import SIGMOIDS, LossCall, last_operations_among, loss_call, removable
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_loss
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_LOSSES = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")
#: What may stand between a model's output and the loss, and leaves the values as they are.
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten float".split())


class BceAfterSigmoid(Rule):
    """## What it does

    Reports `BCELoss` and `binary_cross_entropy` on the result of a sigmoid, as a hint; and any use of them under CUDA
    autocast, as an error.

    ## Why is this bad?

    The sigmoid and the logarithm of the loss cancel, and together they are computed exactly by `BCEWithLogitsLoss`.
    One after the other they are not: in float32 a sigmoid of more than 16.7 is 1, and the gradient of a confident wrong
    answer is 0. Under CUDA autocast the loss on probabilities raises "unsafe to autocast".

    ## Example

    ```python
    import torch
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.binary_cross_entropy(torch.sigmoid(model(images)), labels)
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.binary_cross_entropy_with_logits(model(images), labels)
    ```

    ## Exceptions

    A sigmoid at the end of a model whose output is used for more than losses (a discriminator whose probabilities are
    printed); one that is used only for losses is told once. Autocast on the CPU allows the loss.

    ## References

    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    - [Prefer binary_cross_entropy_with_logits](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "TL311"
    name = "bce-after-sigmoid"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "A sigmoid and a loss on probabilities lose what the loss on logits computes exactly."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        operations = last_operations_among(semantics, loss, SIGMOIDS)
        autocast = cuda_autocast_around(semantics, loss.call)
        related = [(operation.node, "the sigmoid") for operation in operations[:3]]
        fixes = _fixes(loss, operations, semantics)
        replacement = "`binary_cross_entropy_with_logits`" if _is_function(loss) else "`BCEWithLogitsLoss`"
        if autocast is not None and not is_expected_to_raise(loss.call):
            yield self.found(
                loss.call,
                f"{loss.shown} takes probabilities, and raises under CUDA autocast: {replacement} takes the logits.",
                related=[(autocast, "autocast begins here"), *related],
                fixes=fixes,
                severity=Severity.ERROR,
            )
        elif operations and _is_worth_a_hint(loss, operations, semantics):
            yield self.found(
                loss.prediction,
                f"{loss.shown_prediction[:1].upper()}{loss.shown_prediction[1:]} has been through a sigmoid: "
                f"{replacement} takes the logits and loses no precision.",
                related=related,
                fixes=fixes,
            )


def _is_function(loss: LossCall) -> bool:
    return loss.name.endswith("binary_cross_entropy")


def _fixes(loss: LossCall, operations: tuple[Operation, ...], semantics: Semantics) -> list[FixPlan]:
    """Takes the sigmoid away and uses the loss on logits: the function, or the instance if only this call uses it."""
    direct = removable(loss, operations)
    if direct is None:
        return []
    sigmoid, logits = direct
    if _is_function(loss):
        changed, name = loss.call, "binary_cross_entropy_with_logits"
    elif loss.built is not None and _is_only_call(loss, semantics):
        changed, name = loss.built, "BCEWithLogitsLoss"
    else:
        return []
    return [FixPlan(f"Use `{name}` on the logits", "unsafe", lambda e: _use_logits(e, changed, name, sigmoid, logits))]


def _use_logits(edit: Editor, changed: ast.Call, name: str, sigmoid: ast.expr, logits: ast.expr) -> None:
    edit.rename_called(changed, name)
    edit.replace_by_operand(sigmoid, logits)


def _is_only_call(loss: LossCall, semantics: Semantics) -> bool:
    """Whether the instance is made in the call, or is called nowhere else."""
    if loss.call.func is loss.built:
        return True
    name = last_name(loss.call.func)
    return semantics.is_named(loss.built.func if loss.built else None, "torch.nn.BCELoss") and (
        len(semantics.module.calls_of(name)) == 1 if name else False
    )


def _is_worth_a_hint(loss: LossCall, operations: tuple[Operation, ...], semantics: Semantics) -> bool:
    """A sigmoid inside of a model is told at the first loss, and only if nothing but losses uses the output."""
    inside = [operation for operation in operations if operation.through]
    if not inside:
        return True
    calls = [operation.through[0] for operation in inside]
    if any(not _is_only_for_losses(other, semantics) for call in calls for other in _same_calls(call, semantics)):
        return False
    nodes = {operation.node for operation in inside}
    name = last_name(loss.call.func)
    for earlier in semantics.module.calls_of(name) if name else ():
        if earlier is loss.call:
            return True
        other = loss_call(semantics, earlier)
        if other is not None and other.name in _LOSSES:
            found = last_operations_among(semantics, other, SIGMOIDS)
            if not nodes.isdisjoint(operation.node for operation in found):
                return False
    return True


def _same_calls(call: ast.Call, semantics: Semantics) -> tuple[ast.Call, ...]:
    """The calls in the file that are spelled like this one: the other outputs of the model."""
    name = last_name(call.func)
    return semantics.module.calls_of(name) if name else (call,)


def _is_only_for_losses(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the result of a call goes to losses and nowhere else, directly or by way of a name."""
    if _is_prediction(call, semantics):
        return True
    match parent_of(call):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            function = enclosing_function(call)
            if function is None:
                return False
            uses = [node for node in nodes_within(function, ast.Name) if getattr(node, "id", "") == name]
            read = [node for node in uses if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
            return all(_is_prediction(node, semantics) for node in read)
        case _:
            return False


def _is_prediction(node: ast.expr, semantics: Semantics) -> bool:
    """Whether an expression is an argument of a loss, perhaps in another shape."""
    current: ast.expr = node
    while True:
        parent = parent_of(current)
        outer = parent_of(parent) if isinstance(parent, ast.Attribute) and parent.attr in _SHAPES else None
        if not isinstance(outer, ast.Call):
            break
        current = outer
    return isinstance(parent, ast.Call) and current in parent.args and loss_call(semantics, parent) is not None
