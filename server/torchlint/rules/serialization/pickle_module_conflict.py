from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit


class PickleModuleConflict(Rule):
    """## What it does

    Reports `torch.load` with `pickle_module` and `weights_only=True`.

    ## Why is this bad?

    `weights_only=True` reads the file with an unpickler of its own, so torch refuses to be given another: the call
    raises "Can not safely load weights when explicit pickle_module is specified".

    ## Example

    ```python
    import dill
    import torch

    state = torch.load("model.pt", pickle_module=dill, weights_only=True)
    ```

    ## Use instead

    ```python
    import torch

    state = torch.load("model.pt", weights_only=True)
    ```

    ## Exceptions

    `pickle_module=None`, and values that are not literal.

    ## References

    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    """

    code = "TL909"
    name = "pickle-module-conflict"
    level = Level.ERROR
    summary = "`torch.load` raises when it is given both."

    @on_call("torch.load")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        pickle = argument(call, 2, "pickle_module")
        weights_only = argument(call, None, "weights_only")
        if pickle is None or weights_only is None:
            return
        if unit.semantics.literal(weights_only) is True and unit.semantics.literal(pickle) is not None:
            message = (
                f"`torch.load` raises: `weights_only=True` cannot be used with `pickle_module={ast.unparse(pickle)}`."
            )
            yield self.found(call, message)
