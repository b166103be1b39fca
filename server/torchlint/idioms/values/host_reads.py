"""Values of tensors that the host reads: whether a module computed them, and what they are read for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.used_as_module import is_treated_as_module
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 4
#: What is asked of a tensor without reading its values.
_DESCRIBES = frozenset("shape size dim ndim dtype device numel".split())


def reads_computed_value(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a model or a loss computed what is read here, so that it is where they are."""
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    if call.args or call.keywords or is_decided(call) or _is_on_cpu(receiver, semantics):
        return False
    kind = semantics.kind(receiver)
    return (kind is None or kind.is_tensor) and is_computed(receiver, semantics)


def is_computed(expression: ast.expr, semantics: Semantics, depth: int = 0) -> bool:
    """Whether a value comes out of a module, carries a graph that is cut here, or is backpropagated in the function."""
    for node in _values_in(expression) if depth < _DEEPEST else ():
        match node:
            case ast.Attribute(attr="detach"):
                return True
            case ast.Call(func=function):
                kind = semantics.kind(function)
                if kind is not None and kind.is_module:
                    return True
                if kind is None and is_treated_as_module(function, semantics):
                    return True
            case ast.Name():
                if is_backpropagated(node, semantics):
                    return True
                values = [found.value for found in semantics.definitions(node) if found.kind is Binding.ASSIGNMENT]
                if any(value is not None and is_computed(value, semantics, depth + 1) for value in values):
                    return True
    return False


def is_backpropagated(name: ast.Name, semantics: Semantics) -> bool:
    """Whether the function around a name calls ``backward`` on it."""
    holder = enclosing_function(name)
    return holder is not None and "backward" in semantics.methods_called_on(name.id, holder)


def is_certainly_tensor(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether an expression is a tensor for certain, as a loss is that the function backpropagates."""
    kind = semantics.kind(expression)
    if kind is not None and kind.what is What.TENSOR and kind.proven:
        return True
    return isinstance(expression, ast.Name) and is_backpropagated(expression, semantics)


def is_read_by_test(test: ast.expr, semantics: Semantics) -> bool:
    """Whether a condition is a computed tensor, or compares one with something: ``if loss > 10``."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return is_read_by_test(operand, semantics)
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[right]):
            sides: tuple[ast.expr, ...] = (left, right)
        case ast.Name():
            sides = (test,)
        case _:
            return False  # a call is a guard: `torch.isnan(loss)`
    return any(is_certainly_tensor(side, semantics) and is_computed(side, semantics) for side in sides)


def _values_in(expression: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a value is computed from, without what is only asked for its size, dtype or device."""
    yield expression
    if isinstance(expression, ast.Attribute) and expression.attr in _DESCRIBES:
        return
    for child in ast.iter_child_nodes(expression):
        yield from _values_in(child)


def _is_on_cpu(receiver: ast.expr, semantics: Semantics) -> bool:
    """Whether a value was brought to the CPU where it is read, or where its name was bound."""
    if isinstance(receiver, ast.Name):
        bound = [found.value for found in semantics.definitions(receiver)]
        return bool(bound) and all(value is not None and _goes_to_cpu(value) for value in bound)
    return _goes_to_cpu(receiver)


def _goes_to_cpu(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy") for node in ast.walk(expression))


def is_decided(node: ast.AST) -> bool:
    """Whether a read serves a decision: it stands in a condition, or is given a name that stands in one."""
    holder: ast.AST | None = parent_of(node)
    inner: ast.AST = node
    while holder is not None and not isinstance(holder, ast.stmt):
        if isinstance(holder, ast.IfExp | ast.BoolOp | ast.Lambda):
            return True
        inner = holder
        holder = parent_of(holder)
    match holder:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ) if value is inner:
            function = enclosing_function(holder)
            tests = nodes_within(function, ast.If, ast.While) if function is not None else ()
            return any(
                isinstance(part, ast.Name) and part.id == name
                for test in tests
                if isinstance(test, ast.If | ast.While)
                for part in ast.walk(test.test)
            )
        case _:
            return isinstance(holder, ast.If | ast.While | ast.Assert)


def is_for_environment(node: ast.AST) -> bool:
    """Whether a read is given to the ``step`` of an environment, which runs on the host."""
    holder = parent_of(node)
    while holder is not None and not isinstance(holder, ast.stmt):
        if isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute) and holder.func.attr == "step":
            return True
        holder = parent_of(holder)
    return False
