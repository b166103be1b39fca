"""Whether a loss is the mean over a batch, and the numbers that are made of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from torchlint import torch_api
from torchlint.regex import regex
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, element_of, has_unknown_arguments
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 10
#: Methods that give the same number.
_SAME_VALUE = frozenset(("item", "detach", "cpu", "numpy", "float", "double", "to", "clone", "tolist", "cuda"))
#: Losses without a ``reduction``.
_WITHOUT_REDUCTION = frozenset(("torch.nn.AdaptiveLogSoftmaxWithLoss",))
#: Names of factors that may be the size of a batch.
_SIZE = regex(r"batch|size|shape|len|num|count|samples|(^|_)(n|b|bs|bsz|total|numel)($|_)", re.IGNORECASE)


def is_batch_mean(semantics: Semantics, expression: ast.expr | None) -> bool:
    """Whether a value (a tensor, or the number of one: ``loss.item()``) is certainly the mean over a batch: a loss of
    torch with its default reduction, ``.mean()``, or sums and fixed multiples of these."""
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
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_mean(semantics, inner, depth + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return _are_means(semantics, (left, right), depth)
        case ast.IfExp(body=body, orelse=otherwise):
            return _are_means(semantics, (body, otherwise), depth)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return (_is_weight(semantics, left) and _is_mean(semantics, right, depth + 1)) or (
                _is_weight(semantics, right) and _is_mean(semantics, left, depth + 1)
            )
        case _:
            return False


def _are_means(semantics: Semantics, values: Sequence[ast.expr], depth: int) -> bool:
    """Whether values are means, or nothing (``loss if wanted else 0``), not all of them nothing."""
    present = [value for value in values if semantics.literal(value) not in (0, 0.0)]
    return bool(present) and all(_is_mean(semantics, value, depth + 1) for value in present)


def _is_weight(semantics: Semantics, factor: ast.expr) -> bool:
    """Whether a factor is a number that is the same for each batch: a constant, or an option (``args.alpha``,
    ``self.alpha``, a parameter) that is not called a size."""
    match factor:
        case ast.Constant():
            return True
        case ast.Attribute(value=ast.Name() as owner, attr=name):
            return not _SIZE.search(name) and _is_the_same_for_all(semantics, owner, deep=False)
        case ast.Name(id=name):
            return not _SIZE.search(name) and _is_the_same_for_all(semantics, factor, deep=True)
        case _:
            return False


def _is_the_same_for_all(semantics: Semantics, name: ast.Name, deep: bool) -> bool:
    """Whether a name is bound outside loops; ``deep``: to a parameter, a number or an option only."""
    definitions = semantics.definitions(name)
    for found in definitions:
        if found.kind not in (Binding.ASSIGNMENT, Binding.PARAMETER) or _is_in_loop(found.node):
            return False
        if deep and found.kind is Binding.ASSIGNMENT and not isinstance(found.value, ast.Constant | ast.Attribute):
            return False
    return bool(definitions)


def _is_in_loop(node: ast.AST) -> bool:
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.For | ast.AsyncFor | ast.While):
            return True
        current = parent_of(current)
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
