"""Softmaxes that are called as functions or as methods of tensors: what each is taken of, over which axis."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics

#: What ``softmax_function`` and ``softmax_method`` read.
SOFTMAX_CALLS = tuple(
    f"{namespace}.{name}"
    for namespace in ("torch", "torch.nn.functional", "torch.special")
    for name in ("softmax", "log_softmax")
)
SOFTMAX_METHODS = ("softmax", "log_softmax")
#: The layers, which are told their axis where they are made.
SOFTMAX_LAYERS = ("torch.nn.Softmax", "torch.nn.LogSoftmax")


@dataclass(frozen=True, eq=False, slots=True)
class Softmax:
    """A softmax or log-softmax. ``axis``: None where none is given."""

    call: ast.Call
    operand: ast.expr
    axis: ast.expr | None


def softmax_function(call: ast.Call) -> Softmax | None:
    """What a call of one of ``SOFTMAX_CALLS`` does; None where its arguments do not tell."""
    operand = argument(call, 0, "input")
    if operand is None or has_unknown_arguments(call):
        return None
    return Softmax(call, operand, argument(call, 1, "dim"))


def softmax_method(semantics: Semantics, call: ast.Call) -> Softmax | None:
    """What a call of one of ``SOFTMAX_METHODS`` does; None for functions, for methods of the class that this is in, and
    where its arguments do not tell."""
    if not isinstance(call.func, ast.Attribute) or has_unknown_arguments(call):
        return None
    if semantics.names(call.func) or semantics.class_of_self(call.func.value) is not None:
        return None
    return Softmax(call, call.func.value, argument(call, 0, "dim"))
