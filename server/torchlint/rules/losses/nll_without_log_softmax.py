from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.values.losses import SOFTMAX_FUNCTIONS, SOFTMAXES, LossCall, last_operations_among, removable
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_loss
from torchlint.semantics.unit import Unit

_LOSSES = ("torch.nn.NLLLoss", "torch.nn.NLLLoss2d", "torch.nn.functional.nll_loss")


class NllWithoutLogSoftmax(Rule):
    """## What it does

    Reports a negative log-likelihood loss (`NLLLoss`, `nll_loss`) that is given probabilities: its input comes out of a
    softmax, in the call, through a name, or at the end of the model's `forward` or `Sequential`.

    ## Why is this bad?

    The loss picks the value of the right class and negates it; it takes no logarithm. Of probabilities it is a negative
    number that falls to -1 at best, and its gradient does not push wrong answers away.

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

    A logarithm between the softmax and the loss.

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
            return
        message = (
            f"{loss.shown} expects log-probabilities, but {loss.shown_prediction} are probabilities: "
            "the loss is negative and does not fit."
        )
        related = [(operation.node, "the softmax") for operation in operations[:3]]
        fixes = []
        direct = removable(loss, operations)
        if direct is not None and operations[0].name in SOFTMAX_FUNCTIONS:
            softmax = direct[0]
            assert isinstance(softmax, ast.Call)
            fixes = [FixPlan("Use `log_softmax`", "unsafe", lambda edit: edit.rename_called(softmax, "log_softmax"))]
        yield self.found(loss.prediction, message, related=related, fixes=fixes)
