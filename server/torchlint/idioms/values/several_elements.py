"""Tensors that certainly have several elements, or an axis whose length differs, by how they are used and indexed."""

from __future__ import annotations

import ast

from torchlint.idioms.data.loaded_batches import is_loaded_batch
from torchlint.idioms.values.origins import arguments_after, operation_of
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_SPATIAL = tuple(f"torch.nn.{name}{axes}d" for name in ("Conv", "BatchNorm", "MaxPool", "AvgPool") for axes in "123")
#: Operations along one axis: told to take axis 1 they show that the tensor has two.
_ALONG = frozenset("softmax log_softmax argmax argmin sum mean any all norm cumsum logsumexp".split())
#: What is done with a tensor only if it has several elements.
_OF_SEVERAL = frozenset("sum any all nonzero cumsum unsqueeze view reshape flatten count_nonzero expand mean".split())
_CHOOSING = ("torch.where", "torch.masked_select", "torch.nonzero", "torch.sum", "torch.any", "torch.all")


def has_axis_by_form(semantics: Semantics, value: ast.expr) -> bool:
    """Whether a tensor has an axis of any length because of how it is written: ``boxes[:, 0]``, ``x.argmax(1)``."""
    match value:
        case ast.Subscript(value=whole, slice=ast.Tuple(elts=indices)):
            return _is_tensor(semantics, whole) and any(_is_full(index) for index in indices)
        case ast.Subscript(value=ast.Call() as pair, slice=index) if literal_of(index) in (0, 1):
            operation, operand = operation_of(semantics, pair)
            return operation in ("max", "min", "sort", "topk") and operand is not None and _is_second(semantics, pair)
        case ast.Call():
            operation, operand = operation_of(semantics, value)
            if operation not in _ALONG or operand is None or not _is_tensor(semantics, operand):
                return False
            return _is_second(semantics, value)
        case _:
            return False


def has_axes_by_use(semantics: Semantics, name: ast.Name) -> bool:
    """Whether a variable is a batch of a loader, or other uses of it in its function show two axes or more."""
    if is_loaded_batch(semantics, name):
        return True
    function = enclosing_function(name)
    if function is None or not _is_tensor(semantics, name):
        return False
    definitions = semantics.definitions(name)
    for use in nodes_within(function, ast.Name):
        assert isinstance(use, ast.Name)
        is_other = use.id == name.id and use is not name
        if is_other and _shows_axes(semantics, use) and semantics.definitions(use) == definitions:
            return True
    return False


def _shows_axes(semantics: Semantics, use: ast.Name) -> bool:
    parent = parent_of(use)
    match parent:
        case ast.Attribute(attr="shape" | "size" as read):
            holder = parent_of(parent)
            if read == "size":
                if not isinstance(holder, ast.Call) or holder.func is not parent:
                    return False
                if holder.args:
                    return _is_beyond_first(literal_of(holder.args[0]))
                holder = parent_of(holder)
            if isinstance(holder, ast.Subscript):
                return _is_beyond_first(literal_of(holder.slice))
            return isinstance(holder, ast.Assign) and _is_unpacked(holder)
        case ast.Call(args=[first, *_]) if first is use:
            kind = semantics.kind(parent.func)
            return kind is not None and kind.proven and kind.origin in _SPATIAL
        case ast.Subscript(value=whole, slice=ast.Tuple(elts=indices)) if whole is use:
            return sum(not _is_new_axis(index) for index in indices) > 1
        case _:
            return False


def _is_unpacked(statement: ast.Assign) -> bool:
    target = statement.targets[0]
    return isinstance(target, ast.Tuple) and len(target.elts) > 1


def _is_second(semantics: Semantics, call: ast.Call) -> bool:
    given = arguments_after(semantics, call)
    operation, _ = operation_of(semantics, call)
    place = 1 if operation == "norm" else 0  # behind the order: `x.norm(2)` is one number
    dim = argument(call, None, "dim") or (given[place] if len(given) > place else None)
    return _is_beyond_first(literal_of(dim))


def _is_beyond_first(axis: object) -> bool:
    return isinstance(axis, int) and not isinstance(axis, bool) and (axis >= 1 or axis <= -2)


def _is_full(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is None and index.upper is None and index.step is None


def _is_new_axis(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and index.value in (None, ...)


def _is_tensor(semantics: Semantics, expression: ast.expr) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.is_tensor


def is_used_as_mask(semantics: Semantics, value: ast.expr, depth: int = 0) -> bool:
    """Whether a truth value is used as one for each element: it chooses from a tensor, or is counted."""
    parent = parent_of(value)
    match parent:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr()) | ast.UnaryOp(op=ast.Invert()):
            return depth < 4 and is_used_as_mask(semantics, parent, depth + 1)
        case ast.Subscript(value=whole, slice=index):
            return (index is value and _is_tensor(semantics, whole)) or whole is value
        case ast.Attribute(attr=method):
            call = parent_of(parent)
            return method in _OF_SEVERAL and isinstance(call, ast.Call) and call.func is parent
        case ast.Call(func=function, args=[first, *_]) if first is value:
            return semantics.is_named(function, *_CHOOSING)
        case ast.Assign(targets=[ast.Name() as target]) if depth < 4:
            scope = enclosing_function(target)
            return any(
                isinstance(use, ast.Name)
                and use.id == target.id
                and isinstance(use.ctx, ast.Load)
                and [item.node for item in semantics.definitions(use)] == [parent]
                and is_used_as_mask(semantics, use, depth + 1)
                for use in (nodes_within(scope, ast.Name) if scope is not None else ())
            )
        case _:
            return False
