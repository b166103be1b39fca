"""Whether a loss is the mean over a batch, and the numbers that are made of one."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, element_of, has_unknown_arguments
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

_DEEPEST = 6
#: Methods that give the same number.
_SAME_VALUE = frozenset(("item", "detach", "cpu", "numpy", "float", "double", "to", "clone", "tolist", "cuda"))
#: Losses without a ``reduction``.
_WITHOUT_REDUCTION = frozenset(("torch.nn.AdaptiveLogSoftmaxWithLoss",))


def is_batch_mean(semantics: Semantics, expression: ast.expr | None) -> bool:
    """Whether a value (a tensor, or the number of one: ``loss.item()``) is certainly the mean over a batch: a loss of
    torch with its default reduction, ``.mean()``, or sums and constant multiples of these."""
    return _is_mean(semantics, expression, 0)


def _is_mean(semantics: Semantics, expression: ast.expr | None, depth: int) -> bool:
    if expression is None or depth > _DEEPEST:
        return False
    match expression:
        case ast.Name():
            definitions = semantics.definitions(expression)
            return bool(definitions) and all(
                found.kind is Binding.ASSIGNMENT
                and found.value is not None
                and _is_mean(semantics, element_of(found.value, found.path), depth + 1)
                for found in definitions
            )
        case ast.Attribute(value=base, attr="data") | ast.Subscript(value=ast.Attribute(value=base, attr="data")):
            return _is_mean(semantics, base, depth + 1)
        case ast.Call():
            return _is_mean_call(semantics, expression, depth)
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return _is_mean(semantics, left, depth + 1) and _is_mean(semantics, right, depth + 1)
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=inner):
            return _is_mean(semantics, inner, depth + 1)
        case ast.BinOp(op=ast.Mult(), left=inner, right=ast.Constant()):
            return _is_mean(semantics, inner, depth + 1)
        case _:
            return False


def _is_mean_call(semantics: Semantics, call: ast.Call, depth: int) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in _SAME_VALUE:
            return _is_mean(semantics, base, depth + 1)
        case ast.Call(func=ast.Attribute(value=base, attr="sum"), args=[]) if _is_mean(semantics, base, depth + 1):
            return True  # the sum of one number
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _is_mean(semantics, inner, depth + 1)
        case ast.Call(func=ast.Attribute(value=base, attr="mean"), args=[], keywords=[]):
            kind = semantics.kind(base)
            return kind is not None and kind.is_tensor
    function = semantics.local_function(call.func)
    if function is not None:
        returned = semantics.returned_values(function)
        return bool(returned) and all(_is_mean(semantics, value, depth + 1) for value in returned)
    name = semantics.name(call.func)
    if name == "torch.mean":
        return len(call.args) == 1 and not call.keywords
    if name:
        return torch_api.is_loss_function(name) and _has_mean_reduction(semantics, call)
    kind = semantics.kind(call.func)
    if kind is None or kind.what is not What.LOSS or kind.class_node is not None:
        return False
    known = torch_api.is_loss_class(kind.origin) and kind.origin not in _WITHOUT_REDUCTION
    return known and isinstance(kind.node, ast.Call) and _has_mean_reduction(semantics, kind.node)


def _has_mean_reduction(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call of a loss function, or the construction of a loss, leaves the reduction at the mean."""
    if has_unknown_arguments(call):
        return False
    old = [argument(call, None, name) for name in ("size_average", "reduce")]
    if any(value is not None and semantics.literal(value) is not True for value in old):
        return False
    # By position only the prediction, the target and a weight are common; what comes after could be a reduction.
    if sum(isinstance(item, ast.Constant) for item in call.args):
        return False
    reduction = argument(call, None, "reduction")
    return reduction is None or semantics.literal(reduction) == "mean"
