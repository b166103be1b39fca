"""What reaches a value: the operation that was done to it last, on each path.

``loss(model(x), y)`` is wrong or right by what ``forward`` does at its end. A value is followed through names,
branches, elements of tuples, changes of shape and device, and calls of functions, methods and modules of this file.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.member_lists import members_of_call
from torchlint.idioms.modules.replaced_heads import replaced_head
from torchlint.idioms.values.iterated import elements_iterated
from torchlint.semantics.kinds import Kind
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import (
    argument,
    enclosing_class,
    enclosing_function,
    nodes_within,
    position_of_parameter,
    statement_of,
)
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Where in a returned tuple (positions from 0) or dict (keys) the value stands.
Path = tuple[int | str | None, ...]

_DEEPEST = 10
_LONGEST_WAY = 60
_MOST_OPERATIONS = 16
#: Functions and methods of tensors that change shape, place or precision, and leave the values what they mean.
_SAME_VALUES = frozenset(
    "to cuda cpu float double half bfloat16 clone contiguous detach view view_as reshape reshape_as flatten unflatten "
    "squeeze unsqueeze permute transpose swapaxes movedim t expand expand_as narrow select index_select gather "
    "masked_select requires_grad_ type type_as".split()
)
_SAME_VALUES_FUNCTIONS = frozenset(f"torch.{name}" for name in _SAME_VALUES) | {
    "torch.nn.functional.interpolate",  # a weighted mean of probabilities is one, that of logits is no less a logit
    "torch.nn.functional.upsample",
}
_SAME_VALUES_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "Identity Flatten Unflatten Upsample UpsamplingNearest2d UpsamplingBilinear2d".split()
)
#: Functions and methods that keep the shape: they change place and precision, or each element by itself.
_SAME_SHAPE = frozenset(
    "to cuda cpu float double half bfloat16 clone contiguous detach requires_grad_ relu leaky_relu elu selu gelu silu "
    "tanh sigmoid softplus dropout exp log clamp clip".split()
)
_SAME_SHAPE_FUNCTIONS = frozenset(f"torch.{head}{name}" for name in _SAME_SHAPE for head in ("", "nn.functional."))
_SAME_SHAPE_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "Identity Dropout ReLU LeakyReLU ELU SELU GELU SiLU Tanh Sigmoid Softplus Hardtanh ReLU6".split()
)
_WRAPPERS = frozenset(
    ("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.compile", "torch.jit.script")
)
#: Methods that change what a container runs after it was built.
_CONTAINER_CHANGES = ("add_module", "append", "extend", "insert", "register_module")


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """The last operation that makes a value on one path.

    ``name`` is the canonical name of a function (``torch.softmax``), of the class of a layer (``torch.nn.Softmax``) or
    of a method (``torch.Tensor.softmax``); empty for anything else (an input, arithmetic, something unknown). ``node``
    is where it stands, ``through`` the calls of this file's functions and modules that lead there, outermost first.
    """

    name: str
    node: ast.AST
    through: tuple[ast.Call, ...] = ()
    #: What the operation is applied to, where it stands as a call of its own: ``x`` in ``F.softmax(x, dim=1)``.
    operand: ast.expr | None = None


def last_operations(semantics: Semantics, expression: ast.expr) -> tuple[Operation, ...]:
    """The last operation of a value on each path that leads to it; one without a name for each unknown path."""
    found = {(item.node, item.through): item for item in _Follower(semantics).value(expression, ())}
    return tuple(found.values())


def shaping_operations(semantics: Semantics, expression: ast.expr) -> tuple[Operation, ...]:
    """The last operation on each path that gives a value its shape: what changes each element by itself is passed
    over, and ``view``, ``squeeze``, an index and the like count as operations of their own or are unknown."""
    found = {(item.node, item.through): item for item in _ShapeFollower(semantics).value(expression, ())}
    return tuple(found.values())


class _Follower:
    passed_methods = _SAME_VALUES
    passed_functions = _SAME_VALUES_FUNCTIONS
    passed_layers = _SAME_VALUES_LAYERS

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        #: The calls by which the functions that are being followed were entered.
        self._entered: dict[FunctionNode, ast.Call] = {}
        self._active: set[tuple[ast.AST, Path]] = set()
        self._known: dict[tuple[ast.AST, Path, tuple[ast.Call, ...]], list[Operation]] = {}
        self._through: tuple[ast.Call, ...] = ()

    def value(self, expression: ast.expr, path: Path) -> list[Operation]:
        """The last operations of the element of ``expression`` that ``path`` leads to (the whole: no path)."""
        key = (expression, path)
        if key in self._active:
            return []  # a value that depends on itself through a loop: the way into the loop decides
        known_as = (expression, path, self._through)
        known = self._known.get(known_as)
        if known is not None:
            return known
        if len(self._active) >= _LONGEST_WAY or len(self._through) > _DEEPEST:
            return [self._unknown(expression)]
        self._active.add(key)
        try:
            found = self._value(expression, path)[:_MOST_OPERATIONS]
        finally:
            self._active.discard(key)
        self._known[known_as] = found
        return found

    def _value(self, expression: ast.expr, path: Path) -> list[Operation]:
        match expression:
            case ast.Name():
                return self._name(expression, path)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.value(value, path)
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.value(body, path), *self.value(orelse, path)]
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if path:
                return self._element(expression, elements, path)
            case ast.Dict(keys=keys, values=values) if path:
                for key, value in zip(keys, values, strict=True):
                    if literal_of(key) == path[0]:
                        return self.value(value, path[1:])
                return [self._unknown(expression)]
            case ast.Subscript(value=value, slice=index):
                place = literal_of(index)
                step = (place,) if isinstance(place, int | str) else ()
                return self.value(value, (*step, *path))
            case ast.Call():
                return self._call(expression, path)
            case _:
                return [self._unknown(expression)]

    def _unknown(self, node: ast.AST) -> Operation:
        return Operation("", node, self._through)

    def _element(self, holder: ast.expr, elements: Sequence[ast.expr], path: Path) -> list[Operation]:
        index = path[0]
        starred = any(isinstance(element, ast.Starred) for element in elements)
        if not isinstance(index, int) or starred or not -len(elements) <= index < len(elements):
            return [self._unknown(holder)]
        return self.value(elements[index], path[1:])

    # -- names ------------------------------------------------------------------------------------------------------

    def _name(self, name: ast.Name, path: Path) -> list[Operation]:
        definitions = self._semantics.definitions(name)
        if not definitions:
            return [self._unknown(name)]
        return [operation for definition in definitions for operation in self._definition(definition, name, path)]

    def _definition(self, definition: Definition, use: ast.Name, path: Path) -> list[Operation]:
        if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
            return self.value(definition.value, (*definition.path, *path))
        if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
            return self._parameter(definition.node, use, path)
        if definition.kind in (Binding.LOOP, Binding.COMPREHENSION):
            elements, way = elements_iterated(self._semantics, definition)
            return [item for element in elements for item in self.value(element, (*way, *path))] or [self._unknown(use)]
        return [self._unknown(use)]

    def _parameter(self, parameter: ast.arg, use: ast.Name, path: Path) -> list[Operation]:
        holder = parent_of(parameter)
        function = parent_of(holder) if holder is not None else None
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return [self._unknown(use)]
        call = self._entered.get(function)
        if call is None:
            given = self._semantics.given_for(parameter, function)
            return [item for value in given for item in self.value(value, path)] or [self._unknown(use)]
        value = argument(call, position_of_parameter(parameter, function), parameter.arg)
        return self.value(value, path) if value is not None else [self._unknown(use)]

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, path: Path) -> list[Operation]:
        semantics = self._semantics
        names = semantics.names(call.func)
        if names:
            name = semantics.name(call.func)
            if name.startswith("."):
                function = semantics.local_function(call.func)
                return self._returned(function, call, path)
            operand = argument(call, 0, "input")
            if name in self.passed_functions and operand is not None:
                return self.value(operand, path)
            return [Operation(name, call, self._through, operand)]
        if isinstance(call.func, ast.Attribute):
            return self._method(call, call.func, path)
        owner = semantics.class_of_self(call.func)
        if owner is not None:
            return self._instance(owner, call, path)
        return self._module(semantics.kind(call.func), call.func, call, path)

    def _method(self, call: ast.Call, function: ast.Attribute, path: Path) -> list[Operation]:
        semantics = self._semantics
        receiver, method = function.value, function.attr
        owner = semantics.class_of_self(receiver)
        kind = semantics.kind(receiver) if owner is None else None
        if owner is None and kind is not None:
            owner = kind.class_node
        if owner is not None:
            found = semantics.find_method(owner, method)
            if found is not None:
                return self._returned(found, call, path)
        called = semantics.kind(function)
        if called is not None and called.is_module:
            return self._module(called, function, call, path)
        if kind is not None and kind.is_module:
            return self._module(kind, receiver, call, path) if method == "forward" else [self._unknown(call)]
        if owner is not None:
            return [self._unknown(call)]
        if method in self.passed_methods:
            return self.value(receiver, path)
        if (kind is not None and kind.is_tensor) or _reads_as_tensor_method(call):
            return [Operation(f"torch.Tensor.{method}", call, self._through, receiver)]
        return [self._unknown(call)]

    def _returned(self, function: FunctionNode | None, call: ast.Call, path: Path) -> list[Operation]:
        """The last operations of what a call of a function of this file returns."""
        if function is None or function in self._entered:
            return [self._unknown(call)]
        self._entered[function] = call
        before, self._through = self._through, (*self._through, call)
        try:
            values = self._semantics.returned_values(function)
            return [item for value in values for item in self.value(value, path)] or [self._unknown(call)]
        finally:
            del self._entered[function]
            self._through = before

    # -- modules ----------------------------------------------------------------------------------------------------

    def _module(self, kind: Kind | None, module: ast.expr, call: ast.Call, path: Path) -> list[Operation]:
        """The last operations of what calling a module gives."""
        if kind is None or not kind.is_module:
            return [self._unknown(call)]
        if kind.class_node is not None:
            return self._instance(kind.class_node, call, path)
        operand = argument(call, 0, "input")
        if kind.origin in self.passed_layers and operand is not None:
            return self.value(operand, path)
        if kind.origin in _WRAPPERS or kind.origin == "torch.nn.Sequential":
            if self._is_changed(module, kind.node):
                return [self._unknown(call)]
            before, self._through = self._through, (*self._through, call)
            try:
                return self._layer(kind, call, path)
            finally:
                self._through = before
        head = replaced_head(module) if torch_api.is_torchvision_model(kind.origin) else None
        if head is not None:
            return self._layer(self._semantics.kind(head), call, path)
        return [Operation(kind.origin, call, self._through, operand)]

    def _layer(self, kind: Kind | None, call: ast.Call, path: Path, depth: int = 0) -> list[Operation]:
        """The last operations of a module that is given as a value: a member of a Sequential, a wrapped module."""
        if kind is None or not kind.is_module or depth > _DEEPEST:
            return [self._unknown(call)]
        built = kind.node
        if kind.class_node is not None:
            return self._instance(kind.class_node, call, path)
        if not isinstance(built, ast.Call):
            return [self._unknown(call)]
        if kind.origin in _WRAPPERS:
            wrapped = self._semantics.kind(built.args[0]) if built.args else None
            return self._layer(wrapped, call, path, depth + 1)
        if kind.origin != "torch.nn.Sequential":
            return [Operation(kind.origin, built, self._through)]
        return self._last_member(built, call, path, depth)

    def _last_member(self, built: ast.Call, call: ast.Call, path: Path, depth: int = 0) -> list[Operation]:
        for layer in reversed(members_of_call(built, self._semantics)):
            inner = self._semantics.kind(layer) if layer is not None else None
            if inner is None or inner.origin not in self.passed_layers:
                return self._layer(inner, call, path, depth + 1)
        return [self._unknown(call)]

    def _instance(self, owner: ast.ClassDef, call: ast.Call, path: Path) -> list[Operation]:
        """The last operations of calling an instance of a module class of this file."""
        forward = self._semantics.find_method(owner, "forward")
        if forward is not None or "torch.nn.Sequential" not in self._semantics.ancestors(owner):
            return self._returned(forward, call, path)
        constructor = self._semantics.find_method(owner, "__init__")
        built = _super_init(constructor) if constructor is not None else None
        if built is None:
            return [self._unknown(call)]
        before, self._through = self._through, (*self._through, call)
        try:
            return self._last_member(built, call, path)
        finally:
            self._through = before

    def _is_changed(self, module: ast.expr, built: ast.AST | None) -> bool:
        """Whether something in the file adds members to a container of this (last) name, away from where it is made:
        what the same block adds is read with the members."""
        name = _last_name(module)
        return any(
            isinstance(other.func, ast.Attribute)
            and _last_name(other.func.value) == name
            and (built is None or self._may_change(other, built))
            for method in _CONTAINER_CHANGES
            for other in self._semantics.module.calls_of(method)
        )

    def _may_change(self, addition: ast.Call, built: ast.AST) -> bool:
        """Whether an addition to a container of the same name may be one to the container that ``built`` makes."""
        place = enclosing_function(built)
        if place is not None and enclosing_function(addition) is place:
            return parent_of(statement_of(built)) is not place  # `members_of_call` reads the rest of the block
        owner, other = enclosing_class(built), enclosing_class(addition)
        return owner is None or other is None or owner in self._semantics.lineage(other)


class _ShapeFollower(_Follower):
    passed_methods = _SAME_SHAPE
    passed_functions = _SAME_SHAPE_FUNCTIONS
    passed_layers = _SAME_SHAPE_LAYERS

    def _value(self, expression: ast.expr, path: Path) -> list[Operation]:
        match expression:
            case ast.Subscript(slice=index) if not isinstance(literal_of(index), int | str):
                return [self._unknown(expression)]
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right) if _is_number(right) and not path:
                return self.value(left, path)
            case _:
                found = super()._value(expression, path)
                if path and isinstance(expression, ast.Call):
                    # An element of what a layer gives has another shape than the whole.
                    return [item if expression is not item.node else self._unknown(expression) for item in found]
                return found

    def _layer(self, kind: Kind | None, call: ast.Call, path: Path, depth: int = 0) -> list[Operation]:
        if path and (kind is None or kind.class_node is None):
            return [self._unknown(call)]
        return super()._layer(kind, call, path, depth)


def _is_number(expression: ast.expr) -> bool:
    value = literal_of(expression)
    return isinstance(value, int | float)


def _reads_as_tensor_method(call: ast.Call) -> bool:
    """Whether a call on something unknown has the form of a method that only tensors have: ``x.softmax(1)``.

    ``backend.softmax(x, 1)`` is a function of an unknown module.
    """
    if not isinstance(call.func, ast.Attribute):
        return False
    given = [*call.args, *(item.value for item in call.keywords if item.arg == "dim")]
    match call.func.attr:
        case "softmax" | "log_softmax":
            return len(given) == 1 and isinstance(literal_of(given[0]), int)
        case "sigmoid":
            return not call.args and not call.keywords
        case _:
            return False


def _super_init(constructor: FunctionNode) -> ast.Call | None:
    """The ``super().__init__(...)`` of a constructor, if it has one."""
    for node in nodes_within(constructor, ast.Call):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")):
                return node
    return None


def _last_name(expression: ast.expr) -> str | None:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None
