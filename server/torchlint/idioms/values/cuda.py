"""Whether a call puts something on a CUDA device."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.nodes import argument, default_of, position_of_parameter
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics

_DEEPEST = 5
#: Calls that give a number by which a GPU may be named.
_NUMBERS = ("torch.cuda.current_device", "torch.distributed.get_rank")
_SPAWN = "torch.multiprocessing.spawn"


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
            if len(definitions) == 1 and definitions[0].kind is Binding.PARAMETER:
                values = _values_of_parameter(semantics, definitions[0].node)
                return bool(values) and all(is_cuda_device(semantics, value, depth + 1) for value in values)
            if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT or definitions[0].path:
                return False
            return is_cuda_device(semantics, definitions[0].value, depth + 1)
        case ast.Attribute(value=base, attr=attribute):
            owner = semantics.class_of_self(base)
            if owner is None:
                return False
            writes = semantics.module.attribute_writes(owner, attribute)
            held = semantics.module.body_definitions(owner, attribute) if not writes else ()
            if len(held) == 1 and held[0].value is not None:
                return is_cuda_device(semantics, held[0].value, depth + 1)
            return len(writes) == 1 and not writes[0].path and is_cuda_device(semantics, writes[0].value, depth + 1)
        case _:
            return False


def _values_of_parameter(semantics: Semantics, parameter: ast.AST) -> tuple[ast.expr, ...]:
    """What a parameter is, as far as the file says: what its calls give, and its default."""
    function = enclosing_function_of_parameter(parameter) if isinstance(parameter, ast.arg) else None
    if function is None or not isinstance(parameter, ast.arg):
        return ()
    default = default_of(parameter)
    return (*semantics.given_for(parameter, function), *((default,) if default is not None else ()))


def is_certainly_gpu(semantics: Semantics, device: ast.expr | None, depth: int = 0) -> bool:
    """Whether ``x.to(device)`` moves to a GPU, whatever machine it runs on and whatever it is told: the device is CUDA
    by a literal, or a number (``.to(rank)``), on all paths and for all calls of the file."""
    if device is None or depth > _DEEPEST:
        return False

    def all_are(values: Iterable[ast.expr | None]) -> bool:
        found = [is_certainly_gpu(semantics, value, depth + 1) for value in values]
        return bool(found) and all(found)

    match device:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int()):
            return True
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text.startswith("cuda")
        case ast.BinOp(op=ast.Add(), left=left):
            return is_certainly_gpu(semantics, left, depth + 1)
        case ast.Call() if semantics.is_named(device.func, "torch.device"):
            return is_certainly_gpu(semantics, argument(device, 0, "type"), depth + 1)
        case ast.Call() if semantics.is_named(device.func, *_NUMBERS) or builtin_called(semantics, device) == "int":
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return all_are((body, orelse))
        case ast.Name():
            return _is_gpu_name(semantics, device, all_are)
        case ast.Attribute(value=base, attr=attribute):
            owner = semantics.class_of_self(base)
            if owner is None:
                return False
            writes = semantics.module.attribute_writes(owner, attribute)
            values = [write.value if not write.path else None for write in writes]
            values += [item.value for item in semantics.module.body_definitions(owner, attribute)]
            return all_are(values)
        case _:
            return False


def _is_gpu_name(semantics: Semantics, name: ast.Name, all_are: Callable[[Iterable[ast.expr | None]], bool]) -> bool:
    definitions = semantics.definitions(name)
    values: list[ast.expr | None] = []
    for definition in definitions:
        if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
            function = enclosing_function_of_parameter(definition.node)
            if function is None:
                return False
            if _is_process_number(semantics, definition.node, function):
                continue
            given = semantics.given_for(definition.node, function)
            if len(given) != len(semantics.callers(function)) and function.name != "__init__":
                return False  # for some call it is the default
            values += given or (None,)
        else:
            values.append(definition.value if definition.kind is Binding.ASSIGNMENT and not definition.path else None)
    return bool(definitions) and (not values or all_are(values))


def _is_process_number(semantics: Semantics, parameter: ast.arg, function: FunctionNode) -> bool:
    """Whether ``mp.spawn(function, ...)`` gives a parameter the number of the process."""
    if position_of_parameter(parameter, function) != 0:
        return False
    spawned = [call for call in semantics.module.calls_of("spawn") if semantics.is_named(call.func, _SPAWN)]
    return any(semantics.local_function(argument(call, 0, "fn")) is function for call in spawned)
