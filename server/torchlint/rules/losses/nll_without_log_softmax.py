from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.values.losses import (
    LINEAR_LAYERS,
    SOFTMAXES,
    LossCall,
    last_operations_among,
)
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_loss
from torchlint.rules.losses._fixes import log_softmax_fixes, other_loss_fixes
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_LOSSES = ("torch.nn.NLLLoss", "torch.nn.NLLLoss2d", "torch.nn.functional.nll_loss")


class NllWithoutLogSoftmax(Rule):
    """## What it does

    Reports a negative log-likelihood loss (`NLLLoss`, `nll_loss`) that is given probabilities or plain outputs: its
    input comes out of a softmax or of a linear layer or convolution, in the call, through a name, or at the end of the
    model's `forward` or `Sequential`.

    ## Why is this bad?

    The loss picks the value of the right class and negates it; it takes no logarithm. Of probabilities it is a negative
    number that falls to -1 at best, and its gradient does not push wrong answers away. Of plain outputs it falls
    without end, as soon as they grow.

    ## Example

    ```python
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.nll_loss(F.softmax(model(images), dim=1), labels)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.nll_loss(F.log_softmax(model(images), dim=1), labels)
    ```

    Or give the logits to `F.cross_entropy`.

    ## Exceptions

    A logarithm between the softmax and the loss; `reduction="none"` on plain outputs, which picks one of them.

    ## References

    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    code = "TL302"
    name = "nll-without-log-softmax"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The loss expects log-probabilities and takes no logarithm itself."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        operations = last_operations_among(unit.semantics, loss, SOFTMAXES)
        if not operations:
            yield from self._check_plain(loss, unit)
            return
        message = (
            f"{loss.shown} expects log-probabilities, but {loss.shown_prediction} are probabilities: "
            "the loss is negative and does not fit."
        )
        related = [(operation.node, "the softmax") for operation in operations[:3]]
        fixes = log_softmax_fixes(loss, operations)
        yield self.found(loss.prediction, message, related=related, fixes=fixes)

    def _check_plain(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        """The output of a linear layer is no log-probability; without a reduction the loss may only pick from it."""
        operations = last_operations_among(unit.semantics, loss, LINEAR_LAYERS)
        maker = loss.built if loss.built is not None else loss.call
        if not operations or has_unknown_arguments(maker) or _picks(maker, unit) or _is_negated(loss.call):
            return
        message = (
            f"{loss.shown} expects log-probabilities, but {loss.shown_prediction} is the plain output of "
            f"`{operations[0].name.rpartition('.')[2]}`: the loss falls without end."
        )
        related = [(operation.node, "the last operation") for operation in operations[:3]]
        fixes = other_loss_fixes(loss, unit.semantics, ("nll_loss", "cross_entropy"), ("NLLLoss", "CrossEntropyLoss"))
        yield self.found(loss.prediction, message, related=related, fixes=fixes)


def _picks(maker: ast.Call, unit: Unit) -> bool:
    """Whether there is no reduction, or an unknown one: the loss then only picks the output of each class."""
    given = argument(maker, None, "reduction") or argument(maker, None, "reduce")
    return given is not None and unit.semantics.literal(given) not in ("mean", "sum")


def _is_negated(call: ast.Call) -> bool:
    return isinstance(parent_of(call), ast.UnaryOp)
