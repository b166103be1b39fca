from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.arguments import with_keyword
from torchlint.fixes.editor import Editor
from torchlint.idioms.values.ndarrays import array_in_list, is_array
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api.known import LEGACY_CONSTRUCTORS, legacy_constructor_dtype

_SAYS = {
    "": ": numbers are a size of arbitrary memory, a list is data. "
    "`torch.empty` and `torch.tensor` say which is meant.",
    "size": " that is given a size: its elements are arbitrary memory, as `torch.empty` says.",
    "nothing": " that is given nothing: the tensor has no elements, as `torch.empty(0)` says.",
    "data": " that is given data: `torch.tensor` takes data and a dtype.",
    "array": " that is given an array: `torch.as_tensor` takes one and a dtype.",
    "tensor": " that is given a tensor: it copies nothing, and raises if dtype or device differ, which `.to` converts.",
    "storage": " that is given a storage: `torch.frombuffer` makes a tensor of bytes.",
}
_REPLACED_BY = {
    "size": "torch.empty",
    "nothing": "torch.empty",
    "data": "torch.tensor",
    "array": "torch.as_tensor",
}
#: Methods that overwrite all elements, so that only the size of the tensor mattered.
_FILLING = frozenset(
    "fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_".split()
)
_STORAGE = regex(r"torch\.\w+Storage(\.\w+)?$")


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
    is a size or data there is no fix: the `shape` of a tensor is a size, that of an array or of a space of Gymnasium
    is data. A tensor shares the memory of an array of its dtype, as with `torch.as_tensor`. A list of arrays is told
    by `tensor-from-ndarray-list`.

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
        meaning = _meaning(semantics, call) or ("size" if _is_filled(call) else "")
        message = f"`{ast.unparse(call.func)}` is a legacy constructor{_SAYS[meaning]}"
        name = semantics.name(call.func)
        by = _REPLACED_BY.get(meaning)
        fixes = []
        if by is not None and name and not call.keywords and not _is_moved(call):
            fixes = [FixPlan(f"Use `{by}`", "unsafe", lambda edit: _rewrite(edit, call, name, by))]
        yield self.found(call, message, fixes=fixes)


def _meaning(semantics: Semantics, call: ast.Call) -> str:
    """What a call is given: a "size", "nothing", "data", an "array", a "tensor" or a "storage"; "" where that cannot
    be told."""
    if any(item.arg is None for item in call.keywords):
        return ""
    if not call.args:
        return "nothing" if not call.keywords else ""
    if len(call.args) > 1:
        return "size"
    (given,) = call.args
    value = semantics.value_of(given)
    match value:
        case ast.Starred():
            return ""
        case ast.List() | ast.Tuple() | ast.ListComp() | ast.BinOp(left=ast.List(), op=ast.Mult() | ast.Add()):
            return "data"
        case ast.Attribute(value=owner, attr="shape"):
            # The shape of a tensor is a size; that of an array or of a space of gym is a tuple, which is data.
            return "size" if _is_tensor(semantics, owner) else ""
        case ast.Call(func=ast.Attribute(attr="size"), args=[], keywords=[]):
            return "size"
        case ast.Call() if _STORAGE.match(semantics.name(value.func)):
            return "storage"
    if value is not None and _is_whole(semantics, value):
        return "size"
    if is_array(semantics, value):
        return "array"
    kind = semantics.kind(value)
    if kind is None or not kind.proven:
        return ""
    if kind.is_tensor:
        return "tensor"
    return {What.ARRAY: "array", What.LIST: "data"}.get(kind.what, "")


def _is_tensor(semantics: Semantics, expression: ast.expr) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.proven and kind.is_tensor


def _is_moved(call: ast.Call) -> bool:
    """Whether the tensor goes to a device at once: a modern constructor would make it there, which is another edit."""
    holder = parent_of(call)
    return isinstance(holder, ast.Attribute) and holder.attr in ("to", "cuda")


def _is_filled(call: ast.Call) -> bool:
    """Whether the elements are overwritten at once, as in ``FloatTensor(n).uniform_()``."""
    holder = parent_of(call)
    given = [*call.args, *(item.value for item in call.keywords if item.arg is None)]
    return len(given) == 1 and isinstance(holder, ast.Attribute) and holder.attr in _FILLING


def _is_whole(semantics: Semantics, value: ast.expr) -> bool:
    """Whether an expression is certainly a whole number."""
    match value:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant()], keywords=[]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            return isinstance(literal_of(index), int)
        case ast.Call(func=ast.Name(id="len" | "int")):
            return semantics.kind(value) is not None
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
            return _is_whole(semantics, left) and _is_whole(semantics, right)
    return isinstance(literal_of(value), int)


def _rewrite(edit: Editor, call: ast.Call, name: str, by: str) -> None:
    """Call another function with the arguments as they are, and with the dtype and device that the type stood for."""
    head, _, tail = name.rpartition(".")
    text = edit.source(call)[len(edit.source(call.func)) :] if call.args else "(0)"
    text = edit.spell(by) + text
    if tail != "Tensor" or (by != "torch.empty" and not _holds_floats(literal_of(call.args[0]))):
        text = with_keyword(text, "dtype", edit.spell(legacy_constructor_dtype(name) or ""))
    if head == "torch.cuda":
        text = with_keyword(text, "device", '"cuda"')
    edit.replace(call, text)


def _holds_floats(data: object) -> bool:
    """Whether `torch.tensor` makes floats of data by itself."""
    if data is UNKNOWN:
        return False
    if isinstance(data, list | tuple):
        return not data or any(_holds_floats(item) for item in data)
    return isinstance(data, float)
