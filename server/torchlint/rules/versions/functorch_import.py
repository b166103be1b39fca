from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, Level, on_reference
from torchlint.rules.versions._versioned import VersionedNameRule
from torchlint.semantics.unit import Unit
from torchlint.torch_api import versioned_tails


class FunctorchImport(VersionedNameRule):
    """## What it does

    Reports `functorch.vmap`, `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`, `functionalize`, `make_functional`
    and `combine_state_for_ensemble`.

    ## Why is this bad?

    functorch is part of torch since 2.0, as `torch.func`. The functions of the old package are deprecated since then
    and warn when they are called.

    ## Example

    ```python
    from functorch import vmap

    outputs = vmap(model)(inputs)
    ```

    ## Use instead

    ```python
    from torch.func import vmap

    outputs = vmap(model)(inputs)
    ```

    ## Exceptions

    Projects that allow only torch before 2.0, and code for several versions: inside `try`/`except ImportError`, under
    `hasattr` or a test of the version. `make_functional` and `combine_state_for_ensemble` have no fix:
    `functional_call` and `stack_module_state` are used in another way. `functorch.experimental`, `functorch.compile`
    and `functorch.dim` are left alone.

    ## References

    - [Migrating from functorch to torch.func](https://docs.pytorch.org/docs/stable/func.migrating.html)
    """

    code = "TL006"
    name = "functorch-import"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The package `functorch` is deprecated since torch 2.0: `torch.func` has its functions."

    @on_reference(*versioned_tails("TL006"))
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_reference(node, unit)
