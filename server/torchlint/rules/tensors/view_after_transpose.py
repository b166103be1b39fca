from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.fixes.editor import Editor
from torchlint.idioms.layer_sizes import whole_number
from torchlint.idioms.origins import operation_of
from torchlint.idioms.tensor_sizes import permutation_of, sizes_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.semantics import Semantics, has_unknown_arguments
from torchlint.semantics.unit import Unit

_MOVES = frozenset(("transpose", "permute", "t", "swapaxes"))


class ViewAfterTranspose(Rule):
    """## What it does

    Reports `view` on a tensor whose axes were just moved: `x.transpose(1, 2).view(b, -1)`.

    ## Why is this bad?

    `transpose` and `permute` change the order of the axes and leave the memory as it was. `view` can only join axes
    that lie next to each other in memory, so it raises as soon as it joins one of those that were moved. `reshape`
    gives the same view where there is one, and copies where there is none.

    ## Example

    ```python
    import torch


    def join_heads(x: torch.Tensor, batch: int, length: int):
        return x.transpose(1, 2).view(batch, length, -1)
    ```

    ## Use instead

    ```python
    import torch


    def join_heads(x: torch.Tensor, batch: int, length: int):
        return x.transpose(1, 2).reshape(batch, length, -1)
    ```

    ## Exceptions

    A `view` that only splits axes, which is always possible, and axes of length one, which can be moved freely. After
    `.contiguous()` there is nothing to say. A `view` to another dtype has no shape.

    ## References

    - [torch.Tensor.view](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html)
    - [torch.Tensor.reshape](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.reshape.html)
    """

    code = "TL410"
    name = "view-after-transpose"
    level = Level.HINT
    fix = FixKind.SAFE
    summary = "`view` raises when it joins axes that were moved; `reshape` copies where it has to."

    @on_method("view")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        assert isinstance(call.func, ast.Attribute)
        if not call.args or call.keywords or semantics.names(call.func) or _is_dtype(semantics, call):
            return
        tensor = semantics.value_of(call.func.value)
        operation, before = operation_of(semantics, tensor)
        if not isinstance(tensor, ast.Call) or operation not in _MOVES or before is None:
            return
        kind = semantics.kind(before)
        if (kind is not None and not kind.is_tensor) or has_unknown_arguments(tensor):
            return
        order = _order(semantics, tensor, operation, before)
        if _is_always_possible(semantics, call, before, order, operation):
            return
        shown = ast.unparse(call.func.value)
        subject = f"`{shown}`" if len(shown) <= 60 else "a tensor whose axes were moved"
        message = (
            f"`view` of {subject} raises if it joins axes that `{operation}` has moved: "
            "`reshape` is the same view, and copies where there is none."
        )
        related = [(tensor, f"the axes are moved by `{operation}` here")] if tensor is not call.func.value else []
        fix = FixPlan("Use `reshape`", "safe", lambda edit: _reshape(edit, call))
        yield self.found(call, message, related=related, fixes=[fix])


def _is_dtype(semantics: Semantics, call: ast.Call) -> bool:
    kind = semantics.kind(call.args[0])
    return kind is not None and kind.what is What.DTYPE


def _order(semantics: Semantics, call: ast.Call, operation: str, before: ast.expr) -> tuple[int, ...] | None:
    given: Sequence[ast.expr] = call.args[1:] if semantics.names(call.func) else call.args
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    sizes = sizes_of(semantics, before)
    axes = [whole_number(item, semantics) for item in given]
    return permutation_of(operation, axes, None if sizes is None else len(sizes))


def _is_always_possible(
    semantics: Semantics, view: ast.Call, before: ast.expr, order: tuple[int, ...] | None, operation: str
) -> bool:
    """Whether the view only splits axes, or what was moved are axes of length one. More axes than there were before
    come of a split; where the number is not known, what was moved tells the smallest that it can be."""
    if order is not None and list(order) == sorted(order):
        return True
    sizes = sizes_of(semantics, before)
    if sizes is not None and order is not None:
        kept = [axis for axis in order if axis >= len(sizes) or sizes[axis] != 1]
        if kept == sorted(kept):
            return True
    given: Sequence[ast.expr] = view.args
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    elif len(given) == 1 and whole_number(given[0], semantics) is None:
        return True  # a whole shape, which may be any
    if any(isinstance(item, ast.Starred) for item in given):
        return True
    rank = 2 if operation == "t" else len(order) if order is not None else None
    return (rank is not None and len(given) > rank) or _only_splits(semantics, given, before, order)


def _only_splits(
    semantics: Semantics, given: Sequence[ast.expr], before: ast.expr, order: tuple[int, ...] | None
) -> bool:
    """Whether the new shape begins with all axes but the last as they are: they are named as in an unpacked shape,
    or their lengths are known."""
    names = _shape_names(semantics, before)
    if names is None or order is None or len(order) > len(names):
        return False
    order = (*order, *range(len(order), len(names)))
    leading = [names[axis] for axis in order[:-1]]
    written = [ast.unparse(item) for item in given]
    return len(written) >= len(names) and written[: len(leading)] == leading


def _shape_names(semantics: Semantics, tensor: ast.expr) -> list[str] | None:
    """How the lengths of a tensor's axes are written: as it was viewed before."""
    value = semantics.value_of(tensor)
    operation, _ = operation_of(semantics, value)
    if not isinstance(value, ast.Call) or operation not in ("view", "reshape"):
        return None
    given: Sequence[ast.expr] = value.args[1:] if semantics.names(value.func) else value.args
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    if len(given) < 2 or any(isinstance(item, ast.Starred) for item in given):
        return None
    return [ast.unparse(item) for item in given]


def _reshape(edit: Editor, call: ast.Call) -> None:
    edit.rename_called(call, "reshape")
