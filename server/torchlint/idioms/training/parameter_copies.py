"""Parameters of one module copied into another: ``target.load_state_dict(net.state_dict())`` and averaging loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.nodes import argument, enclosing_function, is_static, nodes_within
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_PARAMETERS = frozenset(("parameters", "named_parameters", "state_dict", "buffers", "children", "modules"))
_VIEWS = frozenset(("values", "items", "keys"))


@dataclass(frozen=True, eq=False, slots=True)
class ParameterCopy:
    """At ``node`` the parameters of ``source`` are copied, or averaged, into ``target``."""

    target: ast.expr
    source: ast.expr
    node: ast.AST


def parameter_copies(semantics: Semantics) -> tuple[ParameterCopy, ...]:
    """All places of the file at which parameters of one module are copied into another, where both can be named; a
    function that copies between its parameters stands for the calls of it."""

    def compute() -> tuple[ParameterCopy, ...]:
        module = semantics.module
        found: list[ParameterCopy] = []
        for call in module.calls_of("load_state_dict"):
            found += _loaded(semantics, call)
        for call in module.calls_of("zip"):
            found += _averaged(call)
        return tuple(copy for item in found for copy in _where_called(semantics, item))

    return semantics.module.memo.get(("parameter copies",), compute, ())


def _loaded(semantics: Semantics, call: ast.Call) -> Iterator[ParameterCopy]:
    given = semantics.value_of(argument(call, 0, "state_dict"))
    if semantics.is_call_to(given, "copy.deepcopy", "copy.copy") and isinstance(given, ast.Call) and given.args:
        given = semantics.value_of(given.args[0])
    match given:
        case ast.Call(func=ast.Attribute(value=source, attr="state_dict")) if isinstance(call.func, ast.Attribute):
            yield ParameterCopy(call.func.value, source, call)


def _averaged(pairs: ast.Call) -> Iterator[ParameterCopy]:
    """``for t, p in zip(target.parameters(), net.parameters()): t.data.copy_(...)``."""
    loop = parent_of(pairs)
    if not isinstance(loop, ast.For) or loop.iter is not pairs or len(pairs.args) != 2:
        return
    if not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
        return
    written = _written_in(loop)
    for position, element in enumerate(loop.target.elts):
        names = {item.id for item in ast.walk(element) if isinstance(item, ast.Name)}
        modules = [_module_of(item) for item in pairs.args]
        target, source = modules[position], modules[1 - position]
        if names & written and target is not None and source is not None:
            yield ParameterCopy(target, source, loop)
            return


def _written_in(loop: ast.For) -> set[str]:
    """The names of tensors that the body of a loop changes in place."""
    changed: list[ast.expr] = []
    for node in nodes_within(loop, ast.Call, ast.Assign):
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method.endswith("_"):
                changed.append(receiver)
            case ast.Assign(targets=[ast.Attribute(value=receiver, attr="data")]):
                changed.append(receiver)
    names: set[str] = set()
    for expression in changed:
        while isinstance(expression, ast.Attribute | ast.Call | ast.Subscript):
            expression = expression.func if isinstance(expression, ast.Call) else expression.value
        if isinstance(expression, ast.Name):
            names.add(expression.id)
    return names


def _module_of(parameters: ast.expr) -> ast.expr | None:
    """The module of ``net.parameters()`` or ``net.state_dict().values()``."""
    match parameters:
        case ast.Call(func=ast.Attribute(value=module, attr=method)) if method in _PARAMETERS:
            return module
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _VIEWS:
            return _module_of(inner)
        case ast.Call(func=ast.Name(id="list"), args=[inner]):
            return _module_of(inner)
        case _:
            return None


def _where_called(semantics: Semantics, copy: ParameterCopy) -> Iterator[ParameterCopy]:
    """A copy between two parameters of a function of the file, as its callers see it."""
    function = enclosing_function(copy.node)
    target, source = (_parameter(semantics, item, function) for item in (copy.target, copy.source))
    if function is None or target is None or source is None:
        yield copy
        return
    positional = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(parent_of(function), ast.ClassDef) and not is_static(function):
        positional = positional[1:]
    for call in semantics.callers(function):
        given = [
            argument(call, positional.index(name) if name in positional else None, name) for name in (target, source)
        ]
        if given[0] is not None and given[1] is not None:
            yield ParameterCopy(given[0], given[1], call)


def _parameter(semantics: Semantics, expression: ast.expr, function: FunctionNode | None) -> str | None:
    if not isinstance(expression, ast.Name):
        return None
    definitions = semantics.definitions(expression)
    if len(definitions) != 1 or definitions[0].kind is not Binding.PARAMETER:
        return None
    node = definitions[0].node
    return expression.id if isinstance(node, ast.arg) and enclosing_function_of_parameter(node) is function else None
