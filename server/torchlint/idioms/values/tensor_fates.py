"""What becomes of a tensor that a method reads: whether it is moved, or computed with the tensors of an input."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from enum import Enum

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.values.devices import is_dtype_only
from torchlint.idioms.values.input_tensors import is_input_tensor
from torchlint.idioms.values.tensor_sizes import sizes_of
from torchlint.idioms.values.tensors_made_here import ADDS_AXES, MOVES, may_be_one_number
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, position_of_parameter
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 24
#: What only looks at a tensor, wherever it is.
_LOOKS = frozenset({"shape", "size", "dtype", "dim", "ndim", "numel", "item", "tolist", "data_ptr", "numpy"})
#: Methods of a tensor to which an argument may come from another device.
_CROSSES = frozenset(
    "copy_ view_as expand_as reshape_as is_same_size index_put index_put_ set_ new_tensor split".split()
)


class Fate(Enum):
    """What happens to a tensor at one use: it is brought to a device, or meets a tensor of an input."""

    MOVED = "moved"
    MEETS_INPUT = "meets an input"


def fates_of(semantics: Semantics, read: ast.expr) -> Iterator[tuple[Fate, ast.expr]]:
    """What becomes of a tensor at the place where it is read, and of what is computed from it; the second value is the
    expression that is moved, or the one that meets another. What cannot be followed has no fate."""
    yield from _Following(semantics).fates(read, 0)


@dataclass(frozen=True, eq=False)
class _Following:
    """One function at a time; ``call`` is the one that was followed into it, ``outer`` where that stands."""

    semantics: Semantics
    seen: set[ast.AST] = field(default_factory=set)
    call: ast.Call | None = None
    outer: _Following | None = None

    def fates(self, node: ast.expr, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        if depth > _DEEPEST or node in self.seen:
            return
        self.seen.add(node)
        parent = parent_of(node)
        match parent:
            case ast.Attribute(value=value) if value is node:
                yield from self._attribute(node, parent, depth)
            case ast.Call():
                yield from self._given(node, parent, depth)
            case ast.keyword():
                call = parent_of(parent)
                if isinstance(call, ast.Call):
                    yield from self._given(node, call, depth)
            case ast.List() | ast.Tuple():
                yield from self._listed(node, parent, depth)
            case ast.BinOp(left=left, right=right):
                yield from self._meeting(node, parent, [right if left is node else left], depth)
            case ast.Compare(left=left, comparators=[right], ops=[op]) if not isinstance(op, ast.Is | ast.IsNot):
                yield from self._meeting(node, parent, [right if left is node else left], depth)
            case ast.AugAssign(target=target, value=value) if value is node:
                if is_input_tensor(self.semantics, target):
                    yield Fate.MEETS_INPUT, node
            case ast.UnaryOp(op=operation) if not isinstance(operation, ast.Not):
                yield from self.fates(parent, depth + 1)
            case ast.Subscript(value=value, ctx=ast.Load()) if value is node:
                yield from self._part(node, parent, depth)
            case ast.IfExp(test=test) if test is not node:
                yield from self.fates(parent, depth + 1)
            case ast.NamedExpr(target=target):
                yield from self._named(target, parent, depth)
                yield from self.fates(parent, depth + 1)
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
                yield from self._named(target, parent, depth)
            case ast.Return():
                yield from self._returned(parent, depth)
            case _:
                pass

    def _returned(self, statement: ast.Return, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        """The tensor is what a function gives back."""
        if self.call is not None and self.outer is not None:
            yield from self.outer.fates(self.call, depth + 1)
            return
        function = enclosing_function(statement)
        for call in self.semantics.callers(function) if function is not None else ():
            yield from self.fates(call, depth + 1)

    def _part(self, node: ast.expr, part: ast.Subscript, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        """A part of the tensor. An index with axes may be on its device or on the CPU, nowhere else."""
        indices = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
        sizes = sizes_of(self.semantics, node)
        has_axes = not may_be_one_number(part.slice) or (sizes is not None and len(sizes) > len(indices))
        if not has_axes and not any(map(_adds_axes, [part, *self._held(part)])):
            return
        if any(is_input_tensor(self.semantics, index, first_is_one=False) for index in indices):
            yield Fate.MEETS_INPUT, node
        yield from self.fates(part, depth + 1)

    def _held(self, value: ast.expr) -> Iterator[ast.Name]:
        """The uses of a variable that is given a value."""
        statement = parent_of(value)
        match statement:
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
                yield from self._uses(target, statement)

    def _attribute(self, node: ast.expr, attribute: ast.Attribute, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        call = parent_of(attribute)
        is_called = isinstance(call, ast.Call) and call.func is attribute
        if attribute.attr in MOVES:
            if is_called and attribute.attr == "to" and is_dtype_only(call, self.semantics):  # type: ignore[arg-type]
                yield from self.fates(call, depth + 1)  # type: ignore[arg-type]
            else:
                yield Fate.MOVED, node
            return
        if attribute.attr in _LOOKS:
            return
        if not is_called:
            yield from self.fates(attribute, depth + 1)
            return
        assert isinstance(call, ast.Call)
        facts = torch_api.tensor_method(attribute.attr)
        if facts is None or attribute.attr in _CROSSES:
            return
        others = [*call.args, *(item.value for item in call.keywords)]
        if facts.returns in ("tensor", "self") or attribute.attr == "type":
            yield from self._meeting(node, call, others, depth)
        elif self._meets_any(others):
            yield Fate.MEETS_INPUT, node

    def _meeting(
        self, node: ast.expr, result: ast.expr, others: list[ast.expr], depth: int
    ) -> Iterator[tuple[Fate, ast.expr]]:
        """An operation of the tensor with others. What it gives is a tensor of the CPU, unless one of them is none."""
        if self._meets_any(others):
            yield Fate.MEETS_INPUT, node
        else:
            yield from self.fates(result, depth + 1)

    def _meets_any(self, others: list[ast.expr]) -> bool:
        flat: list[ast.expr] = []
        for other in others:
            flat += other.elts if isinstance(other, ast.List | ast.Tuple) else [other]
        return any(is_input_tensor(self.semantics, other) for other in flat)

    def _listed(self, node: ast.expr, holder: ast.List | ast.Tuple, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        """An element of ``torch.cat([self.start, x])``, or one side of ``a, b = self.a, self.b``."""
        outer = parent_of(holder)
        match outer:
            case ast.Call(func=func) if self.semantics.name(func).startswith("torch."):
                others = [item for item in holder.elts if item is not node]
                yield from self._meeting(node, outer, others, depth)
            case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(holder.elts):
                target = targets[holder.elts.index(node)]
                if isinstance(target, ast.Name):
                    yield from self._named(target, outer, depth)
            case _:
                pass

    def _given(self, node: ast.expr, call: ast.Call, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        """The tensor is an argument of a call."""
        others = [item for item in [*call.args, *(keyword.value for keyword in call.keywords)] if item is not node]
        name = self.semantics.name(call.func)
        if name.startswith("torch."):
            if torch_api.returns_tensor(name):
                yield from self._meeting(node, call, others, depth)
            return
        followed = self._parameter(node, call)
        if followed is not None:
            inner = _Following(self.semantics, self.seen, call, self)
            for use in _reads_of(followed[1], followed[0], self.semantics):
                yield from inner.fates(use, depth + 1)
            return
        kind = self.semantics.kind(call.func)
        if kind is not None and kind.is_module:
            if kind.class_node is None and kind.proven and kind.origin.startswith("torch.nn."):
                if state_of(kind, self.semantics) is State.WEIGHTS or self._meets_any(others):
                    yield Fate.MEETS_INPUT, node
                elif not others:
                    yield from self.fates(call, depth + 1)
            return
        if isinstance(call.func, ast.Attribute):
            yield from self._given_to_method(node, call, call.func)

    def _given_to_method(
        self, node: ast.expr, call: ast.Call, function: ast.Attribute
    ) -> Iterator[tuple[Fate, ast.expr]]:
        if function.attr in MOVES:
            yield Fate.MOVED, node  # `x.to(self.mask)`: they come together there
            return
        facts = torch_api.tensor_method(function.attr)
        if facts is not None and function.attr not in _CROSSES and is_input_tensor(self.semantics, function.value):
            yield Fate.MEETS_INPUT, node

    def _parameter(self, node: ast.expr, call: ast.Call) -> tuple[FunctionNode, ast.arg] | None:
        """The parameter of a function, method or module of the file that the tensor is given to."""
        function = self._called(call)
        if function is None:
            return None
        for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if argument(call, position_of_parameter(parameter, function), parameter.arg) is node:
                return function, parameter
        return None

    def _called(self, call: ast.Call) -> FunctionNode | None:
        local = self.semantics.local_function(call.func)
        if local is not None or not isinstance(call.func, ast.Attribute):
            return local
        owner = self.semantics.class_of_self(call.func.value)
        method = self.semantics.find_method(owner, call.func.attr) if owner is not None else None
        if method is not None:
            return method
        kind = self.semantics.kind(call.func)
        if kind is None or not kind.proven or not kind.is_module or kind.class_node is None:
            return None
        return self.semantics.find_method(kind.class_node, "forward")

    def _named(self, target: ast.Name, statement: ast.AST, depth: int) -> Iterator[tuple[Fate, ast.expr]]:
        for use in self._uses(target, statement):
            yield from self.fates(use, depth + 1)

    def _uses(self, target: ast.Name, statement: ast.AST) -> Iterator[ast.Name]:
        """Where the value that a statement gives a variable is read."""
        function = enclosing_function(target)
        for use in nodes_within(function, ast.Name) if function is not None else ():
            assert isinstance(use, ast.Name)
            if use.id != target.id or not isinstance(use.ctx, ast.Load):
                continue
            if any(definition.node is statement for definition in self.semantics.definitions(use)):
                yield use


def _adds_axes(value: ast.expr) -> bool:
    """Whether a value is given axes, so that it is more than one number even if it was none before."""
    parent = parent_of(value)
    match parent:
        case ast.Attribute(attr=method):
            call = parent_of(parent)
            return method in ADDS_AXES and isinstance(call, ast.Call) and call.func is parent and bool(call.args)
        case ast.Subscript(value=whole, slice=index):
            return whole is value and not may_be_one_number(index)
        case _:
            return False


def _reads_of(parameter: ast.arg, function: FunctionNode, semantics: Semantics) -> Iterator[ast.Name]:
    for use in nodes_within(function, ast.Name):
        if isinstance(use, ast.Name) and use.id == parameter.arg and isinstance(use.ctx, ast.Load):
            definitions = semantics.definitions(use)
            if any(item.kind is Binding.PARAMETER and item.node is parameter for item in definitions):
                yield use
