from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.columns import Layout, is_output_column, layout_of
from torchlint.idioms.values.formulas import applied, squared
from torchlint.idioms.values.losses import BROADCASTING, LossCall
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_loss, on_method
from torchlint.semantics.nodes import argument, shortened
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

#: These compare shapes and raise (torch 2.13).
_RAISING = (
    "torch.nn.BCELoss",
    "torch.nn.BCEWithLogitsLoss",
    "torch.nn.functional.binary_cross_entropy",
    "torch.nn.functional.binary_cross_entropy_with_logits",
)


class LossBroadcasts(Rule):
    """## What it does

    Reports a loss between a column of predictions, shape (N, 1), and a row of targets, shape (N,), or the other way
    round, where the code proves both.

    ## Why is this bad?

    The two broadcast to (N, N): every prediction is compared with every target, and the model learns to predict the
    mean. torch only warns. `BCELoss` and `BCEWithLogitsLoss` raise.

    ## Example

    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(8, 1)
    inputs, targets = torch.randn(64, 8), torch.randn(64)
    loss = F.mse_loss(head(inputs), targets)
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(8, 1)
    inputs, targets = torch.randn(64, 8), torch.randn(64)
    loss = F.mse_loss(head(inputs).squeeze(1), targets)
    ```

    ## Exceptions

    Only one of the two shapes is known; targets whose shape a dataset or a `collate_fn` decides in code that is not
    plain; differences of all pairs that are no loss of a layer's output.

    ## References

    - [torch.nn.MSELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html)
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL312"
    name = "loss-broadcasts"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Shapes (N, 1) and (N,) broadcast to (N, N): each prediction is compared with each target."

    @on_loss(*BROADCASTING, *_RAISING)
    def check_loss(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        if loss.target is None or is_expected_to_raise(loss.call):
            return
        yield from self._check(loss.call, loss.shown, loss.prediction, loss.target, unit.semantics, loss.name)

    @on_method("mean", "sum")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if not unit.semantics.names(call.func):
            yield from self._check_formula(call, call.func.value, unit.semantics)

    @on_call("torch.mean", "torch.sum")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        operand = argument(call, 0, "input")
        if operand is not None:
            yield from self._check_formula(call, operand, unit.semantics)

    def _check_formula(self, call: ast.Call, operand: ast.expr, semantics: Semantics) -> Iterator[Diagnosis]:
        """``((prediction - target) ** 2).mean()`` and ``(prediction - target).abs().sum()``."""
        match squared(semantics, operand) or applied(semantics, operand, "abs"):
            case ast.BinOp(left=left, op=ast.Sub(), right=right) as difference:
                if is_output_column(semantics, left) or is_output_column(semantics, right):
                    yield from self._check(difference, "The difference", left, right, semantics, "")

    def _check(
        self, node: ast.expr, shown: str, prediction: ast.expr, target: ast.expr, semantics: Semantics, loss: str
    ) -> Iterator[Diagnosis]:
        first = layout_of(semantics, prediction)
        if first is None:
            return
        second = layout_of(semantics, target)
        if second is None or first is second:
            return
        column = prediction if first is Layout.COLUMN else target
        raises = loss in _RAISING
        result = "it raises." if raises else "they broadcast to (N, N), and each value is compared with each other."
        yield self.found(
            node,
            f"{shown} gets `{shortened(prediction, 50)}` of shape {first.value} and `{shortened(target, 50)}` of shape "
            f"{second.value}: {result}",
            fixes=[_squeezed(column)],
            severity=Severity.ERROR if raises else None,
        )


def _squeezed(column: ast.expr) -> FixPlan:
    title = f"Use `{shortened(column, 50)}.squeeze(1)`"
    if isinstance(column, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return FixPlan(title, "unsafe", lambda edit: edit.insert_after(column, ".squeeze(1)"))
    return FixPlan(title, "unsafe", lambda edit: edit.wrap(column, "(", ").squeeze(1)"))
