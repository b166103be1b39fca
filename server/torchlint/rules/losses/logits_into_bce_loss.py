from __future__ import annotations

from collections.abc import Iterator

from torchlint.idioms.values.losses import LINEAR_LAYERS, LossCall, last_operations_among
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_loss
from torchlint.rules.losses._fixes import other_loss_fixes
from torchlint.semantics.unit import Unit

_LOSSES = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")


class LogitsIntoBceLoss(Rule):
    """## What it does

    Reports `BCELoss` and `binary_cross_entropy` whose input is the plain output of a linear layer or convolution.

    ## Why is this bad?

    The loss takes probabilities. An output of a linear layer is any number: as soon as one is below 0 or above 1, the
    loss raises "all elements of input should be between 0 and 1" (a device assertion on a GPU).

    ## Example

    ```python
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(16, 1)


    def training_step(features, labels):
        return F.binary_cross_entropy(head(features), labels)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F
    from torch import nn

    head = nn.Linear(16, 1)


    def training_step(features, labels):
        return F.binary_cross_entropy_with_logits(head(features), labels)
    ```

    ## Exceptions

    A sigmoid or any other operation after the linear layer.

    ## References

    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL304"
    name = "logits-into-bce-loss"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The loss takes probabilities; raw outputs below 0 or above 1 make it raise."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        operations = last_operations_among(unit.semantics, loss, LINEAR_LAYERS)
        if not operations:
            return
        message = (
            f"{loss.shown} takes probabilities, but {loss.shown_prediction} is the plain output of "
            f"`{operations[0].name.rpartition('.')[2]}`: it raises for values outside of 0 and 1."
        )
        related = [(operation.node, "the last operation") for operation in operations[:3]]
        functions = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
        fixes = other_loss_fixes(loss, unit.semantics, functions, ("BCELoss", "BCEWithLogitsLoss"))
        yield self.found(loss.prediction, message, related=related, fixes=fixes)
