"""Tensors that a function makes on the CPU out of nothing but sizes and numbers, in one step, through local names, or
in functions and methods of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.values.devices import is_dtype_only
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import (
    argument,
    default_of,
    element_of,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    position_of_parameter,
)
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.torch_api.known import legacy_constructor_dtype

#: Methods and attributes with which a tensor is brought to a device.
MOVES = frozenset({"to", "cuda", "cpu", "type_as", "device", "xpu"})
#: How many names and calls lie between the value and where its tensor was made, at most.
_DEEPEST = 12
#: What gives one number unless it is told an axis.
_REDUCING = frozenset("sum mean prod std var amax amin max min norm logsumexp all any argmax argmin".split())
#: What gives a tensor with axes, even of one number.
ADDS_AXES = frozenset("view reshape unsqueeze expand repeat flatten".split())
_SAME = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_MAKE_ARRAYS = frozenset(
    f"numpy.{name}" for name in "zeros ones full arange linspace logspace eye diag tril triu".split()
)
_FROM_DATA = ("torch.tensor", "torch.as_tensor")


class _Value(Enum):
    """What a value is: a tensor of the CPU (with axes, or perhaps one number), something with such tensors in it, a
    list without, the device of the CPU, something that may be a tensor of another device, and all else."""

    TENSOR = "tensor"
    NUMBER = "number"
    TENSORS = "tensors"
    LIST = "list"
    CPU = "cpu"
    OTHER = "other"
    ELSEWHERE = "elsewhere"


def is_made_here(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is a tensor with axes that is made on the CPU, from nothing that could be elsewhere.

    What is computed from such a tensor and an unknown is one, too: with a tensor of a GPU the computation would raise.
    A tensor without axes does not count, because it may stay on the CPU.
    """
    return _Evaluation(semantics).of(value) is _Value.TENSOR


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """Values in one function; ``given`` are those of its parameters, where a call of it is followed."""

    semantics: Semantics
    given: Mapping[str, _Value] = field(default_factory=dict)
    depth: int = 0
    seen: set[ast.AST] = field(default_factory=set)
    known: dict[Definition, _Value] = field(default_factory=dict)

    def of(self, expression: ast.expr | None) -> _Value:
        match expression:
            case ast.Call():
                return self._call(expression)
            case ast.Name():
                return self._name(expression)
            case ast.BinOp(left=left, right=right):
                return _joined([self.of(left), self.of(right)])
            case ast.Compare(left=left, comparators=[right]):
                return _joined([self.of(left), self.of(right)])
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return _alternatives([self.of(body), self.of(orelse)])
            case ast.Subscript(value=value, slice=index):
                return self._subscript(self.of(value), index)
            case ast.Attribute():
                return self._attribute(expression)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return _contained(map(self.of, elements))
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                return _contained([self.of(element)])
            case ast.Starred(value=value):
                return self.of(value)
            case _:
                return _Value.OTHER

    # -- names and attributes ---------------------------------------------------------------------------------------

    def _name(self, name: ast.Name) -> _Value:
        found = []
        definitions = self.semantics.definitions(name)
        grows = any(item.kind is Binding.AUGMENTED for item in definitions)
        for definition in definitions:
            if grows and definition.kind is Binding.ASSIGNMENT and _is_number(definition.value):
                continue  # `kernel = 1` before `kernel *= torch.exp(...)`
            if definition in self.known:
                found.append(self.known[definition])
            elif definition.node not in self.seen:  # the way round a loop adds nothing
                self.seen.add(definition.node)
                found.append(self._definition(definition, name))
                self.seen.discard(definition.node)
                self.known[definition] = found[-1]
        value = _alternatives(found)
        return _contained([value, *self._appended(name)]) if value is _Value.LIST else value

    def _definition(self, definition: Definition, use: ast.Name) -> _Value:
        value = definition.value
        match definition.kind:
            case Binding.PARAMETER if definition.name in self.given:
                return self.given[definition.name]
            case Binding.ASSIGNMENT if value is not None and definition.path:
                return self._element(value, definition.path)
            case Binding.ASSIGNMENT if value is not None:
                return self.of(value)
            case Binding.AUGMENTED if isinstance(definition.node, ast.AugAssign):
                before = definition.node.target
                return _joined([self.of(before), self.of(value)])
            case Binding.LOOP | Binding.COMPREHENSION if value is not None:
                return self._iterated(value, definition.path) or self._by_kind(use)
            case _:
                return self._by_kind(use)

    def _element(self, value: ast.expr, path: Sequence[int | None]) -> _Value:
        """An unpacked element: of a tuple that is written out, or of what a call gives."""
        element = element_of(value, path)
        if element is not None:
            return self.of(element)
        if isinstance(value, ast.Call):
            followed = self._local_results(value, path)
            if followed is not None:
                return followed
        whole = self.of(value)
        is_call_of_torch = isinstance(value, ast.Call) and self.semantics.name(value.func).startswith("torch.")
        return whole if whole is _Value.ELSEWHERE or is_call_of_torch else _Value.OTHER

    def _iterated(self, iterable: ast.expr, path: Sequence[int | None]) -> _Value | None:
        """An element of tensors that were made here (``for grid in torch.meshgrid(...)``); None for anything else."""
        if isinstance(iterable, ast.Call) and path and path[0] is not None:
            called = builtin_called(self.semantics, iterable)
            if called == "zip" and path[0] < len(iterable.args):
                return self._iterated(iterable.args[path[0]], path[1:])
            if called == "enumerate" and path[0] == 1 and iterable.args:
                return self._iterated(iterable.args[0], path[1:])
        return _Value.TENSOR if not path and self.of(iterable) is _Value.TENSORS else None

    def _appended(self, name: ast.Name) -> Iterable[_Value]:
        """What the function puts into a list in other places."""
        function = enclosing_function(name)
        for call in nodes_within(function, ast.Call) if function is not None else ():
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="append" | "insert" | "extend")):
                    if held == name.id and call.args and call not in self.seen:
                        self.seen.add(call)  # `sizes.append(sizes[-1] * 2)` asks for the list again
                        value = self.of(call.args[-1])
                        self.seen.discard(call)
                        yield value
                case _:
                    pass

    def _attribute(self, attribute: ast.Attribute) -> _Value:
        owner = self.semantics.class_of_self(attribute.value)
        if owner is None:
            return self.of(attribute.value) if attribute.attr in _SAME else self._by_kind(attribute)
        function = enclosing_function(attribute)
        writes = self.semantics.module.attribute_writes(owner, attribute.attr)
        here = [write for write in writes if enclosing_function(write.statement) is function]
        if not writes or (len(writes) > 1 and not here) or self.depth > _DEEPEST:
            return self._by_kind(attribute)  # which of several methods ran last is not known
        found = []
        for write in here or writes:
            if write.augmented or write.value is None:
                return self._by_kind(attribute)
            if write.statement not in self.seen:
                self.seen.add(write.statement)
                inner = self if here else self._within({})
                found.append(inner._element(write.value, write.path) if write.path else inner.of(write.value))
                self.seen.discard(write.statement)
        return _alternatives(found)

    def _by_kind(self, expression: ast.expr) -> _Value:
        kind = self.semantics.kind(expression)
        if kind is None:
            return _Value.OTHER
        if kind.what is What.LIST:
            return _Value.LIST
        return _Value.ELSEWHERE if kind.is_tensor or kind.is_module else _Value.OTHER

    def _subscript(self, value: _Value, index: ast.expr) -> _Value:
        if value is _Value.TENSOR and may_be_one_number(index):
            return _Value.NUMBER
        if value is _Value.NUMBER and isinstance(literal_of(index), type(None) | type(...)):
            return _Value.TENSOR
        if value is _Value.TENSORS:
            return _Value.TENSOR
        return _Value.OTHER if value is _Value.LIST else value

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call) -> _Value:
        if not self._stays(call):
            return _Value.ELSEWHERE
        name = self.semantics.name(call.func)
        if name.startswith("torch."):
            return self._of_torch(name, call)
        followed = self._local_results(call, ())
        if followed is not None:
            return followed
        if isinstance(call.func, ast.Attribute) and not name:
            return self._method(call, call.func)
        if builtin_called(self.semantics, call) in ("list", "tuple", "reversed", "sorted") and call.args:
            return self.of(call.args[0])
        given = _contained(map(self.of, call.args))
        return _Value.ELSEWHERE if given is _Value.ELSEWHERE else self._by_kind(call)

    def _stays(self, call: ast.Call) -> bool:
        """Whether no argument of a call says that its tensor goes to another device."""
        for item in call.keywords:
            if item.arg is None:
                return False
            if item.arg == "device" and not self._is_cpu(item.value):
                return False
        return True

    def _is_cpu(self, device: ast.expr) -> bool:
        if isinstance(device, ast.Call) and self.semantics.name(device.func) == "torch.device":
            device = device.args[0] if device.args else device
        if isinstance(device, ast.Name) and self.given.get(device.id) is _Value.CPU:
            return True
        return self.semantics.literal(device) in (None, "cpu")

    def _of_torch(self, name: str, call: ast.Call) -> _Value:
        if name == "torch.nn.Parameter" or name.startswith("torch.nn.init."):
            return _Value.ELSEWHERE
        given = {self.of(item) for item in [*call.args, *(item.value for item in call.keywords)]}
        if _Value.ELSEWHERE in given:
            return _Value.ELSEWHERE
        has_axes = bool(given & {_Value.TENSOR, _Value.TENSORS})
        if name in _FROM_DATA:
            return _Value.TENSOR if has_axes or self._is_list(argument(call, 0, "data")) else _Value.NUMBER
        facts = torch_api.factory_facts(name)
        if (facts is not None and not facts.like) or name == "torch.from_numpy":
            none = call.args and isinstance(call.args[0], ast.Tuple | ast.List) and not call.args[0].elts
            return _Value.NUMBER if none else _Value.TENSOR
        if legacy_constructor_dtype(name) is not None:
            return _Value.ELSEWHERE if ".cuda." in name else _Value.TENSOR
        if torch_api.returns_tensor(name):
            if not has_axes:
                return _Value.NUMBER if _Value.NUMBER in given else _Value.OTHER
            return self._reduced(name.rpartition(".")[2], call, 1)
        return _Value.TENSORS if has_axes and name == "torch.meshgrid" else _Value.OTHER

    def _is_list(self, data: ast.expr | None) -> bool:
        """Whether the data of ``torch.tensor`` have at least one axis."""
        data = self.semantics.value_of(data)
        match data:
            case ast.List() | ast.Tuple() | ast.ListComp():
                return True
            case ast.BinOp(left=left, op=ast.Mult() | ast.Add(), right=right):
                return any(isinstance(side, ast.List | ast.ListComp) for side in (left, right))
            case ast.Call():
                made = self.semantics.name(data.func)
                if made in ("numpy.array", "numpy.asarray") and data.args:
                    return self._is_list(data.args[0])
                listing = builtin_called(self.semantics, data) in ("list", "tuple", "range", "sorted")
                return listing or made in _MAKE_ARRAYS
            case ast.Subscript(value=ast.Name() as holder):
                table = self.semantics.value_of(holder)
                return isinstance(table, ast.Dict) and all(map(self._is_list, table.values))
            case ast.Name():
                kind = self.semantics.kind(data)
                if kind is not None and kind.what in (What.LIST, What.TUPLE):
                    return True
                return self._is_list_parameter(data)
            case _:
                return False

    def _is_list_parameter(self, name: ast.Name) -> bool:
        """Whether a parameter has a list or tuple as its default."""
        definitions = self.semantics.definitions(name)
        if len(definitions) != 1 or not isinstance(definitions[0].node, ast.arg):
            return False
        default = default_of(definitions[0].node)
        return isinstance(default, ast.List | ast.Tuple)

    def _method(self, call: ast.Call, function: ast.Attribute) -> _Value:
        method = function.attr
        value = self.of(function.value)
        if method in MOVES and not (method == "cpu" or (method == "to" and is_dtype_only(call, self.semantics))):
            return _Value.ELSEWHERE
        facts = torch_api.tensor_method(method)
        if facts is not None and facts.returns not in ("tensor", "self", "tensors"):
            return _Value.OTHER  # `x.size(0)`, wherever `x` is
        given = _contained(map(self.of, call.args))
        if value is _Value.ELSEWHERE or given is _Value.ELSEWHERE:
            return _Value.ELSEWHERE
        if value not in (_Value.TENSOR, _Value.NUMBER) or facts is None:
            return self._by_kind(call)
        if facts.returns == "tensors":
            return _Value.TENSORS
        if value is _Value.NUMBER:
            return _Value.TENSOR if method in ADDS_AXES and call.args else _Value.NUMBER
        return self._reduced(method, call, 0)

    def _reduced(self, operation: str, call: ast.Call, first: int) -> _Value:
        """A tensor, or one number where it is reduced over all axes."""
        told = len(call.args) > first or any(item.arg in ("dim", "axis") for item in call.keywords)
        return _Value.NUMBER if operation in _REDUCING and not told else _Value.TENSOR

    # -- functions of the file --------------------------------------------------------------------------------------

    def _within(self, given: Mapping[str, _Value]) -> _Evaluation:
        return _Evaluation(self.semantics, given, self.depth + 1, self.seen)

    def _local_results(self, call: ast.Call, path: Sequence[int | None]) -> _Value | None:
        """What a function or method of the file returns; None if it is another one."""
        function = self._called(call)
        if function is None:
            return None
        if has_unknown_arguments(call) or self.depth > _DEEPEST // 2 or function in self.seen:
            return _Value.ELSEWHERE
        values = self.semantics.returned_values(function)
        inner = self._within(self._arguments(function, call))
        self.seen.add(function)
        found = [inner._element(value, path) if path else inner.of(value) for value in values]
        self.seen.discard(function)
        return _alternatives(found)

    def _called(self, call: ast.Call) -> FunctionNode | None:
        if isinstance(call.func, ast.Attribute):
            owner = self.semantics.class_of_self(call.func.value)
            if owner is None:
                owner = self.semantics.local_class(call.func.value)  # `Window.partition(...)`, a static method
            return self.semantics.find_method(owner, call.func.attr) if owner is not None else None
        return self.semantics.local_function(call.func)

    def _arguments(self, function: FunctionNode, call: ast.Call) -> dict[str, _Value]:
        """What a call gives for the parameters of a function of the file."""
        found: dict[str, _Value] = {}
        for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            value = argument(call, position_of_parameter(parameter, function), parameter.arg)
            given = value if value is not None else default_of(parameter)
            if isinstance(given, ast.Constant) and given.value in (None, "cpu"):
                found[parameter.arg] = _Value.CPU
            elif value is not None:
                found[parameter.arg] = self.of(value)
        return found


def _is_number(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def may_be_one_number(index: ast.expr) -> bool:
    """Whether a part may be a single element, which may stay on the CPU: so may ``table[i]``, but not ``table[:n]``."""
    given = index.elts if isinstance(index, ast.Tuple) else [index]
    return not any(
        isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value in (None, ...)) for item in given
    )


def _joined(values: Sequence[_Value]) -> _Value:
    """What is computed from several values."""
    for value in (_Value.ELSEWHERE, _Value.TENSOR, _Value.NUMBER, _Value.LIST):
        if value in values:
            return value
    return _Value.OTHER


def _contained(values: Iterable[_Value]) -> _Value:
    """What holds these values."""
    found = set(values)
    if _Value.ELSEWHERE in found:
        return _Value.ELSEWHERE
    return _Value.TENSORS if found & {_Value.TENSOR, _Value.NUMBER, _Value.TENSORS} else _Value.LIST


def _alternatives(values: Sequence[_Value]) -> _Value:
    """What is one of several values."""
    found = set(values)
    if _Value.ELSEWHERE in found:
        return _Value.ELSEWHERE
    return found.pop() if len(found) == 1 else _Value.OTHER
