"""Whether a call puts something on a CUDA device."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import argument
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

_DEEPEST = 5


def moves_to_cuda(semantics: Semantics, node: ast.AST | None) -> bool:
    """Whether ``node`` is ``x.cuda()``, ``x.to("cuda:0")`` or ``torch.zeros(3, device=device)`` with a device that is
    CUDA, or is CUDA where there is one."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "cuda" and not semantics.names(node.func):
        return True
    if node.func.attr == "to":
        return is_cuda_device(semantics, argument(node, 0, "device"))
    device = argument(node, None, "device")
    return device is not None and semantics.name(node.func).startswith("torch.") and is_cuda_device(semantics, device)


def is_cuda_device(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> bool:
    """Whether a device is CUDA, or is where CUDA is available (``"cuda" if torch.cuda.is_available() else "cpu"``)."""
    if expression is None or depth > _DEEPEST:
        return False
    match expression:
        case ast.Constant(value=str(text)):
            return text.startswith("cuda")
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text.startswith("cuda")
        case ast.Call() if semantics.is_named(expression.func, "torch.device"):
            return is_cuda_device(semantics, argument(expression, 0, "type"), depth + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            asks = any(isinstance(item, ast.Attribute) and item.attr == "is_available" for item in ast.walk(test))
            sides = [is_cuda_device(semantics, side, depth + 1) for side in (body, orelse)]
            return any(sides) if asks else all(sides)
        case ast.Name():
            definitions = semantics.definitions(expression)
            if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
                return False
            return is_cuda_device(semantics, definitions[0].value, depth + 1)
        case ast.Attribute(value=base, attr=attribute):
            owner = semantics.class_of_self(base)
            writes = semantics.module.attribute_writes(owner, attribute) if owner is not None else ()
            return len(writes) == 1 and not writes[0].path and is_cuda_device(semantics, writes[0].value, depth + 1)
        case _:
            return False
