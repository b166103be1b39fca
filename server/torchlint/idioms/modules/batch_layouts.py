"""What is certainly arranged with the batch first, by how it was made: ``image.flatten(2).transpose(1, 2)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.batch_axes import (
    is_cut_into_steps,
    is_joined_along_steps,
    is_repeated_for_batch,
    is_sequence_of_channels,
)
from torchlint.idioms.modules.sequence_layers import keeps_order, value_through_helper
from torchlint.idioms.values.einops_patterns import groups_of_axes
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.nodes import argument, position_of_parameter
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_SWAPPED = ((1, 2), (2, 1), (-1, -2), (-2, -1), (1, -1), (-1, 1))
_BATCH = frozenset(("b", "B", "bs", "batch", "n_batch"))
_DEEPEST = 12


def arranged_batch_first(semantics: Semantics, expression: ast.expr, depth: int = 0) -> ast.expr | None:
    """Where a sequence was made with (batch, places or steps, channels) for its axes; None where that is not sure.

    Followed through names, operations that leave the order of axes, helpers, and parameters to what is given for them
    in this file.
    """
    if depth > _DEEPEST:
        return None
    match expression:
        case ast.Name():
            return _of_name(semantics, expression, depth)
        case ast.IfExp(body=body, orelse=orelse):
            return _first(semantics, (body, orelse), depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return _first(semantics, (left, right), depth)
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)):
            return arranged_batch_first(semantics, call, depth + 1) if keeps_order(semantics, call) else None
        case ast.Call():
            if any(test(semantics, expression) for test in _ARRANGES):
                return expression
            given = expression.args[0] if expression.args and keeps_order(semantics, expression) else None
            given = given or value_through_helper(semantics, expression)
            return arranged_batch_first(semantics, given, depth + 1) if given is not None else None
        case _:
            return None


def calls_of_instances(semantics: Semantics, node: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls of modules of a class by the variable or attribute that the construction is bound to."""
    for built in semantics.module.calls_of(node.name):
        if semantics.local_class(built.func) is not node:
            continue
        for call in _calls_by_binding(semantics, built):
            kind = semantics.kind(call.func)
            if kind is not None and kind.class_node is node:
                yield call


def _calls_by_binding(semantics: Semantics, built: ast.Call) -> Iterator[ast.Call]:
    holder = parent_of(built)
    while isinstance(holder, ast.Attribute | ast.Call):  # `Net().to(device)`
        holder = parent_of(holder)
    match holder:
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            yield from semantics.module.calls_of(name)


def _first(semantics: Semantics, values: tuple[ast.expr, ...], depth: int) -> ast.expr | None:
    found = (arranged_batch_first(semantics, value, depth + 1) for value in values)
    return next((place for place in found if place is not None), None)


def _of_name(semantics: Semantics, name: ast.Name, depth: int) -> ast.expr | None:
    places: list[ast.expr | None] = []
    for definition in semantics.definitions(name):
        if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
            places.append(_of_parameter(semantics, definition.node, depth))
        elif definition.kind is Binding.ASSIGNMENT and definition.value is not None and not definition.path:
            places.append(arranged_batch_first(semantics, definition.value, depth + 1))
        else:
            return None
    return places[0] if places and None not in places else None


def _of_parameter(semantics: Semantics, parameter: ast.arg, depth: int) -> ast.expr | None:
    """What every call in this file gives for a parameter: of a helper, or of ``forward`` through its module."""
    function = enclosing_function_of_parameter(parameter)
    if function is None:
        return None
    owner = parent_of(function)
    if function.name != "forward" or not isinstance(owner, ast.ClassDef):
        given = semantics.given_for(parameter, function)
    else:
        position = position_of_parameter(parameter, function)
        values = (argument(call, position, parameter.arg) for call in calls_of_instances(semantics, owner))
        given = tuple(value for value in values if value is not None)
    places = [arranged_batch_first(semantics, value, depth + 1) for value in given]
    return places[0] if places and None not in places else None


def _is_flat_image(semantics: Semantics, call: ast.Call) -> bool:
    """``image.flatten(2).transpose(1, 2)`` and its like: (batch, channels, height, width) becomes (batch, places,
    channels). The other order is ``permute(2, 0, 1)``."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.expr):
        return False
    axes = tuple(semantics.literal(item) for item in call.args)
    if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple | ast.List):
        axes = tuple(semantics.literal(item) for item in call.args[0].elts)
    swaps = call.func.attr in ("transpose", "swapaxes") and axes in _SWAPPED
    if not swaps and not (call.func.attr == "permute" and axes == (0, 2, 1)):
        return False
    match semantics.value_of(call.func.value):
        case ast.Call(func=ast.Attribute(attr="flatten")) as flat:
            return semantics.literal(argument(flat, 0, "start_dim")) in (2, -2) and len(flat.args) < 2
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, _, last]):
            return semantics.literal(last) == -1 or isinstance(last, ast.BinOp)
        case _:
            return False


def _is_reshaped_image(semantics: Semantics, call: ast.Call) -> bool:
    """``x.reshape(B * H * W, T, C)`` after ``B, C, T, H, W = x.shape``: the batch stands in the first axis alone."""
    match call:
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[first, *others]) if len(others) == 2:
            counts = [_batch_sizes(semantics, item) for item in (first, *others)]
            return bool(counts[0]) and not any(counts[1:])
        case _:
            return False


def _batch_sizes(semantics: Semantics, size: ast.expr) -> int:
    """How often a size counts the examples of images: the first of at least four sizes of a shape."""
    return sum(
        len(definitions) == 1
        and definitions[0].path == (0,)
        and isinstance(definitions[0].value, ast.Attribute)
        and definitions[0].value.attr == "shape"
        and isinstance(definitions[0].node, ast.Assign)
        and isinstance(definitions[0].node.targets[0], ast.Tuple)
        and len(definitions[0].node.targets[0].elts) > 3
        for name in ast.walk(size)
        if isinstance(name, ast.Name)
        for definitions in [semantics.definitions(name)]
    )


def _is_rearranged_image(semantics: Semantics, call: ast.Call) -> bool:
    """``rearrange(image, "b c h w -> b (h w) c")``: the first axis after it holds the batch, and only that one."""
    if not semantics.is_named(call.func, "einops.rearrange") or len(call.args) < 2:
        return False
    pattern = semantics.literal(call.args[1])
    groups = groups_of_axes(pattern) if isinstance(pattern, str) else None
    if groups is None:
        return False
    before, after = groups
    batch = before[0][0] if before and len(before[0]) == 1 else ""
    return batch in _BATCH and len(before) > 3 and len(after) == 3 and batch in after[0]


_ARRANGES = (
    _is_flat_image,
    _is_reshaped_image,
    _is_rearranged_image,
    is_sequence_of_channels,
    is_joined_along_steps,
    is_repeated_for_batch,
    is_cut_into_steps,
)
