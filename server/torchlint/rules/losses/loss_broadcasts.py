from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from torchlint.finding import Severity
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.columns import PAIRS, Layout, layout_of, output_layout
from torchlint.idioms.values.formulas import applied, squared
from torchlint.idioms.values.losses import BROADCASTING, LossCall
from torchlint.idioms.values.tensor_sizes import sizes_of
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
    round, where the code proves both. The same for images of one channel, (N, 1, H, W) against (N, H, W), and for other
    known shapes of as many values that broadcast to more.

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
                if output_layout(semantics, left) or output_layout(semantics, right):
                    yield from self._check(difference, "The difference", left, right, semantics, "")

    def _check(
        self, node: ast.expr, shown: str, prediction: ast.expr, target: ast.expr, semantics: Semantics, loss: str
    ) -> Iterator[Diagnosis]:
        first = layout_of(semantics, prediction)
        second = layout_of(semantics, target) if first is not None else None
        found = next((result for pair, result in PAIRS if pair == {first, second}), None)
        if found is not None and first is not None and second is not None:
            column = prediction if first in (Layout.COLUMN, Layout.IMAGES) else target
            shapes, fixes = (first.value, second.value), [_squeezed(column)]
        else:
            sizes = _broadcast_sizes(semantics, prediction, target)
            if sizes is None:
                return
            shapes, found, fixes = (str(sizes[0]), str(sizes[1])), str(sizes[2]), []
        raises = loss in _RAISING
        result = "it raises." if raises else f"they broadcast to {found}, and each value is compared with each other."
        yield self.found(
            node,
            f"{shown} gets `{shortened(prediction, 50)}` of shape {shapes[0]} and `{shortened(target, 50)}` of shape "
            f"{shapes[1]}: {result}",
            fixes=fixes,
            severity=Severity.ERROR if raises else None,
        )


def _broadcast_sizes(
    semantics: Semantics, prediction: ast.expr, target: ast.expr
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """The known sizes of two tensors with as many elements as each other that broadcast to more, and those of the
    result."""
    sizes = [sizes_of(semantics, value) for value in (prediction, target)]
    known = [tuple(size for size in one if size is not None) for one in sizes if one is not None and None not in one]
    if len(known) != 2 or known[0] == known[1] or prod(known[0]) != prod(known[1]):
        return None
    rank = max(map(len, known))
    first, second = ((1,) * (rank - len(one)) + one for one in known)
    if any(one != other and 1 not in (one, other) for one, other in zip(first, second, strict=True)):
        return None  # torch raises
    result = tuple(map(max, zip(first, second, strict=True)))
    return (known[0], known[1], result) if prod(result) > prod(known[0]) else None


def _squeezed(column: ast.expr) -> FixPlan:
    title = f"Use `{shortened(column, 50)}.squeeze(1)`"
    if isinstance(column, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return FixPlan(title, "unsafe", lambda edit: edit.insert_after(column, ".squeeze(1)"))
    return FixPlan(title, "unsafe", lambda edit: edit.wrap(column, "(", ").squeeze(1)"))
