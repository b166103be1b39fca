from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, Level, on_method, on_reference
from torchlint.rules.versions._versioned import VersionedNameRule
from torchlint.semantics.unit import Unit
from torchlint.torch_api import versioned_methods, versioned_tails


class DeprecatedApi(VersionedNameRule):
    """## What it does

    Reports names of torch that are deprecated: functions, classes, modules, methods of tensors and modules, called,
    mentioned or imported. The message says since when, and what to use instead.

    ## Why is this bad?

    A deprecated name works until the release that takes it away, and many give a warning on each use. Names that are
    already gone from newer releases are reported here too while nothing is known about the project's torch version.

    ## Example

    ```python
    import torch

    product = torch.chain_matmul(a, b, c)
    ```

    ## Use instead

    ```python
    import torch

    product = torch.linalg.multi_dot([a, b, c])
    ```

    ## Exceptions

    Code for several versions: inside `try`/`except ImportError`, under `hasattr` or a test of the version. A project
    that allows only releases before the deprecation is not told. There is a fix where the new name takes the same
    arguments and exists in every release that the project allows. A name that was imported by itself is reported where
    it is used, or at the import if it never is. `torch.norm` is left alone, and so is a
    dict that lists a function under its own name and its successor, too.

    ## References

    - [PyTorch release notes](https://github.com/pytorch/pytorch/releases)
    - [torch](https://docs.pytorch.org/docs/stable/torch.html)
    """

    code = "TL002"
    name = "deprecated-api"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This name is deprecated and will be taken away in some release of torch."

    @on_reference(*versioned_tails("TL002"))
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_reference(node, unit)

    @on_method(*versioned_methods("TL002"))
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_method(call, unit)
