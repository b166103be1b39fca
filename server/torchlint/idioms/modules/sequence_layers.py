"""Recurrent and attention layers that take (steps, batch, features) because nothing says ``batch_first=True``."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.data.loader_use import called_function
from torchlint.idioms.modules.layer_sizes import layer_argument
from torchlint.semantics.classes import ClassView
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.kinds import Kind
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import (
    argument,
    default_of,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    position_of_parameter,
)
from torchlint.semantics.scopes import Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
_ATTENTION = (
    "torch.nn.MultiheadAttention",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoderLayer",
    "torch.nn.Transformer",
)
#: The layers whose layout is to be chosen.
DEFAULT_LAYOUTS = (*_RECURRENT, *_ATTENTION)
#: What the parameter that takes the sequence is called.
_OPERANDS = ("input", "query", "src", "tgt")
_STACKS = ("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder")
#: Layers that leave the order of the axes as it is.
_KEEPS_ORDER = frozenset(("torch.nn.Embedding", "torch.nn.Linear", "torch.nn.LayerNorm", "torch.nn.Identity"))
#: Operations that leave it too.
_KEEPING_METHODS = frozenset(
    "to cuda cpu float long double half contiguous clone detach relu tanh sigmoid masked_fill".split()
)
_KEEPING_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in "relu tanh sigmoid sqrt nn.functional.relu nn.functional.gelu nn.functional.dropout "
    "nn.functional.leaky_relu nn.functional.tanh".split()
)
_REORDERING = frozenset(
    "permute transpose swapaxes swapdims movedim T mT t unsqueeze view reshape rearrange flatten squeeze".split()
)
_DEEPEST = 16


@dataclass(frozen=True, eq=False, slots=True)
class TimeFirst:
    """A layer of the default layout where it runs: ``built`` is its construction (for a stack that of the layer it
    repeats), ``call`` where it is given ``operand``, in ``method``."""

    built: ast.Call
    call: ast.Call
    operand: ast.expr
    method: FunctionNode
    recurrent: bool
    #: Whether the layer gives a tuple whose first element is the sequence.
    gives_tuple: bool


def time_first_layers(view: ClassView) -> list[TimeFirst]:
    """The calls of such layers of a module, in its ``forward`` and the methods that it calls."""
    found: list[TimeFirst] = []
    module = view.semantics.module
    if not any(module.mentions_call(name.rpartition(".")[2]) for name in (*_RECURRENT, *_ATTENTION)):
        return found
    for method in sorted(view.called_from("forward"), key=lambda one: one.lineno):
        if view.method(method.name) is not method:
            continue
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            operand = next((value for name in _OPERANDS if (value := argument(call, 0, name)) is not None), None)
            if not isinstance(call.func, ast.Attribute) or operand is None:
                continue
            if view.semantics.class_of_self(call.func.value) is None or enclosing_function(call) is not method:
                continue
            kind = view.semantics.kind(call.func)
            built = _default_layout(view.semantics, kind)
            if kind is None or built is None:
                continue
            recurrent = kind.origin in _RECURRENT
            gives_tuple = recurrent or kind.origin == "torch.nn.MultiheadAttention"
            found.append(TimeFirst(built, call, operand, method, recurrent, gives_tuple))
    return found


def is_default_layout(built: ast.Call, semantics: Semantics) -> bool:
    """Whether a call makes a layer that takes the steps first."""
    return _default_layout(semantics, semantics.kind(built)) is built


def _default_layout(semantics: Semantics, kind: Kind | None) -> ast.Call | None:
    """The construction that leaves ``batch_first`` to its default; None for any other layer."""
    if kind is None or not kind.proven or not isinstance(kind.node, ast.Call):
        return None
    if kind.origin in _STACKS:
        layer = kind.node.args[0] if kind.node.args else None
        inner = semantics.kind(layer)
        return _default_layout(semantics, inner) if inner is not None and inner.origin not in _STACKS else None
    facts = torch_api.module_facts(kind.origin)
    if facts is None or kind.origin not in (*_RECURRENT, *_ATTENTION) or has_unknown_arguments(kind.node):
        return None
    given = layer_argument(kind.node, facts, "batch_first")
    return kind.node if given is None or _is_left_at_false(semantics, given) else None


def _is_left_at_false(semantics: Semantics, given: ast.expr) -> bool:
    """Whether a layout is a parameter of the module whose default is False, and no construction here gives it."""
    definitions = semantics.definitions(given) if isinstance(given, ast.Name) else ()
    parameter = definitions[0].node if len(definitions) == 1 else None
    function = enclosing_function_of_parameter(parameter) if isinstance(parameter, ast.arg) else None
    if not isinstance(parameter, ast.arg) or function is None or literal_of(default_of(parameter)) is not False:
        return False
    owner = parent_of(function)
    if not isinstance(owner, ast.ClassDef) or function.name != "__init__":
        return False
    calls = [call for call in semantics.module.calls_of(owner.name) if semantics.local_class(call.func) is owner]
    position = position_of_parameter(parameter, function)
    return bool(calls) and not any(
        has_unknown_arguments(call) or argument(call, position, parameter.arg) is not None for call in calls
    )


def input_behind(semantics: Semantics, expression: ast.expr, method: FunctionNode, depth: int = 0) -> ast.arg | None:
    """The parameter of a method that a value comes from, with its axes in the same order on all ways; else None."""
    if depth > _DEEPEST:
        return None
    match expression:
        case ast.Name():
            return _input_of_name(semantics, expression, method, depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div() | ast.Sub(), right=right):
            found = input_behind(semantics, left, method, depth + 1)
            return found if found is not None else input_behind(semantics, right, method, depth + 1)
        case ast.IfExp(body=body, orelse=orelse):
            sides = {input_behind(semantics, side, method, depth + 1) for side in (body, orelse)}
            return sides.pop() if len(sides) == 1 else None
        case ast.Call(args=[operand, *_]) if keeps_order(semantics, expression):
            return input_behind(semantics, operand, method, depth + 1)
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _KEEPING_METHODS:
            return input_behind(semantics, receiver, method, depth + 1)
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)) if _gives_tuple(semantics, call):
            return input_behind(semantics, call.args[0], method, depth + 1)
        case ast.Call(args=[_, *_]):
            given = value_through_helper(semantics, expression, depth)
            return input_behind(semantics, given, method, depth + 1) if given is not None else None
        case _:
            return None


def _input_of_name(semantics: Semantics, name: ast.Name, method: FunctionNode, depth: int) -> ast.arg | None:
    found: set[ast.arg | None] = set()
    for definition in semantics.definitions(name):
        if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
            own = position_of_parameter(definition.node, method)
            found.add(definition.node if own is not None and own >= 0 else None)
        elif definition.kind is Binding.ASSIGNMENT and definition.value is not None:
            value = definition.value
            if definition.path == (0,) and isinstance(value, ast.Call) and _gives_tuple(semantics, value):
                value = value.args[0]
            elif definition.path:
                return None
            found.add(input_behind(semantics, value, method, depth + 1))
        else:
            return None
    return next(iter(found)) if len(found) == 1 else None


def _gives_tuple(semantics: Semantics, call: ast.Call) -> bool:
    kind = semantics.kind(call.func)
    return bool(call.args) and kind is not None and kind.origin in (*_RECURRENT, "torch.nn.MultiheadAttention")


def value_through_helper(semantics: Semantics, call: ast.Call, depth: int = 0) -> ast.expr | None:
    """What is given for the parameter that a helper of this file gives back with its axes in the same order
    (``self.placed(src, position)``); None for any other call."""
    function = called_function(semantics, call.func)
    values = semantics.returned_values(function) if function is not None else ()
    if function is None or not values or has_unknown_arguments(call):
        return None
    parameters = {input_behind(semantics, value, function, depth + 1) for value in values}
    parameter = parameters.pop() if len(parameters) == 1 else None
    position = position_of_parameter(parameter, function) if parameter is not None else None
    return argument(call, position, parameter.arg) if parameter is not None else None


def keeps_order(semantics: Semantics, call: ast.Call) -> bool:
    if semantics.name(call.func) in _KEEPING_FUNCTIONS:
        return True
    kind = semantics.kind(call.func) if isinstance(call.func, ast.Attribute) else None
    if kind is None or not kind.is_module:
        return False
    if kind.class_node is not None:  # a positional encoding of this file, say
        forward = semantics.find_method(kind.class_node, "forward")
        nodes = nodes_within(forward, ast.Attribute, ast.Name) if forward is not None else iter([parent_of(call)])
        return forward is not None and not any(last_name(node) in _REORDERING for node in nodes)
    facts = torch_api.module_facts(kind.origin)
    keeping = kind.origin in _KEEPS_ORDER or kind.origin in (*_ATTENTION[1:3], *_STACKS)
    return keeping or (facts is not None and facts.kind in ("activation", "dropout") and "Attention" not in kind.origin)
