from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit


class AlignCorners(Rule):
    """## What it does

    Reports `grid_sample` and `affine_grid` without `align_corners`.

    ## Why is this bad?

    The default changed from `True` to `False` in torch 1.3, and torch warns as long as the argument is missing. Code
    that was written or trained with the old default samples other places. The two functions have to be given the same.

    ## Example

    ```python
    import torch.nn.functional as F


    def warp(image, theta, size):
        grid = F.affine_grid(theta, size, align_corners=False)
        return F.grid_sample(image, grid)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def warp(image, theta, size):
        grid = F.affine_grid(theta, size, align_corners=False)
        return F.grid_sample(image, grid, align_corners=False)
    ```

    ## Exceptions

    Calls that unpack arguments, and code for several versions of torch (the argument came with 1.3). `interpolate` does
    not warn and is not reported.

    ## References

    - [torch.nn.functional.grid_sample](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html)
    """

    code = "TL407"
    name = "align-corners"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The default of `align_corners` has changed; torch warns when it is missing."

    @on_call("torch.nn.functional.grid_sample")
    def check_grid_sample(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, 4, unit)

    @on_call("torch.nn.functional.affine_grid")
    def check_affine_grid(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, 2, unit)

    def _check(self, call: ast.Call, position: int, unit: Unit) -> Iterator[Diagnosis]:
        if has_unknown_arguments(call) or argument(call, position, "align_corners") is not None:
            return
        if in_version_fallback(unit.semantics, call):
            return
        message = f"`{ast.unparse(call.func)}` without `align_corners` warns: the default is `False` since torch 1.3."
        fix = FixPlan(
            "Give `align_corners=False`", "safe", lambda edit: edit.add_keyword(call, "align_corners", "False")
        )
        yield self.found(call, message, fixes=[fix])
