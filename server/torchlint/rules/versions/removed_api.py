from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, Level, on_method, on_reference
from torchlint.rules.versions._versioned import VersionedNameRule
from torchlint.semantics.unit import Unit
from torchlint.torch_api import TorchRange, VersionedName, versioned_methods, versioned_tails


class RemovedApi(VersionedNameRule):
    """## What it does

    Reports names that torch no longer has in a release that the project allows: functions, classes, modules and methods
    of tensors. Functions that are still there but only raise (`torch.symeig`, `torch.solve`) count.

    ## Why is this bad?

    The import or the call raises with the torch that the project will get.

    ## Example

    ```python
    import torch

    rank = torch.matrix_rank(a)
    ```

    ## Use instead

    ```python
    import torch

    rank = torch.linalg.matrix_rank(a)
    ```

    ## Exceptions

    Code for several versions: inside `try`/`except ImportError`, under `hasattr` or a test of the version. While
    nothing is known about the project's torch, a name that a release from 2.0 on still had is left to `deprecated-api`.
    There is a fix where the new name takes the same arguments.

    ## References

    - [PyTorch release notes](https://github.com/pytorch/pytorch/releases)
    - [torch.linalg](https://docs.pytorch.org/docs/stable/linalg.html)
    """

    code = "TL001"
    name = "removed-api"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "This name is gone from torch: the import or the call raises."

    @on_reference(*versioned_tails("TL001"))
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_reference(node, unit)

    @on_method(*versioned_methods("TL001"))
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_method(call, unit)

    def message(self, found: VersionedName, allowed: TorchRange | None) -> str:
        newer = ", which this project allows" if allowed is not None and allowed.may_be_below(found.gone) else ""
        if found.raises:
            return f"`{found.name}` raises RuntimeError from torch {found.gone} on{newer}"
        return f"`{found.name}` does not exist from torch {found.gone} on{newer}"
