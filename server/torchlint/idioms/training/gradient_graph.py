"""Which names carry the autograd graph of a loss, and which names lead into a backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.training.gradient_actions import is_certain_tensor
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Definition, FunctionNode, dotted
from torchlint.semantics.semantics import Semantics

_DEEPEST = 6
#: Methods after which a value no longer leads to the graph.
_CUTTING = frozenset(("item", "detach", "tolist", "numpy", "argmax", "size", "dim", "numel"))
_BACKWARD_CALLS = frozenset(("backward", "grad", "manual_backward"))


def carried_names(expression: ast.expr) -> Iterator[ast.Name]:
    """The names whose graphs are part of the graph of an expression."""
    return (carrier for carrier in carriers(expression) if isinstance(carrier, ast.Name))


def carriers(expression: ast.expr) -> Iterator[ast.Name | ast.Attribute | ast.Subscript]:
    """The names, attributes and elements whose graphs are part of the graph of an expression: arithmetic, methods of
    tensors, ``scaler.scale``, and ``allreduce`` of Horovod, through which gradients pass."""
    match expression:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield expression
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            yield from carriers(left)
            yield from carriers(right)
        case ast.UnaryOp(operand=operand):
            yield from carriers(operand)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled]):
            yield from carriers(scaled)
        case ast.Call(func=ast.Attribute(attr="allreduce"), args=[averaged, *_]):
            yield from carriers(averaged)
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method not in _CUTTING:
            facts = torch_api.tensor_method(method)
            if facts is not None and facts.returns in ("tensor", "self"):
                yield from carriers(value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from carriers(element)
        case ast.Dict(values=values):
            for value in values:
                yield from carriers(value)
        case _:
            return


def backpropagated(semantics: Semantics, call: ast.Call) -> dict[Definition, bool]:
    """The bindings whose values ``call``, a ``....backward()``, backpropagates: the loss, and the tensors it was summed
    from; each with whether its value has certainly one element."""
    assert isinstance(call.func, ast.Attribute)
    found: dict[Definition, bool] = {}
    single = not call.args and not any(item.arg == "gradient" for item in call.keywords)
    queue = [(call.func.value, single, 0)]
    while queue:
        expression, single, depth = queue.pop()
        single = single and not any(
            isinstance(node, ast.Call) and getattr(node.func, "attr", "") != "scale"
            for node in nodes_within(expression, ast.Call)
        )
        for name in carried_names(expression):
            for definition in semantics.definitions(name):
                kind = semantics.definition_kind(definition)
                if definition in found or (depth and (kind is None or not kind.is_tensor)):
                    continue
                found[definition] = single
                if definition.value is not None and not definition.path and depth < _DEEPEST:
                    queue.append((definition.value, single, depth + 1))
    return found


def loss_of(semantics: Semantics, call: ast.Call) -> ast.expr | None:
    """The loss of a backward pass: ``loss.backward()``, ``scaler.scale(loss).backward()``, ``engine.backward(loss)``;
    None where an engine is given more or less than one."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "backward" or is_foreign(semantics, call):
        return call.args[0] if len(call.args) == 1 else None
    match semantics.value_of(call.func.value):
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled], keywords=[]):
            return scaled
        case _:
            return call.func.value


def is_foreign(semantics: Semantics, call: ast.Call) -> bool:
    """Whether ``x.backward(y)`` is no backward pass of a tensor (``engine.backward(loss)``)."""
    assert isinstance(call.func, ast.Attribute)
    kind = semantics.kind(call.func.value)
    if kind is not None and not kind.is_tensor:
        return kind.what is not What.NUMBER
    return bool(call.args) and not is_certain_tensor(kind)


def leads_to_backward(semantics: Semantics, target: str, function: FunctionNode | None) -> bool:
    """Whether what the dotted name ``target`` holds may be backpropagated, by itself or as part of another value: in
    the function (None: the module's own code), or anywhere in the file for an attribute."""
    return any(
        target in _names_behind(semantics, call)
        for name in _BACKWARD_CALLS
        for call in semantics.module.calls_of(name)
        if "." in target or enclosing_function(call) is function
    )


def _names_behind(semantics: Semantics, call: ast.Call) -> set[str]:
    """All dotted names from which a call's receiver and arguments may come."""
    found: set[str] = set()
    queue: list[tuple[ast.AST, int]] = [(call, 0)]
    seen: set[Definition] = set()
    while queue:
        node, depth = queue.pop()
        for inner in nodes_within(node, ast.Name, ast.Attribute):
            name = dotted(inner)
            if name is not None:
                found.add(name)
            if not isinstance(inner, ast.Name) or depth > _DEEPEST or not isinstance(inner.ctx, ast.Load):
                continue
            for definition in semantics.definitions(inner):
                if definition not in seen and definition.value is not None:
                    seen.add(definition)
                    if enclosing_function(definition.node) is enclosing_function(call):
                        queue.append((definition.value, depth + 1))
    return found
