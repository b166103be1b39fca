"""What a module keeps: parameters, buffers, a mode. A module that keeps nothing may be shared or left unregistered."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Enum

from torchlint import torch_api
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 6
_REGISTERS = frozenset({"register_parameter", "register_module", "add_module", "setattr"})
_BUFFERS = frozenset({"register_buffer"})


class State(Enum):
    """What is kept by a module, as far as the code shows."""

    WEIGHTS = "parameters, or statistics that it keeps up to date"
    BUFFERS = "buffers only"
    MODE = "only the mode: train() and eval() matter"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


def given_arguments(call: ast.Call, parameters: tuple[str, ...], semantics: Semantics) -> Mapping[str, object] | None:
    """The literal values of a call's arguments by parameter; ``torch_api.UNKNOWN`` where a value is no literal.

    ``parameters`` in order; a "*" stands before those that are keyword-only. None where arguments are unpacked.
    """
    if has_unknown_arguments(call):
        return None
    values: dict[str, ast.expr] = {item.arg: item.value for item in call.keywords if item.arg is not None}
    positional = parameters[: parameters.index("*")] if "*" in parameters else parameters
    values.update(zip(positional, call.args, strict=False))
    return {name: _readable(_value(value, semantics)) for name, value in values.items()}


def _value(expression: ast.expr, semantics: Semantics) -> object:
    value = semantics.literal(expression)
    if value is UNKNOWN and isinstance(expression, ast.Name | ast.Attribute | ast.BinOp):
        number = whole_number(expression, semantics)
        return value if number is None else number
    return value


def _readable(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | tuple | list) or value is None else torch_api.UNKNOWN


def state_of(kind: Kind | None, semantics: Semantics, depth: int = 0) -> State:
    """What a module (or parameter) of this kind keeps."""
    if kind is None or depth > _DEEPEST:
        return State.UNKNOWN
    if kind.what is What.PARAMETER:
        return State.WEIGHTS
    if not kind.is_module:
        return State.UNKNOWN
    if kind.class_node is not None:
        return _of_local_class(kind.class_node, semantics, depth)
    facts = torch_api.module_facts(kind.origin)
    if facts is None:
        return State.WEIGHTS if torch_api.is_torchvision_model(kind.origin) else State.UNKNOWN
    call = kind.node if isinstance(kind.node, ast.Call) else None
    if facts.kind == "container":
        return _of_container(call, semantics, depth)
    given = given_arguments(call, facts.parameters, semantics) if call is not None else None
    weights, mode = torch_api.has_parameters(kind.origin, given), torch_api.is_mode_dependent(kind.origin, given)
    if weights or (mode and facts.has_buffers):
        return State.WEIGHTS
    if weights is None:
        return State.UNKNOWN
    if mode or (mode is None and facts.mode_default):  # `nn.Dropout(rate)`: a rate is hardly ever 0
        return State.MODE
    return State.UNKNOWN if mode is None else State.NOTHING


def _of_container(call: ast.Call | None, semantics: Semantics, depth: int) -> State:
    """A container keeps what its elements keep."""
    if call is None:
        return State.UNKNOWN
    if not call.args and not call.keywords:
        return State.UNKNOWN  # filled later
    elements: list[ast.expr] = []
    for item in call.args:
        given = item.value if isinstance(item, ast.Starred) else item
        value = semantics.value_of(given)
        match value:
            case ast.List(elts=inner) if isinstance(given, ast.Name):
                elements += inner
                added = _appended(given)
                if added is None:
                    return State.UNKNOWN
                elements += added
            case ast.List(elts=inner) | ast.Tuple(elts=inner):
                elements += inner
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                elements.append(element)
            case ast.Dict(values=inner):
                elements += inner
            case ast.Name() if isinstance(item, ast.Starred):
                elements += _in_one_of_several(value, semantics)
            case ast.expr():
                elements.append(value)
            case None:
                return State.UNKNOWN
    return strongest(state_of(semantics.kind(element), semantics, depth + 1) for element in elements)


def _in_one_of_several(name: ast.Name, semantics: Semantics) -> list[ast.expr]:
    """The elements of all the lists that a name may be; the name itself where one of them is not written out."""
    found: list[ast.expr] = list(_appended(name) or [])
    for definition in semantics.definitions(name):
        if not isinstance(definition.value, ast.List) or definition.path:
            return [*found, name]
        found += definition.value.elts
    return found


def _appended(name: ast.Name) -> list[ast.expr] | None:
    """What the function of a list's name appends to it; None where it changes the list in other ways."""
    function = enclosing_function(name)
    if function is None:
        return None
    found: list[ast.expr] = []
    for node in nodes_within(function, ast.Call, ast.AugAssign):
        match node:
            case ast.AugAssign(target=ast.Name(id=changed), value=ast.List(elts=inner)) if changed == name.id:
                found += inner
            case ast.AugAssign(target=ast.Name(id=changed)) if changed == name.id:
                return None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr="append"), args=[element]):
                found += [element] if changed == name.id else []
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr="insert"), args=[_, element]):
                found += [element] if changed == name.id else []
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr="extend")) if changed == name.id:
                return None
            case _:
                pass
    return found


def _of_local_class(node: ast.ClassDef, semantics: Semantics, depth: int) -> State:
    """A class of this file keeps what its attributes keep."""
    if semantics.has_unknown_base(node):
        return State.UNKNOWN
    found: list[State] = []
    for base in (*semantics.local_bases(node), node):
        if base is not node:
            found.append(_of_local_class(base, semantics, depth + 1) if depth < _DEEPEST else State.UNKNOWN)
            continue
        for name in semantics.module.attributes(node):
            kind = semantics.attribute_kind(node, name)
            if kind is not None and (kind.is_module or kind.what is What.PARAMETER):
                found.append(state_of(kind, semantics, depth + 1))
            elif kind is None and _is_called(name, node, semantics):
                found.append(State.UNKNOWN)
        methods = semantics.module.methods(node)
        if any(_calls(method, _REGISTERS) for method in methods):
            found.append(State.WEIGHTS)
        if any(_calls(method, _BUFFERS) for method in methods):
            found.append(State.BUFFERS)
    names = semantics.ancestors(node)
    if any(torch_api.has_parameters(name, None) for name in names if name.startswith("torch.nn.")):
        found.append(State.WEIGHTS)
    return strongest(found)


def _is_called(name: str, node: ast.ClassDef, semantics: Semantics) -> bool:
    """Whether a class calls ``self.<name>(...)`` or goes through it in a loop, as it does with modules."""
    for method in semantics.module.methods(node):
        for use in nodes_within(method, ast.Attribute):
            if isinstance(use, ast.Attribute) and use.attr == name:
                parent = parent_of(use)
                if isinstance(parent, ast.Call) and parent.func is use:
                    return True
                if isinstance(parent, ast.For | ast.comprehension | ast.Subscript | ast.Starred | ast.Call):
                    return True
    return False


def _calls(method: ast.FunctionDef | ast.AsyncFunctionDef, names: frozenset[str]) -> bool:
    return any(isinstance(call, ast.Call) and last_name(call.func) in names for call in nodes_within(method, ast.Call))


def strongest(states: object) -> State:
    """The state of several modules together: weights if any has weights, nothing only if all keep nothing."""
    found = set(states)  # type: ignore[call-overload]
    return next(
        (state for state in (State.WEIGHTS, State.UNKNOWN, State.BUFFERS, State.MODE) if state in found), State.NOTHING
    )
