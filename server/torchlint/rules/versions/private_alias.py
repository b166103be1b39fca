from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, Level, on_reference
from torchlint.rules.versions._versioned import VersionedNameRule
from torchlint.semantics.unit import Unit
from torchlint.torch_api import TorchRange, VersionedName, versioned_tails


class PrivateAlias(VersionedNameRule):
    """## What it does

    Reports private paths of names that torch also has under a public one, such as
    `torch.utils.data._utils.collate.default_collate`, `torch.optim.lr_scheduler._LRScheduler` and
    `torch.distributed._tensor`.

    ## Why is this bad?

    What lies under a name with an underscore may move or go in any release, without a warning. The public name is the
    same thing.

    ## Example

    ```python
    from torch.utils.data._utils.collate import default_collate

    batch = default_collate(samples)
    ```

    ## Use instead

    ```python
    from torch.utils.data import default_collate

    batch = default_collate(samples)
    ```

    ## Exceptions

    Private names without a public twin, projects that allow only releases without the public name, and code for several
    versions: inside `try`/`except ImportError`, under `hasattr` or a test of the version.

    ## References

    - [torch.utils.data.default_collate](https://docs.pytorch.org/docs/stable/data.html)
    - [torch.distributed.tensor](https://docs.pytorch.org/docs/stable/distributed.tensor.html)
    """

    code = "TL005"
    name = "private-alias"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This is a private path of something that has a public name."

    @on_reference(*versioned_tails("TL005"))
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_reference(node, unit)

    def message(self, found: VersionedName, allowed: TorchRange | None) -> str:
        return f"`{found.name}` is private, and public under another name since torch {found.deprecated}"
