"""Code that runs under autocast: the ``with`` block or the decorator that says so."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_AUTOCASTS = ("torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")


def cuda_autocast_around(semantics: Semantics, node: ast.AST) -> ast.Call | None:
    """The autocast for CUDA that a node runs under, where it stands in the same function or decorates it; None for
    none, for one that is or may be switched off, and for other devices. The innermost decides."""
    child, holder = node, parent_of(node)
    while holder is not None:
        if isinstance(holder, ast.With | ast.AsyncWith) and child in holder.body:
            for item in reversed(holder.items):
                call = _autocast(semantics, item.context_expr)
                if call is not None:
                    return call if _is_for_cuda(semantics, call) else None
        if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in holder.decorator_list:
                call = _autocast(semantics, decorator)
                if call is not None:
                    return call if _is_for_cuda(semantics, call) else None
            return None
        child, holder = holder, parent_of(holder)
    return None


def _autocast(semantics: Semantics, expression: ast.expr) -> ast.Call | None:
    value = semantics.value_of(expression)
    if isinstance(value, ast.Call) and semantics.is_named(value.func, *_AUTOCASTS):
        return value
    return None


def _is_for_cuda(semantics: Semantics, call: ast.Call) -> bool:
    device_is_given = not semantics.is_named(call.func, *_AUTOCASTS[1:])
    if semantics.is_named(call.func, _AUTOCASTS[2]):
        return False
    enabled = argument(call, 2 if device_is_given else 0, "enabled")
    if enabled is not None and semantics.literal(enabled) is not True:
        return False
    if not device_is_given:
        return True
    device = semantics.literal(argument(call, 0, "device_type"))
    return isinstance(device, str) and device.startswith("cuda")
