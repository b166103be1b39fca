from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.values.dataflow import Operation, last_operations
from torchlint.idioms.values.losses import SOFTMAXES, LossCall, last_operations_among
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_loss
from torchlint.rules.losses._fixes import log_softmax_fixes
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_MEANS = frozenset(("torch.mean", "torch.Tensor.mean"))
_LOSSES = ("torch.nn.KLDivLoss", "torch.nn.functional.kl_div")


class KlDivInputNotLog(Rule):
    """## What it does

    Reports `kl_div` and `KLDivLoss` whose first argument comes out of a softmax.

    ## Why is this bad?

    The first argument has to be log-probabilities, only the second one probabilities. Given probabilities the result is
    no divergence: it can be negative, and its minimum is not where the two distributions agree.

    ## Example

    ```python
    import torch.nn.functional as F


    def distill(student, teacher):
        return F.kl_div(F.softmax(student, dim=-1), F.softmax(teacher, dim=-1), reduction="batchmean")
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def distill(student, teacher):
        return F.kl_div(F.log_softmax(student, dim=-1), F.softmax(teacher, dim=-1), reduction="batchmean")
    ```

    ## Exceptions

    The target, which is right without a logarithm (`log_target=False` is the default).
    `torch.distributions.kl_divergence` takes distributions and is another function.

    ## References

    - [torch.nn.KLDivLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html)
    """

    code = "TL305"
    name = "kl-div-input-not-log"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The first argument of the KL divergence has to be log-probabilities."

    @on_loss(*_LOSSES)
    def check(self, loss: LossCall, unit: Unit) -> Iterator[Diagnosis]:
        direct_ones = last_operations_among(unit.semantics, loss, SOFTMAXES)
        operations = direct_ones or _averaged(unit.semantics, loss)
        if not operations:
            return
        message = (
            f"{loss.shown} expects log-probabilities first, but {loss.shown_prediction} are probabilities: "
            "the result is no divergence and may be negative."
        )
        related = [(operation.node, "the softmax") for operation in operations[:3]]
        fixes = log_softmax_fixes(loss, direct_ones)
        yield self.found(loss.prediction, message, related=related, fixes=fixes)


def _averaged(semantics: Semantics, loss: LossCall) -> tuple[Operation, ...]:
    """The softmaxes whose mean over some axis is the prediction on every path; empty where there is any other."""
    found: list[Operation] = []
    for mean in last_operations_among(semantics, loss, _MEANS):
        match mean.node:
            case ast.Call(func=ast.Attribute(value=operand), args=_) if mean.name == "torch.Tensor.mean":
                pass
            case ast.Call(args=[operand, *_]):
                pass
            case _:
                return ()
        found += last_operations(semantics, operand)
    return tuple(found) if all(operation.name in SOFTMAXES for operation in found) else ()
