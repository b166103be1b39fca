from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.idioms.values.formulas import factors
from torchlint.idioms.values.ndarrays import is_array
from torchlint.idioms.values.origins import operation_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_method
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_LONGEST_WAY = 8
#: Layers that change no size but the last.
_KEEP_STEPS = frozenset(
    f"torch.nn.{name}" for name in ("Linear", "LayerNorm", "RMSNorm", "Dropout", "Identity", "GELU")
)


class ViewUsedAsPermute(Rule):
    """## What it does

    Reports `view` and `reshape` with the sizes of the tensor itself in another order: `B, L, H, D = q.shape` and then
    `q.view(B, H, L, D)`. So is `q.view(B, H, L, D)` of a `q` that is (B, L, H * D), and `x.view(B, H * W, C)` of an `x`
    that is (B, C, H, W).

    ## Why is this bad?

    `view` gives the same row of numbers another shape; it moves no axis. With the sizes in another order each element
    gets to a wrong place, heads and time steps are mixed, and nothing raises. `transpose` and `permute` move axes.

    ## Example

    ```python
    import torch


    def split_heads(q: torch.Tensor):
        B, L, H, D = q.shape
        return q.view(B, H, L, D)
    ```

    ## Use instead

    ```python
    import torch


    def split_heads(q: torch.Tensor):
        B, L, H, D = q.shape
        return q.transpose(1, 2)
    ```

    ## Exceptions

    Shapes with other sizes than those of the tensor, or with parts of them, regroup elements on purpose. So does
    code that cuts windows, where the tensor or its sizes were changed in between, and code that views the result once
    more, moves its axes at once or has padded it before, as the shift of relative positions does.

    ## References

    - [torch.permute](https://docs.pytorch.org/docs/stable/generated/torch.permute.html)
    """

    code = "TL409"
    name = "view-used-as-permute"
    level = Level.ERROR
    summary = "`view` moves no axis: with the sizes in another order every element gets to a wrong place."

    @on_method("view", "reshape")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, unit)

    @on_call("torch.reshape")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, unit)

    def _check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        _, tensor = operation_of(semantics, call)
        given: Sequence[ast.expr] = call.args[1:] if semantics.names(call.func) else call.args
        if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
            given = given[0].elts
        if tensor is None or len(given) < 2 or call.keywords:
            return
        sizes = _split_before_steps(semantics, tensor, given)
        if sizes is not None and not _is_viewed_again(call):
            batch, parts, steps, width = (ast.unparse(size) for size in given)
            source = ", ".join(ast.unparse(item) for item in ast.walk(sizes.node) if isinstance(item, ast.Tuple))
            message = (
                f"What has the sizes {source} is viewed as ({batch}, {parts}, {steps}, {width}): this moves no axis "
                f"and mixes the elements. `.view({batch}, {steps}, {parts}, {width}).transpose(1, 2)` splits the last "
                "axis and moves the part to the front."
            )
            yield self.found(call, message, related=[(sizes.node, "the sizes are read here")])
        if not isinstance(tensor, ast.Name | ast.Attribute):
            return
        axes = [_axis(semantics, size, tensor) for size in given]
        order = _as_permutation([None if axis is None else axis[0] for axis in axes], given)
        sources = [axis[1] for axis in axes if axis is not None]
        if order is None or not sources or not _all_axes(sources, len(order)):
            order, sources = _joined_in_another_order(semantics, given, tensor)
        if not order or _is_viewed_again(call):
            return
        if _is_padded(semantics, tensor):
            return
        shown = ast.unparse(tensor)
        written = ", ".join(ast.unparse(size) for size in given)
        moving = "transpose" if is_array(semantics, tensor) else "permute"  # of several axes, in NumPy and in torch
        message = (
            f"`{shown}` is viewed with its own sizes in another order ({written}): this moves no axis and mixes the "
            f"elements. `{shown}.{moving}({', '.join(map(str, order))})` moves them."
        )
        yield self.found(call, message, related=[(sources[0].node, f"the sizes of `{shown}` are read here")])


def _split_before_steps(semantics: Semantics, tensor: ast.expr, given: Sequence[ast.expr]) -> Definition | None:
    """Where the sizes are unpacked of a tensor (batch, steps, width) that is viewed as (batch, heads, steps, ...), in
    one go: the heads are cut out of the steps instead of the width. None for anything else."""
    if len(given) != 4 or literal_of(given[1]) in (1, -1) or literal_of(given[3]) == 1:
        return None
    for name in _same_sizes(semantics, tensor):
        axes = [_axis(semantics, size, name) for size in given]
        first, second = axes[0], axes[2]
        if first is None or second is None or axes[1] is not None or (first[0], second[0]) != (0, 1):
            continue
        if _all_axes([first[1]], 3) and _all_axes([second[1]], 3):
            return first[1] if isinstance(first[1].node, ast.Assign) else None
    return None


def _same_sizes(semantics: Semantics, tensor: ast.expr) -> Iterator[ast.Name]:
    """The names of a tensor and of those that it is computed from with the same sizes but the last."""
    current: ast.expr | None = tensor
    for _ in range(_LONGEST_WAY):
        match current:
            case ast.Name():
                yield current
                definitions = semantics.definitions(current)
                if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
                    return
                current = definitions[0].value
            case ast.Call(func=ast.Attribute(value=receiver, attr="contiguous" | "float" | "clone")):
                current = receiver
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):  # `self.query(x) * self.scale`
                current = left
            case ast.Call(args=[operand]):
                kind = semantics.kind(current.func)
                if kind is None or not kind.proven or kind.origin not in _KEEP_STEPS:
                    return
                current = operand
            case _:
                return


