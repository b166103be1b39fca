"""Activations that change the tensor that they are given: ``nn.ReLU(inplace=True)``, ``F.relu_``, ``x.relu_()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.layer_order import Applied, applied, may_be_layer, opened
from torchlint.idioms.modules.layer_sizes import layer_argument
from torchlint.idioms.modules.members import looped
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics

_DEEPEST = 3
_LONGEST_WAY = 6
#: Activations that can be told by an argument without a keyword to work in place, as classes and as functions.
_SWITCHED = frozenset(
    "ReLU relu ReLU6 relu6 SiLU silu SELU selu Mish mish Hardswish hardswish Hardsigmoid hardsigmoid ELU elu CELU celu "
    "LeakyReLU leaky_relu RReLU rrelu Hardtanh hardtanh Threshold threshold".split()
)
_IN_PLACE_NAMES = frozenset("relu_ leaky_relu_ elu_ selu_ celu_ rrelu_ hardtanh_ threshold_ sigmoid_ tanh_".split())


@dataclass(frozen=True, eq=False, slots=True)
class InPlace:
    """``call`` changes ``operand``. ``switch`` is the call that says so (the constructor of the layer, or the function
    itself), ``name`` what does it (``torch.nn.ReLU``)."""

    call: ast.Call
    operand: ast.expr
    switch: ast.Call
    name: str


def may_work_in_place(semantics: Semantics) -> bool:
    """Whether anything in the file looks as if it worked in place: soon answered, and mostly with no."""
    return semantics.module.memo.summary(("may work in place",), _may_work_in_place, False)


def _may_work_in_place(semantics: Semantics) -> bool:
    module = semantics.module
    if module.mentions_any_call(_IN_PLACE_NAMES) or any(
        _may_be_told(call, semantics) for call in module.calls_passing("inplace")
    ):
        return True
    return any(_has_switch(call, name) for name in module.names_called(_SWITCHED) for call in module.calls_of(name))


def _may_be_told(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call that passes ``inplace`` may make an activation of torch: what comes from elsewhere does not."""
    names = semantics.names(call.func)
    return not names or any(name.startswith((".", "torch.", "functools.")) for name in names)


def _has_switch(call: ast.Call, name: str) -> bool:
    """Whether the last argument without a keyword is anything but a number, or the input of a function."""
    given = call.args[1:] if name.islower() else call.args
    return any(not isinstance(item, ast.Constant) or item.value is True for item in given[-1:])


def inplace_activations(function: FunctionNode, semantics: Semantics, depth: int = 0) -> Iterator[InPlace]:
    """The calls in a function that change a variable, by an activation that works in place."""
    for call in nodes_within(function, ast.Call):
        assert isinstance(call, ast.Call)
        found = _inplace(call, semantics, depth)
        if found is not None:
            yield found


def _inplace(call: ast.Call, semantics: Semantics, depth: int) -> InPlace | None:
    if not _changes_variable(call):
        return None
    if not may_be_layer(call.func, semantics) and not _named_as_activation(call.func):
        return None
    names = semantics.names(call.func)
    if names:
        return _of_function(call, semantics.name(call.func), semantics)
    match call.func:
        case ast.Attribute(value=receiver, attr=method) if method.endswith("_") and not method.endswith("__"):
            if semantics.class_of_self(receiver) is None and torch_api.is_activation(f"torch.Tensor.{method}"):
                return InPlace(call, receiver, call, f"torch.Tensor.{method}")
    if isinstance(call.func, ast.Name):
        return _of_turns(call, call.func, semantics, depth)
    if not isinstance(call.func, ast.Attribute | ast.Subscript):
        return None
    layer = applied(call, semantics)
    if layer is None or layer.kind is None or layer.operand is None:
        return None
    return _of_layer(call, layer, layer.operand, semantics, depth)


