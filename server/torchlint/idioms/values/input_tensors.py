"""Tensors of a method that come from its inputs or from the weights of its module, wherever those are."""

from __future__ import annotations

import ast
from dataclasses import field

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, element_of, nodes_within
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 12
_SAME = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
#: What is read of a parameter that can only be a tensor (arrays of NumPy have none of these).
_TELLING = frozenset(
    "size dim device unsqueeze permute contiguous detach float long masked_fill view is_cuda requires_grad softmax "
    "relu numel type_as new_zeros new_ones expand index_select scatter_ gather unbind chunk".split()
)
#: Methods that are called from outside, whatever calls of them the file has.
_ENTRIES = frozenset({"forward", "__call__"})
_GIVE_SEVERAL = frozenset({"torch.meshgrid", "torch.broadcast_tensors", "torch.chunk", "torch.split", "torch.unbind"})


def is_input_tensor(semantics: Semantics, expression: ast.expr, *, first_is_one: bool = True) -> bool:
    """Whether a value is certainly a tensor that is computed from an input of the function in which it stands, or from
    a parameter or layer of its module: it is on the device of the module, which need not be the CPU.

    ``first_is_one``: whether the first input of ``forward`` is taken for a tensor where nothing tells what it is.
    """
    return _Asking(semantics, first_is_one).of(expression, 0)