def _is_viewed_again(call: ast.Call) -> bool:
    """Whether the result is given another shape once more in the same function, or its axes are moved at once: it was
    regrouped on purpose."""
    statement, function = parent_of(call), enclosing_function(call)
    if isinstance(statement, ast.Attribute) and statement.attr in ("permute", "transpose", "view", "reshape"):
        return True
    if not isinstance(statement, ast.Assign) or function is None:
        return False
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return any(
        isinstance(later, ast.Call)
        and later.lineno > call.lineno
        and getattr(later.func, "attr", "") in ("view", "reshape")
        and any(isinstance(item, ast.Name) and item.id in names for item in (*later.args[:1], _receiver(later)))
        for later in nodes_within(function, ast.Call)
    )


def _is_padded(semantics: Semantics, tensor: ast.expr) -> bool:
    """Whether a tensor comes right out of a padding: one number more a row, and the rows are cut anew, is how scores
    of relative positions are shifted."""
    value = semantics.value_of(tensor)
    return isinstance(value, ast.Call) and semantics.is_named(value.func, "torch.nn.functional.pad")


def _receiver(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _axis(semantics: Semantics, size: ast.expr, tensor: ast.expr) -> tuple[int, Definition] | None:
    """Which axis of the tensor a name stands for, by ``a, b = x.shape`` or ``a = x.size(0)`` of the same ``x``."""
    if not isinstance(size, ast.Name):
        return None
    definitions = semantics.definitions(size)
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].value is None:
        return None
    (definition,) = definitions
    value, path = definition.value, definition.path
    inner: ast.expr | None
    axis: object
    match value:
        case ast.Subscript(value=inner, slice=index) if not path:
            axis = literal_of(index)
        case ast.Call(func=ast.Attribute(attr="size") as inner, args=[index]) if not path:
            axis = literal_of(index)
        case _ if len(path) == 1 and path[0] is not None:
            inner, axis = value, path[0]
        case _:
            return None
    owner = _shape_owner(inner)
    if owner is None or not isinstance(axis, int) or axis < 0 or not _is_same(semantics, owner, tensor):
        return None
    return axis, definition


def _shape_owner(expression: ast.expr | None) -> ast.expr | None:
    match expression:
        case ast.Attribute(value=owner, attr="shape" | "size"):
            return owner
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[], keywords=[]):
            return owner
        case _:
            return None


def _is_same(semantics: Semantics, one: ast.expr, other: ast.expr) -> bool:
    """Whether two names stand for one tensor: the same definition reaches both."""
    if isinstance(one, ast.Name) and isinstance(other, ast.Name):
        return one.id == other.id and semantics.definitions(one) == semantics.definitions(other)
    return False


def _as_permutation(axes: list[int | None], given: Sequence[ast.expr]) -> list[int] | None:
    """The order of the axes, with the one that -1 stands for; None unless it is another order of all of them."""
    unknown = [place for place, axis in enumerate(axes) if axis is None]
    count = len(axes)
    known = [axis for axis in axes if axis is not None]
    if len(set(known)) != len(known) or any(axis >= count for axis in known) or len(unknown) > 1 or count < 2:
        return None
    if unknown:
        if literal_of(given[unknown[0]]) != -1:
            return None
        (left,) = set(range(count)) - set(known)
        axes[unknown[0]] = left
    order = [axis for axis in axes if axis is not None]
    return order if order != sorted(order) else None


def _joined_in_another_order(
    semantics: Semantics, given: Sequence[ast.expr], tensor: ast.expr
) -> tuple[list[int], list[Definition]]:
    """The order of the axes and where they are read, for a view that joins axes too: ``x.view(B, H * W, C)`` or
    ``x.view(B, -1, C)`` of a (B, C, H, W); empty for anything else. In which order a product is written is the same."""
    groups: list[list[int] | None] = []
    sources: list[Definition] = []
    for size in given:
        if literal_of(size) == -1:
            groups.append(None)
            continue
        axes = [_axis(semantics, factor, tensor) for factor in factors(size)]
        groups.append(sorted(axis[0] for axis in axes if axis is not None))
        sources += [axis[1] for axis in axes if axis is not None]
        if None in axes:
            return [], []
    named = [axis for group in groups if group is not None for axis in group]
    count = _count_of_axes(sources)
    if count is None or groups.count(None) > 1 or len(set(named)) != len(named):
        return [], []
    left = sorted(set(range(count)) - set(named))
    order = [axis for group in groups for axis in (left if group is None else group)]
    whole = sorted(order) == list(range(count)) and len(given) < count
    return (order, sources) if whole and order != sorted(order) else ([], [])


def _count_of_axes(sources: Sequence[Definition]) -> int | None:
    """How many axes a tensor has, whose sizes are unpacked as a whole."""
    counts = {
        len(target.elts)
        for source in sources
        for target in getattr(source.node, "targets", [])
        if isinstance(target, ast.Tuple | ast.List) and not any(isinstance(item, ast.Starred) for item in target.elts)
    }
    return counts.pop() if len(counts) == 1 else None


def _all_axes(sources: Sequence[Definition], count: int) -> bool:
    """Whether the tensor certainly has as many axes as the new shape: where the sizes are unpacked, all of them are."""
    for source in sources:
        holder = source.node
        targets = [target for target in getattr(holder, "targets", []) if isinstance(target, ast.Tuple | ast.List)]
        for target in targets:
            if any(isinstance(item, ast.Starred) for item in target.elts):
                return False
            return len(target.elts) == count
    return len(sources) == count
