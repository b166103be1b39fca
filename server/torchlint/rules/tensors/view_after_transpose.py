from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from torchlint.fixes.editor import Editor
from torchlint.idioms.modules.layer_sizes import sizes_of_layer
from torchlint.idioms.values.origins import arguments_after, operation_of
from torchlint.idioms.values.tensor_sizes import permutation_of, sizes_of
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import has_unknown_arguments
from torchlint.semantics.semantics import Semantics
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

    A `view` that only splits axes, or joins those that stayed side by side (`x.permute(0, 2, 3, 1).view(n, -1, c)`),
    which is always possible; axes of length one, which can be moved freely. After `.contiguous()` there is nothing to
    say. A `view` to another dtype has no shape.

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
        if not _may_join(semantics, call, tensor, operation, before):
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


def _may_join(semantics: Semantics, view: ast.Call, tensor: ast.Call, operation: str, before: ast.expr) -> bool:
    """Whether the new shape has fewer axes than there are pieces that lie together in memory, so that it has to join
    what was moved."""
    given = _sizes_given(view.args)
    if given is None or (len(given) == 1 and whole_number(given[0], semantics) is None):
        return False  # a whole shape, which may be any
    sizes, names = sizes_of(semantics, before), _shape_names(semantics, before)
    rank = len(sizes) if sizes is not None else len(names) if names is not None else None
    order = _order(semantics, tensor, rank)
    if order is None:
        return len(given) == 1  # axes counted from the end, or not known: only one row joins all of them
    if rank is None and operation not in ("permute", "t"):
        # There may be more axes than `transpose` names: a shape of as many, without a product, joins those behind.
        products = any(isinstance(size, ast.BinOp) for size in given[:-1])
        return list(order) != sorted(order) and len(given) <= len(order) and not products
    kept = [axis for axis in order if sizes is None or sizes[axis] != 1]
    if kept == sorted(kept):
        return False
    pieces = 1 + sum(after != axis + 1 for axis, after in pairwise(kept))
    return len(given) < pieces or (len(given) == pieces and _splits_channels(semantics, before, kept, given[-1]))


def _splits_channels(semantics: Semantics, before: ast.expr, order: Sequence[int], last: ast.expr) -> bool:
    """Whether channels that were moved to the end are split, and their larger part joined with what stands before."""
    made = semantics.value_of(before)
    if order[-1] != 1 or not isinstance(made, ast.Call):
        return False
    channels, size = sizes_of_layer(semantics.kind(made.func), semantics).gives, whole_number(last, semantics)
    return channels is not None and size is not None and size != -1 and size != channels


def _sizes_given(given: Sequence[ast.expr]) -> Sequence[ast.expr] | None:
    """The sizes in a call, one by one or as one tuple; None where they are unpacked."""
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    return None if any(isinstance(item, ast.Starred) for item in given) else given


def _order(semantics: Semantics, tensor: ast.Call, rank: int | None) -> tuple[int, ...] | None:
    operation, _ = operation_of(semantics, tensor)
    named = [item.value for item in tensor.keywords if item.arg in ("dim0", "dim1", "dims", "axis0", "axis1")]
    given = _sizes_given([*arguments_after(semantics, tensor), *named]) or ()
    return permutation_of(operation, [whole_number(item, semantics) for item in given], rank)


def _shape_names(semantics: Semantics, tensor: ast.expr) -> list[str] | None:
    """How the lengths of a tensor's axes are written: as it was viewed before."""
    value = semantics.value_of(tensor)
    operation, _ = operation_of(semantics, value)
    if not isinstance(value, ast.Call) or operation not in ("view", "reshape"):
        return None
    given = _sizes_given(arguments_after(semantics, value))
    if given is None or len(given) < 2:
        return None
    return [ast.unparse(item) for item in given]


def _reshape(edit: Editor, call: ast.Call) -> None:
    edit.rename_called(call, "reshape")
