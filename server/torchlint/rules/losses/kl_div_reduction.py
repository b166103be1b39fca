from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit


class KlDivReduction(Rule):
    """## What it does

    Points out `kl_div` and `KLDivLoss` without `reduction=`, which average over all elements.

    ## Why is this bad?

    The divergence of two distributions is a sum over their support. The default, `"mean"`, divides by the number of
    samples *and* of classes, so the loss is too small by the number of classes; torch warns about it.
    `"batchmean"` divides by the number of samples only.

    ## Example

    ```python
    import torch.nn.functional as F


    def distill(student, teacher):
        return F.kl_div(student.log_softmax(-1), teacher.softmax(-1))
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def distill(student, teacher):
        return F.kl_div(student.log_softmax(-1), teacher.softmax(-1), reduction="batchmean")
    ```

    ## Exceptions

    Any explicit `reduction`.

    ## References

    - [torch.nn.KLDivLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html)
    """

    code = "TL306"
    name = "kl-div-reduction"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "The default reduction divides the divergence by the number of classes too."

    @on_call("torch.nn.functional.kl_div")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, 2)

    @on_call("torch.nn.KLDivLoss")
    def check_class(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, 0)

    def _check(self, call: ast.Call, first_option: int) -> Iterator[Diagnosis]:
        """``first_option``: the position of `size_average`, after which `reduce` and `reduction` follow."""
        options = ("size_average", "reduce", "reduction")
        given = [argument(call, first_option + place, name) for place, name in enumerate(options)]
        if has_unknown_arguments(call) or any(value is not None for value in given):
            return
        message = (
            f"`{ast.unparse(call.func)}` averages over classes too, which is no divergence: "
            '`reduction="batchmean"` averages over the batch only.'
        )
        fix = FixPlan(
            'Use `reduction="batchmean"`', "unsafe", lambda edit: edit.add_keyword(call, "reduction", '"batchmean"')
        )
        yield self.found(call, message, fixes=[fix])
