from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.idioms.values.dataflow import last_operations
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class ImplicitSoftmaxDim(Rule):
    """## What it does

    Reports `F.softmax`, `F.log_softmax`, `F.softmin` and `nn.Softmax`, `nn.LogSoftmax`, `nn.Softmin` without `dim`.
    `torch.softmax(x)` and `x.softmax()` without `dim` raise and are reported as errors.

    ## Why is this bad?

    Without `dim` the axis is guessed from the number of axes: axis 0 for one or three axes, else axis 1. A batch of
    sequences is then normalised over the batch. torch warns about it, and the guess is deprecated.

    ## Example

    ```python
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(16, 4)


    def predict(features):
        return F.softmax(head(features))
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(16, 4)


    def predict(features):
        return F.softmax(head(features), dim=-1)
    ```

    The fix is offered where the input is the output of a linear layer, whose classes lie on the last axis.

    ## Exceptions

    Calls that unpack arguments.

    ## References

    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    """

    code = "TL307"
    name = "implicit-softmax-dim"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Without `dim` the axis that is normalised is guessed from the number of axes."

    @on_call("torch.nn.functional.softmax", "torch.nn.functional.log_softmax", "torch.nn.functional.softmin")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if _lacks_dim(call, 1, unit):
            after_linear = _is_output_of_linear(argument(call, 0, "input"), unit)
            yield self._guessed(call, after_linear)

    @on_call("torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin")
    def check_layer(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if _lacks_dim(call, 0, unit):
            yield self._guessed(call, _follows_linear(call, unit))

    @on_call("torch.softmax", "torch.log_softmax", "torch.special.softmax", "torch.special.log_softmax")
    def check_raising(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if call.args and _lacks_dim(call, 1, unit):
            yield self._raises(call, _is_output_of_linear(argument(call, 0, "input"), unit))

    @on_method("softmax", "log_softmax")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if unit.semantics.names(call.func) or not _lacks_dim(call, 0, unit):
            return
        kind = unit.semantics.kind(call.func.value)
        if kind is not None and kind.is_tensor:
            yield self._raises(call, _is_output_of_linear(call.func.value, unit))

    def _guessed(self, call: ast.Call, after_linear: bool) -> Diagnosis:
        message = f"`{ast.unparse(call.func)}` without `dim` guesses the axis: 0 for one or three axes, else 1."
        return self.found(call, message, fixes=_fixes(call) if after_linear else [])

    def _raises(self, call: ast.Call, after_linear: bool) -> Diagnosis:
        message = f"`{ast.unparse(call.func)}` without `dim` raises: the axis has to be given."
        return self.found(call, message, fixes=_fixes(call) if after_linear else [], severity=Severity.ERROR)


def _lacks_dim(call: ast.Call, position: int, unit: Unit) -> bool:
    given = argument(call, position, "dim") or argument(call, None, "axis")
    return not has_unknown_arguments(call) and (given is None or unit.semantics.literal(given) is None)


def _is_output_of_linear(expression: ast.expr | None, unit: Unit) -> bool:
    if expression is None:
        return False
    operations = last_operations(unit.semantics, expression)
    return bool(operations) and all(operation.name == "torch.nn.Linear" for operation in operations)


def _follows_linear(layer: ast.Call, unit: Unit) -> bool:
    """Whether the layer stands right behind a linear one in a Sequential."""
    holder = parent_of(layer)
    if not isinstance(holder, ast.Call) or layer not in holder.args or holder.args[0] is layer:
        return False
    kind = unit.semantics.kind(holder.args[holder.args.index(layer) - 1])
    return kind is not None and kind.origin == "torch.nn.Linear"


def _fixes(call: ast.Call) -> list[FixPlan]:
    if any(item.arg == "dim" for item in call.keywords) or len(call.args) > 1:
        return []
    return [FixPlan("Use `dim=-1`", "unsafe", lambda edit: edit.add_keyword(call, "dim", "-1"))]
