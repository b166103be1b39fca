from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.ndarrays import array_in_list, is_array
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.semantics import Semantics, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.torch_api.known import LEGACY_CONSTRUCTORS, legacy_constructor_dtype


class LegacyTensorConstructor(Rule):
    """## What it does

    Reports tensors made by calling a tensor type: `torch.Tensor(...)`, `torch.LongTensor(...)`,
    `torch.cuda.FloatTensor(...)`.

    ## Why is this bad?

    What the call means depends on what it is given: numbers are a size, and the memory is not initialised; a list is
    data. `torch.Tensor(3)` has three arbitrary elements and `torch.Tensor([3])` is the number three. The type of the
    data is not kept either: `torch.Tensor([1, 2])` holds floats. `torch.tensor` takes data and `torch.empty` a size.

    ## Example

    ```python
    import torch

    labels = torch.LongTensor([0, 2, 1])
    ```

    ## Use instead

    ```python
    import torch

    labels = torch.tensor([0, 2, 1], dtype=torch.int64)
    ```

    ## Exceptions

    The types themselves are fine in `isinstance` and in annotations. Where the code does not show whether the argument
    is a size or data there is no fix. A list of arrays is told by `tensor-from-ndarray-list`.

    ## References

    - [torch.Tensor](https://docs.pytorch.org/docs/stable/tensors.html)
    """

    code = "TL403"
    name = "legacy-tensor-constructor"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The legacy constructor takes numbers as a size of arbitrary memory and lists as data."

    @on_call(*LEGACY_CONSTRUCTORS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if len(call.args) == 1 and array_in_list(semantics, call.args[0]) is not None:
            return
        written = ast.unparse(call.func)
        meaning = None if has_unknown_arguments(call) else _meaning(semantics, call)
        fixes = []
        match meaning:
            case "data":
                message = (
                    f"`{written}` is a legacy constructor that is given data: `torch.tensor` takes data and a dtype."
                )
            case "size":
                message = (
                    f"`{written}` is a legacy constructor that is given a size: its elements are arbitrary memory, "
                    "as `torch.empty` says."
                )
            case _:
                message = (
                    f"`{written}` is a legacy constructor: numbers are a size of arbitrary memory, a list is data. "
                    "`torch.empty` and `torch.tensor` say which is meant."
                )
        name = semantics.name(call.func)
        if meaning is not None and name and not call.keywords:
            by = "torch.tensor" if meaning == "data" else "torch.empty"
            fixes = [FixPlan(f"Use `{by}`", "unsafe", lambda edit: _rewrite(edit, call, name, by))]
        yield self.found(call, message, fixes=fixes)


def _meaning(semantics: Semantics, call: ast.Call) -> str | None:
    """Whether the arguments are "data" or a "size"; None where that cannot be told."""
    if len(call.args) != 1:
        return "size"
    (given,) = call.args
    value = semantics.value_of(given)
    match value:
        case ast.List() | ast.Tuple() | ast.ListComp() | ast.BinOp(left=ast.List(), op=ast.Mult() | ast.Add()):
            return "data"
        case ast.Attribute(attr="shape"):
            return "size"
        case ast.Call(func=ast.Attribute(attr="size"), args=[], keywords=[]):
            return "size"
    if isinstance(literal_of(value), int):
        return "size"
    if is_array(semantics, value):
        return "data"
    kind = semantics.kind(value)
    if kind is None or not kind.proven:
        return None
    match kind.what:
        case What.ARRAY | What.LIST:
            return "data"
        case What.NUMBER if isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("len", "int"):
            return "size"
        case _:
            return None


def _rewrite(edit: Editor, call: ast.Call, name: str, by: str) -> None:
    """Call another function with the arguments as they are, and with the dtype and device that the type stood for."""
    head, _, tail = name.rpartition(".")
    arguments = [edit.source(item) for item in call.args] or ["0"]
    if tail != "Tensor" or (by == "torch.tensor" and not _holds_floats(literal_of(call.args[0]))):
        arguments.append(f"dtype={edit.spell(legacy_constructor_dtype(name) or '')}")
    if head == "torch.cuda":
        arguments.append('device="cuda"')
    edit.replace(call, f"{edit.spell(by)}({', '.join(arguments)})")


def _holds_floats(data: object) -> bool:
    """Whether `torch.tensor` makes floats of data by itself."""
    if data is UNKNOWN:
        return False
    if isinstance(data, list | tuple):
        return not data or any(_holds_floats(item) for item in data)
    return isinstance(data, float)
