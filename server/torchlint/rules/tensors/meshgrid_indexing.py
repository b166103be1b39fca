from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.unit import Unit


class MeshgridIndexing(Rule):
    """## What it does

    Reports `torch.meshgrid` without `indexing=`.

    ## Why is this bad?

    torch warns that the argument will be required. The default, `"ij"`, is not that of NumPy (`"xy"`), so a reader
    cannot tell whether rows and columns are meant as they are.

    ## Example

    ```python
    import torch

    ys, xs = torch.meshgrid(torch.arange(4), torch.arange(5))
    ```

    ## Use instead

    ```python
    import torch

    ys, xs = torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")
    ```

    ## Exceptions

    Calls that unpack keywords, and code for several versions of torch (the argument came with 1.10).

    ## References

    - [torch.meshgrid](https://docs.pytorch.org/docs/stable/generated/torch.meshgrid.html)
    """

    code = "TL406"
    name = "meshgrid-indexing"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The argument `indexing` will be required; torch warns when it is missing."

    @on_call("torch.meshgrid")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if any(item.arg in (None, "indexing") for item in call.keywords) or in_version_fallback(unit.semantics, call):
            return
        message = f'`{ast.unparse(call.func)}` without `indexing` warns: the default `"ij"` has to be given.'
        fix = FixPlan('Give `indexing="ij"`', "safe", lambda edit: edit.add_keyword(call, "indexing", '"ij"'))
        yield self.found(call, message, fixes=[fix])
