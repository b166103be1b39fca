"""Tensors that are certainly on the GPU, where there is one (moved there, or computed from what was), or on the CPU."""

from __future__ import annotations

import ast

from torchlint.idioms.values.cuda import is_cuda_device, moves_to_cuda
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.origins import KEEPING, RESHAPING, operation_of, origin_of
from torchlint.idioms.values.tensor_sizes import ELEMENTWISE
from torchlint.semantics.nodes import argument, element_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.torch_api import factory_facts, tensor_method

_DEEPEST = 8
_LONGEST_WAY = 12
#: What leaves the GPU, or may.
_LEAVING = frozenset("cpu to item tolist numpy type new_tensor".split())


def moved_to_gpu(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> ast.expr | None:
    """The expression that puts a value on the GPU, if that is where it certainly is; None otherwise."""
    if expression is None or depth > _DEEPEST:
        return None
    match expression:
        case ast.Name():
            return _name(semantics, expression, depth)
        case ast.BinOp(left=left, right=right):
            return moved_to_gpu(semantics, left, depth + 1) or moved_to_gpu(semantics, right, depth + 1)
        case ast.UnaryOp(operand=operand) if not isinstance(expression.op, ast.Not):
            return moved_to_gpu(semantics, operand, depth + 1)
        case ast.Subscript(value=value):
            kind = semantics.kind(value)
            return moved_to_gpu(semantics, value, depth + 1) if kind is not None and kind.is_tensor else None
        case ast.Attribute(value=value, attr="data" | "grad" | "T"):
            return moved_to_gpu(semantics, value, depth + 1)
        case ast.Call():
            return _call(semantics, expression, depth)
        case _:
            return None


def _name(semantics: Semantics, name: ast.Name, depth: int) -> ast.expr | None:
    found: ast.expr | None = None
    for definition in semantics.definitions(name):
        if definition.kind is Binding.AUGMENTED:
            continue
        if definition.kind is not Binding.ASSIGNMENT or definition.value is None:
            return None
        moved = moved_to_gpu(semantics, element_of(definition.value, definition.path), depth + 1)
        if moved is None:
            return None
        found = found or moved
    return found


def _call(semantics: Semantics, call: ast.Call, depth: int) -> ast.expr | None:
    if moves_to_cuda(semantics, call):
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        kind = semantics.kind(receiver)
        return call if kind is None or kind.is_tensor else None
    device = argument(call, None, "device")
    if device is not None:
        return call if is_cuda_device(semantics, device) and semantics.name(call.func).startswith("torch.") else None
    called = semantics.kind(call.func)
    if called is not None and called.is_module:
        return moved_to_gpu(semantics, call.args[0], depth + 1) if called.proven and len(call.args) == 1 else None
    operation, operand = operation_of(semantics, call)
    if operation in _LEAVING or operand is None:
        return None
    facts = tensor_method(operation)
    if operation in RESHAPING or operation in KEEPING or (facts is not None and facts.returns in ("tensor", "self")):
        return moved_to_gpu(semantics, operand, depth + 1)
    return None


def is_on_cpu(semantics: Semantics, tensor: ast.expr) -> bool | None:
    """Whether a tensor was made on the CPU; False where it was made elsewhere or moved, None where that is not seen."""
    value = origin_of(semantics, tensor)
    for _ in range(_LONGEST_WAY):
        if not isinstance(value, ast.Call):
            return None
        device = argument(value, None, "device")
        if device is not None:
            return semantics.literal(device) == "cpu"
        if semantics.is_named(value.func, "torch.nn.Parameter"):
            return False  # it goes where its module goes
        operation, operand = operation_of(semantics, value)
        if operation == "cuda":
            return False
        if operation == "cpu":
            return True
        if operation == "to" and value.args and device_evidence(semantics, value.args[0]) is not None:
            return semantics.literal(value.args[0]) == "cpu"
        factory = factory_facts(semantics.name(value.func))
        if factory is not None and not factory.like:
            return True
        if operand is None or (factory is None and operation not in ELEMENTWISE | RESHAPING):
            return None
        value = origin_of(semantics, operand)
    return None
