from __future__ import annotations

from collections.abc import Iterator

from torchlint.idioms.values.losses import SIGMOIDS, LossCall, last_operations_among, removable
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_loss
from torchlint.semantics.unit import Unit

_LOSSES = (
    "torch.nn.BCEWithLogitsLoss",
    "torch.nn.MultiLabelSoftMarginLoss",
    "torch.nn.functional.binary_cross_entropy_with_logits",
    "torch.nn.functional.multilabel_soft_margin_loss",
    "torchvision.ops.sigmoid_focal_loss",
)


class SigmoidBeforeBceWithLogits(Rule):
    """## What it does

    Reports a loss on logits (`BCEWithLogitsLoss`, `binary_cross_entropy_with_logits`, `MultiLabelSoftMarginLoss`,
    torchvision's `sigmoid_focal_loss`) whose input has been through a sigmoid: right in the call, through a name, or at
    the end of the `forward` (or the `Sequential`) of the model that made it.

    ## Why is this bad?

    The loss applies the sigmoid itself. Applied twice it maps every input to a probability between 0.5 and 0.73: the
    model cannot say "no", and what it learns is wrong although nothing fails.

    ## Example

    ```python
    import torch
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.binary_cross_entropy_with_logits(torch.sigmoid(model(images)), labels)
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.binary_cross_entropy_with_logits(model(images), labels)
    ```

    Take the sigmoid only where probabilities are reported.

    ## Exceptions

    The target of the loss may be a sigmoid. A model that returns logits and probabilities is followed by position, and
    one that applies the sigmoid on some paths only (in evaluation mode, say) is not reported.

    ## References

    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL303"
    name = "sigmoid-before-bce-with-logits"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The loss applies the sigmoid itself, so this input is squashed twice."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        operations = last_operations_among(unit.semantics, loss, SIGMOIDS)
        if not operations:
            return
        message = (
            f"{loss.shown} applies the sigmoid itself, but {loss.shown_prediction} has been through one: "
            "every probability ends up between 0.5 and 0.73."
        )
        related = [(operation.node, "the sigmoid") for operation in operations[:3]]
        fixes = []
        direct = removable(loss, operations)
        if direct is not None:
            sigmoid, logits = direct
            fixes = [FixPlan("Pass the logits", "unsafe", lambda edit: edit.replace_by_operand(sigmoid, logits))]
        yield self.found(loss.prediction, message, related=related, fixes=fixes)