@dataclass(frozen=True, eq=False)
class _Asking:
    semantics: Semantics
    first_is_one: bool
    known: dict[Definition, bool] = field(default_factory=dict)

    def of(self, expression: ast.expr | None, depth: int) -> bool:
        if depth > _DEEPEST:
            return False
        deeper = depth + 1
        match expression:
            case ast.Name():
                return any(self._definition(item, deeper) for item in self.semantics.definitions(expression))
            case ast.Attribute(value=value, attr=name):
                owner = self.semantics.class_of_self(value)
                if owner is None and name in _SAME:
                    return self.of(value, deeper)
                kind = self.semantics.kind(expression)
                if kind is not None:
                    return kind.proven and kind.what is What.PARAMETER
                return owner is not None and name in ("weight", "bias") and self._is_layer(owner)
            case ast.Call():
                return self._call(expression, deeper)
            case ast.BinOp(left=left, right=right):
                return self.of(left, deeper) or self.of(right, deeper)
            case ast.Compare(left=left, comparators=[right]):
                return self.of(left, deeper) or self.of(right, deeper)
            case ast.UnaryOp(operand=operand, op=operation):
                return not isinstance(operation, ast.Not) and self.of(operand, deeper)
            case ast.IfExp(body=body, orelse=orelse):
                return self.of(body, deeper) and self.of(orelse, deeper)
            case ast.Subscript(value=value):
                return self.of(value, deeper) or self._is_of_input(expression)
            case ast.ListComp(elt=element):  # one of its elements is asked for
                return self.of(element, deeper)
            case ast.NamedExpr(value=value):
                return self.of(value, deeper)
            case _:
                return False

    def _is_layer(self, owner: ast.ClassDef) -> bool:
        """Whether a class is derived from a layer of torch that has weights."""
        return any(torch_api.has_parameters(name, {}) for name in self.semantics.ancestors(owner))

    def _is_of_input(self, element: ast.Subscript) -> bool:
        """Whether this is an element of an input that is annotated as a list or dict of tensors."""
        kind = self.semantics.kind(element)
        if kind is None or not kind.is_tensor or not isinstance(element.value, ast.Name):
            return False
        return all(item.kind is Binding.PARAMETER for item in self.semantics.definitions(element.value))

    def _definition(self, definition: Definition, depth: int) -> bool:
        if definition not in self.known:
            self.known[definition] = False  # the way round a loop adds nothing
            self.known[definition] = self._defined(definition, depth)
        return self.known[definition]

    def _defined(self, definition: Definition, depth: int) -> bool:
        value, path = definition.value, definition.path
        match definition.kind:
            case Binding.PARAMETER:
                return self._parameter(definition, depth)
            case Binding.ASSIGNMENT if value is not None and path:
                element = element_of(value, path)
                return self.of(element, depth) if element is not None else self._unpacked(value, depth)
            case Binding.ASSIGNMENT:
                return self.of(value, depth)
            case Binding.AUGMENTED if isinstance(definition.node, ast.AugAssign):
                return self.of(definition.node.target, depth) or self.of(value, depth)
            case _:
                return False

    def _unpacked(self, value: ast.expr, depth: int) -> bool:
        """``q, k = x.chunk(2)``, ``out, state = self.rnn(x)``; not ``batch, length = x.shape``."""
        if not isinstance(value, ast.Call):
            return isinstance(value, ast.Name | ast.Subscript) and self.of(value, depth)
        name = self.semantics.name(value.func)
        if name.startswith("torch."):
            return (name in _GIVE_SEVERAL or torch_api.returns_tensor(name)) and self._any_given(value, depth)
        if isinstance(value.func, ast.Attribute):
            facts = torch_api.tensor_method(value.func.attr)
            if facts is not None and facts.returns in ("tensors", "tensor") and self.of(value.func.value, depth):
                return True
        kind = self.semantics.kind(value.func)
        if kind is None or not kind.is_module or kind.class_node is not None or not kind.proven:
            return False
        return kind.origin.startswith("torch.nn.") and self._any_given(value, depth)

    def _parameter(self, definition: Definition, depth: int) -> bool:
        parameter = definition.node
        function = parent_of(parent_of(parameter) or parameter)
        if not isinstance(parameter, ast.arg) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        is_called_here = function.name not in _ENTRIES and depth < _DEEPEST // 2
        given = self.semantics.given_for(parameter, function) if is_called_here else ()
        if given:
            return any(self.of(value, depth + _DEEPEST // 4) for value in given)
        kind = self.semantics.definition_kind(definition)
        if kind is not None or parameter.annotation is not None:
            return kind is not None and kind.is_tensor
        return any(self._tells(use) for use in nodes_within(function, ast.Name) if _is_use(use, parameter))

    def _tells(self, use: ast.AST) -> bool:
        """Whether a use of a parameter shows that it is a tensor."""
        assert isinstance(use, ast.Name)
        kind = self.semantics.kind(use)
        if kind is not None and (kind.proven or self.first_is_one):
            return kind.is_tensor
        holder = parent_of(use)
        if isinstance(holder, ast.Attribute):
            return holder.attr in _TELLING
        if isinstance(holder, ast.Call) and holder.args[:1] == [use]:
            layer = self.semantics.kind(holder.func)
            if layer is not None and layer.proven and layer.is_module:
                return layer.class_node is None and layer.origin.startswith("torch.nn.")
        return False

    def _call(self, call: ast.Call, depth: int) -> bool:
        name = self.semantics.name(call.func)
        if name.startswith("torch."):
            facts = torch_api.factory_facts(name)
            if facts is not None and not facts.like:
                return self._is_placed(call)
            return torch_api.returns_tensor(name) and self._any_given(call, depth)
        kind = self.semantics.kind(call.func)
        if kind is not None and kind.is_module and kind.proven:
            gives = self.semantics.kind(call)
            if gives is None or not gives.is_tensor:
                return False
            return state_of(kind, self.semantics) is State.WEIGHTS or self._any_given(call, depth)
        if isinstance(call.func, ast.Attribute) and self.semantics.class_of_self(call.func.value) is None:
            method = torch_api.tensor_method(call.func.attr)
            if method is None or method.returns not in ("tensor", "self") or call.func.attr == "cpu":
                return False
            return self.of(call.func.value, depth)
        gives = self.semantics.kind(call)
        return gives is not None and gives.is_tensor and self._any_given(call, depth)

    def _is_placed(self, factory: ast.Call) -> bool:
        """Whether a tensor is made on a device that is not certainly the CPU."""
        device = argument(factory, None, "device")
        return isinstance(device, ast.Name | ast.Attribute) and not isinstance(self.semantics.literal(device), str)

    def _any_given(self, call: ast.Call, depth: int) -> bool:
        given = [*call.args, *(item.value for item in call.keywords)]
        flat = [inner for item in given for inner in (item.elts if isinstance(item, ast.List | ast.Tuple) else [item])]
        return any(self.of(item, depth) for item in flat)


def _is_use(node: ast.AST, parameter: ast.arg) -> bool:
    return isinstance(node, ast.Name) and node.id == parameter.arg and isinstance(node.ctx, ast.Load)
