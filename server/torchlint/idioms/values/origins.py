"""The expression that a tensor comes from: followed through names, ``self`` attributes with one write, and views."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics

_LONGEST_WAY = 12
#: Methods of tensors, and functions of the same name in torch, that give the same elements in another shape or place.
RESHAPING = frozenset(
    "view view_as reshape reshape_as flatten unflatten squeeze unsqueeze permute transpose swapaxes swapdims movedim "
    "moveaxis t contiguous expand expand_as narrow select flip roll ravel".split()
)
#: Those that keep the shape too.
KEEPING = frozenset("clone detach cuda cpu contiguous pin_memory requires_grad_ detach_ share_memory_".split())


def origin_of(semantics: Semantics, expression: ast.expr | None) -> ast.expr | None:
    """The expression that a value comes from: names and ``self.x`` are followed to their one assignment. Stops at what
    is neither, and at names and attributes that may be one of several things."""
    for _ in range(_LONGEST_WAY):
        value = semantics.value_of(expression)
        written = _written_once(semantics, value) if isinstance(value, ast.Attribute) else None
        if written is None:
            return value
        expression = written
    return expression


def _written_once(semantics: Semantics, attribute: ast.Attribute) -> ast.expr | None:
    owner = semantics.class_of_self(attribute.value)
    if owner is None:
        return None
    writes = semantics.module.attribute_writes(owner, attribute.attr)
    if len(writes) != 1 or writes[0].path or writes[0].augmented:
        return None
    return writes[0].value


def operation_of(semantics: Semantics, expression: ast.expr | None) -> tuple[str, ast.expr | None]:
    """What a call does to which tensor, spelled as a method or as a function of torch: ``("view", x)`` for
    ``x.view(2, 3)``, ``("transpose", x)`` for ``torch.transpose(x, 0, 1)``. Without a tensor for anything else."""
    match expression:
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if not semantics.names(expression.func):
            return method, receiver
        case ast.Call():
            head, _, tail = semantics.name(expression.func).rpartition(".")
            if head in ("torch", "torch.nn.functional"):
                return tail, argument(expression, 0, "input")
    return "", None


def arguments_after(semantics: Semantics, call: ast.Call) -> list[ast.expr]:
    """The positional arguments of an operation without the tensor that it is done to."""
    return call.args[1:] if semantics.names(call.func) else call.args
