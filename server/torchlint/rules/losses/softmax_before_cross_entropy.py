from __future__ import annotations

from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.idioms.values.losses import LOG_SOFTMAXES, SOFTMAXES, LossCall, last_operations_among, removable
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_loss
from torchlint.semantics.unit import Unit

_LOSSES = ("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy")


class SoftmaxBeforeCrossEntropy(Rule):
    """## What it does

    Reports a cross-entropy loss whose input has been through a softmax: right in the call, through a name, or at the
    end of the `forward` (or the `Sequential`) of the model that made it. A `log_softmax` there is only redundant and
    reported as a hint.

    ## Why is this bad?

    `cross_entropy` and `CrossEntropyLoss` take logits and apply log-softmax themselves. Probabilities lie between 0
    and 1, so the second softmax makes them nearly equal: with ten classes the loss cannot fall below about 1.46, the
    gradients shrink, and the model trains slowly or not at all, without any error.

    ## Example

    ```python
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.cross_entropy(F.softmax(model(images), dim=1), labels)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def training_step(model, images, labels):
        return F.cross_entropy(model(images), labels)
    ```

    Take the softmax only where probabilities are reported.

    ## Exceptions

    The target of the loss may be a softmax (soft labels). A model that returns logits and probabilities is followed by
    position, and one that applies the softmax on some paths only (in evaluation mode, say) is not reported.

    ## References

    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL301"
    name = "softmax-before-cross-entropy"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Cross-entropy applies log-softmax itself, so this input is normalised twice."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        operations = last_operations_among(unit.semantics, loss, SOFTMAXES | LOG_SOFTMAXES)
        if not operations:
            return
        severity = None
        if any(operation.name in SOFTMAXES for operation in operations):
            message = (
                f"{loss.shown} applies log-softmax itself, but {loss.shown_prediction} has been through a softmax: "
                "the loss flattens out and its gradients shrink."
            )
        else:
            severity = Severity.HINT
            message = (
                f"{loss.shown} applies log-softmax itself: the `log_softmax` that {loss.shown_prediction} has been "
                "through is redundant."
            )
        related = [(operation.node, "the softmax") for operation in operations[:3]]
        fixes = []
        direct = removable(loss, operations)
        if direct is not None:
            softmax, logits = direct
            fixes = [
                FixPlan("Pass the logits", "unsafe", lambda edit: edit.replace_by_operand(softmax, logits)),
            ]
        yield self.found(loss.prediction, message, related=related, fixes=fixes, severity=severity)
