from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.values.ndarrays import array_in_list
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument
from torchlint.semantics.unit import Unit
from torchlint.torch_api.known import LEGACY_CONSTRUCTORS, legacy_constructor_dtype


class TensorFromNdarrayList(Rule):
    """## What it does

    Reports tensors made of a list of NumPy arrays: `torch.tensor([a, b])`, also `torch.as_tensor` and the legacy
    constructors.

    ## Why is this bad?

    torch reads the arrays as nested sequences, one Python number after the other, and warns that this is extremely
    slow: about a hundred times slower than to stack the arrays and to convert the one array that comes out.

    ## Example

    ```python
    import numpy as np
    import torch

    frames = [np.zeros((84, 84)), np.ones((84, 84))]
    batch = torch.tensor(frames)
    ```

    ## Use instead

    ```python
    import numpy as np
    import torch

    frames = [np.zeros((84, 84)), np.ones((84, 84))]
    batch = torch.tensor(np.stack(frames))
    ```

    ## Exceptions

    Lists of numbers of NumPy (`np.mean(x)`, an element of an array) are read as numbers and are not reported. A list
    counts if its elements are seen to be arrays: in a literal, a comprehension, or in all that is appended to it.

    ## References

    - [torch.from_numpy](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
    """

    code = "TL404"
    name = "tensor-from-ndarray-list"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "A list of arrays is read number by number, which is extremely slow."

    @on_call("torch.tensor", "torch.as_tensor", "torch.asarray", *LEGACY_CONSTRUCTORS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        data = argument(call, 0, "data")
        if len(call.args) > 1:
            data = data if argument(call, 1, "dtype") is not None else None
        array = array_in_list(unit.semantics, data)
        if data is None or array is None:
            return
        written = ast.unparse(call.func)
        message = (
            f"`{written}` reads a list of arrays number by number, which is extremely slow: "
            "`np.stack` makes one array of them first."
        )
        name = unit.semantics.name(call.func)
        fixes = []
        if legacy_constructor_dtype(name) is None:
            fixes = [FixPlan("Stack the arrays with `np.stack`", "unsafe", lambda edit: _stack(edit, data))]
        elif name and not call.keywords:
            title = "Use `torch.tensor` and stack the arrays with `np.stack`"
            fixes = [FixPlan(title, "unsafe", lambda edit: _rewrite(edit, call, name))]
        yield self.found(call, message, related=[(array, "this is an array")], fixes=fixes)


def _stack(edit: Editor, data: ast.expr) -> None:
    edit.wrap(data, f"{edit.spell('numpy.stack')}(", ")")


def _rewrite(edit: Editor, call: ast.Call, legacy: str) -> None:
    stacked = f"{edit.spell('numpy.stack')}({edit.source(call.args[0])})"
    device = ', device="cuda"' if legacy.startswith("torch.cuda.") else ""
    dtype = edit.spell(legacy_constructor_dtype(legacy) or "")
    edit.replace(call, f"{edit.spell('torch.tensor')}({stacked}, dtype={dtype}{device})")
