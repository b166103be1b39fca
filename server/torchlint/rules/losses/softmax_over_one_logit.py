from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.values.dataflow import shaping_operations
from torchlint.idioms.values.losses import LossCall
from torchlint.idioms.values.single_outputs import one_before, reason_for_one, single_column, single_output
from torchlint.idioms.values.softmaxes import (
    SOFTMAX_CALLS,
    SOFTMAX_LAYERS,
    SOFTMAX_METHODS,
    Softmax,
    softmax_function,
    softmax_method,
)
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_loss, on_method
from torchlint.semantics.nodes import argument, shortened
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class SoftmaxOverOneLogit(Rule):
    """## What it does

    Reports a softmax over an axis that holds one value (what `nn.Linear(n, 1)` gives, a convolution to one channel, an
    axis that was just added), and a cross-entropy loss whose input has one class.

    ## Why is this bad?

    A softmax makes the values of an axis add up to 1: of one value it makes 1, whatever it was, and a log-softmax makes
    0. Cross-entropy over one class is 0 for class 0, and raises an `IndexError` for class 1. Nothing is learned.

    ## Example

    ```python
    from torch import nn

    classifier = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    criterion = nn.CrossEntropyLoss()


    def training_step(features, labels):
        return criterion(classifier(features), labels)
    ```

    ## Use instead

    ```python
    from torch import nn

    classifier = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    criterion = nn.BCEWithLogitsLoss()


    def training_step(features, labels):
        return criterion(classifier(features).squeeze(1), labels.float())
    ```

    Or two outputs, and cross-entropy. For probabilities of one logit, `torch.sigmoid`.

    ## Exceptions

    Attention pooling: scores of shape (batch, steps, 1) with a softmax over the steps. For a linear layer only the last
    axis counts, and `dim=1` where its input was flattened. Scores that are reshaped or squeezed in between.

    ## References

    - [torch.nn.Softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html)
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL309"
    name = "softmax-over-one-logit"
    level = Level.ERROR
    summary = "A softmax of one value is always 1, and a cross-entropy over one class is always 0."

    @on_loss("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy")
    def check_loss(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        operations = shaping_operations(unit.semantics, loss.prediction)
        makers = [single_output(unit.semantics, operation) or single_column(operation) for operation in operations]
        if not makers or None in makers or makers[0] is None:
            return
        yield self.found(
            loss.prediction,
            f"{loss.shown} gets one class, for `{shortened(makers[0], 60)}` has one output: the loss is 0 for class 0, "
            "and class 1 raises.",
            related=[(makers[0], "one output")],
        )

    @on_call(*SOFTMAX_CALLS)
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(softmax_function(call), unit.semantics)

    @on_method(*SOFTMAX_METHODS)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(softmax_method(unit.semantics, call), unit.semantics)

    @on_call(*SOFTMAX_LAYERS)
    def check_layer(self, built: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        dim = semantics.literal(argument(built, 0, "dim"))
        if not isinstance(dim, int):
            return
        reason = one_before(semantics, built, dim)
        if reason is not None:
            yield self._reported(built, built, reason)
            return
        for call, operand in _runs(semantics, built):
            reason = reason_for_one(semantics, operand, dim)
            if reason is not None:
                yield self._reported(call, built, reason)

    def _check(self, softmax: Softmax | None, semantics: Semantics) -> Iterator[Diagnosis]:
        if softmax is None:
            return
        dim = semantics.literal(softmax.axis)
        reason = reason_for_one(semantics, softmax.operand, dim) if isinstance(dim, int) else None
        if reason is not None:
            yield self._reported(softmax.call, softmax.call, reason)

    def _reported(self, place: ast.Call, softmax: ast.Call, reason: ast.AST) -> Diagnosis:
        name = last_name(softmax.func) or "softmax"
        result = "0" if name.lower().startswith("log") else "1"
        return self.found(
            place,
            f"`{name}` is taken over an axis with one value (see `{shortened(reason, 60)}`): every result is {result}.",
            related=[(reason, "one value")],
        )


def _runs(semantics: Semantics, built: ast.Call) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of a layer with what each is applied to: right where it is made, or by its name or attribute."""
    match parent_of(built):
        case ast.Call(func=function, args=[operand]) as call if function is built:
            yield call, operand
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if value is built:
            for call in semantics.module.calls_of(name):
                kind = semantics.kind(call.func)
                if kind is not None and kind.node is built and len(call.args) == 1:
                    yield call, call.args[0]