def _of_turns(call: ast.Call, layer: ast.Name, semantics: Semantics, depth: int) -> InPlace | None:
    """The change by a layer of ``for layer in self.layers``, where a list is made of such as work in place."""
    definitions = semantics.definitions(layer)
    source, path = looped(definitions[0]) if len(definitions) == 1 else (None, ())
    kind = semantics.kind(source) if isinstance(source, ast.Attribute) and not path else None
    if kind is None or kind.origin != "torch.nn.ModuleList" or not isinstance(kind.node, ast.Call):
        return None
    operand = argument(call, 0, "input")
    match kind.node.args:
        case [ast.ListComp(elt=element) | ast.GeneratorExp(elt=element)]:
            elements = [element]
        case [ast.List(elts=elements)]:
            pass
        case _:
            return None
    for element in elements if operand is not None and len(call.args) == 1 else ():
        made = semantics.kind(element)
        if made is not None and made.proven and made.is_module and operand is not None:
            build = made.node if isinstance(made.node, ast.Call) else None
            found = _of_layer(call, Applied(call, made.origin, build, made), operand, semantics, depth)
            if found is not None:
                return found
    return None


def _of_layer(call: ast.Call, layer: Applied, operand: ast.expr, semantics: Semantics, depth: int) -> InPlace | None:
    first = opened(layer, semantics)[0]
    if first is None:
        return None
    if first.kind is not None and first.kind.class_node is not None and depth < _DEEPEST:
        inner = _of_class(first.kind.class_node, semantics, depth)
        return InPlace(call, operand, inner.switch, inner.name) if inner is not None else None
    switch = _switch(first, semantics)
    return InPlace(call, operand, switch, first.name) if switch is not None else None


def _changes_variable(call: ast.Call) -> bool:
    """Whether what a call would change is a plain name: asked first, because few calls are given one."""
    if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") and isinstance(call.func.value, ast.Name):
        return True
    return isinstance(argument(call, 0, "input"), ast.Name)


def _named_as_activation(function: ast.expr) -> bool:
    """Whether an activation has this last name; another name of this file may stand for one."""
    return (
        not isinstance(function, ast.Attribute)
        or torch_api.is_activation(f"torch.Tensor.{function.attr}")
        or (torch_api.is_activation(f"torch.nn.functional.{function.attr}"))
    )


def _of_function(call: ast.Call, name: str, semantics: Semantics) -> InPlace | None:
    operand = argument(call, 0, "input")
    if operand is None or not name.startswith("torch.") or not torch_api.is_activation(name):
        return None
    switch = argument(call, torch_api.positional_index(name, "inplace"), "inplace")
    inplace = name.endswith("_") or (switch is not None and semantics.literal(switch) is True)
    return InPlace(call, operand, call, name) if inplace else None


def _switch(layer: Applied, semantics: Semantics) -> ast.Call | None:
    """The constructor of an activation, where it says ``inplace=True``."""
    facts = torch_api.module_facts(layer.name)
    if facts is None or facts.kind != "activation" or layer.build is None:
        return None
    given = layer_argument(layer.build, facts, "inplace")
    return layer.build if given is not None and semantics.literal(given) is True else None


def _of_class(owner: ast.ClassDef, semantics: Semantics, depth: int) -> InPlace | None:
    """The activation that changes the input of the ``forward`` of a class of this file."""
    forward = semantics.find_method(owner, "forward")
    parameters = [*forward.args.posonlyargs, *forward.args.args] if forward is not None else []
    if forward is None or len(parameters) < 2:
        return None
    for found in inplace_activations(forward, semantics, depth + 1):
        changed = tensor_of(found.operand, semantics)
        if changed is not None and changed.node is parameters[1]:
            return found
    return None


def tensor_of(expression: ast.expr | None, semantics: Semantics) -> Definition | None:
    """The binding at which a variable got the tensor that it holds: ``identity = x`` is the tensor of ``x``. None where
    that may be one of several."""
    found = tensors_of(expression, semantics)
    return found[0][0] if len(found) == 1 else None


#: A binding that made a tensor, and the bindings by which other variables got it.
Held = tuple[Definition, tuple[Definition, ...]]


def tensors_of(
    expression: ast.expr | None, semantics: Semantics, passed_on: tuple[Definition, ...] = ()
) -> tuple[Held, ...]:
    """The tensors that a variable can hold, on all paths: ``identity`` of ``x`` unless a branch bound it anew."""
    if not isinstance(expression, ast.Name) or len(passed_on) > _LONGEST_WAY:
        return ()
    found: list[Held] = []
    for definition in semantics.definitions(expression):
        if definition in passed_on:
            continue
        value = definition.value if definition.kind is Binding.ASSIGNMENT and not definition.path else None
        held = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for item in held:
            if isinstance(item, ast.Name):
                found += tensors_of(item, semantics, (*passed_on, definition))
            else:
                found.append((definition, passed_on))
    return tuple(found)
