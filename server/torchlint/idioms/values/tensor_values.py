"""Python that looks into tensors: tests, numbers and conversions that depend on the values of a tensor."""

from __future__ import annotations

import ast
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics

_DEEPEST = 40
#: Methods of a tensor that give a tensor, with whatever arguments.
_METHODS = frozenset(
    "sum mean any all norm abs std var argmax argmin prod amax amin isnan isinf isfinite float int long half double "
    "bool to cuda cpu detach clone view reshape squeeze unsqueeze transpose permute flatten contiguous sigmoid softmax "
    "exp log eq ne gt lt ge le add sub mul div pow sqrt relu clamp round floor ceil sign logical_not logical_and "
    "count_nonzero type_as expand repeat neg cumsum matmul square".split()
)
#: Methods that give a tensor when they are called without arguments, else a pair.
_BARE_METHODS = frozenset(("max", "min", "median"))
_SAME = frozenset(("data", "T", "mT", "real", "imag"))
_NUMBERS = frozenset(("float", "int", "bool"))
#: Functions that look into tensors and give a truth value.
_ANSWERS = ("torch.equal", "torch.allclose", "torch.is_nonzero", "torch.Tensor.equal")


@dataclass(frozen=True, eq=False)
class TensorValues:
    """What expressions are, where some parameters are known to be tensors (``given``)."""

    semantics: Semantics
    given: frozenset[ast.arg] = frozenset()
    _known: dict[Definition, bool] = field(default_factory=dict)

    def decides(self, test: ast.expr) -> bool:
        """Whether a test depends on what is in a tensor, not only on its shape, dtype or device."""
        match test:
            case ast.BoolOp(values=values):
                return any(map(self.decides, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.decides(operand)
            case ast.NamedExpr(value=value):
                return self.decides(value)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return _compares_values(ops) and any(
                    self.is_tensor(item) or self.is_number(item) for item in (left, *others)
                )
            case _:
                return self.is_tensor(test) or self.is_number(test)

    def is_number(self, expression: ast.expr, depth: int = 0) -> bool:
        """Whether an expression is a Python number or truth value that was read out of a tensor."""
        if depth > _DEEPEST:
            return False
        match expression:
            case ast.Call(func=ast.Attribute(attr="item", value=value), args=[]):
                return self.is_tensor(value)
            case ast.Call(func=ast.Name(id=name) as function, args=[value]) if name in _NUMBERS:
                if self.semantics.definitions(function):
                    return False
                return self.is_tensor(value) or self.is_number(value, depth + 1)
            case ast.Call(func=function) if self.semantics.is_named(function, *_ANSWERS):
                return True
            case ast.BinOp(left=left, right=right):
                return self.is_number(left, depth + 1) or self.is_number(right, depth + 1)
            case ast.Name():
                values = self._assigned(expression)
                return bool(values) and all(value is not None and self.is_number(value, depth + 1) for value in values)
            case _:
                return False

    def is_tensor(self, expression: ast.expr, depth: int = 0) -> bool:
        """Whether an expression is a tensor: by its kind, or because it comes out of a tensor that was given."""
        if depth > _DEEPEST:
            return False
        kind = self.semantics.kind(expression)
        if kind is not None:
            return kind.is_tensor
        match expression:
            case ast.Name():
                definitions = self.semantics.definitions(expression)
                return bool(definitions) and all(self._defines_tensor(item, depth) for item in definitions)
            case ast.Call(func=ast.Attribute(attr=method, value=value), args=given):
                known = method in _METHODS or (method in _BARE_METHODS and not given)
                return known and self.is_tensor(value, depth + 1)
            case ast.Attribute(attr=attribute, value=value):
                return attribute in _SAME and self.is_tensor(value, depth + 1)
            case ast.Subscript(value=value) | ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=value):
                return self.is_tensor(value, depth + 1)
            case ast.BinOp(left=left, right=right):
                return self.is_tensor(left, depth + 1) or self.is_tensor(right, depth + 1)
            case ast.Compare(left=left, ops=ops, comparators=others) if _compares_values(ops):
                return any(self.is_tensor(item, depth + 1) for item in (left, *others))
            case _:
                return False

    def _defines_tensor(self, definition: Definition, depth: int) -> bool:
        """Whether a binding gives a tensor. One that is asked about already (``x = x / 2`` in a loop) does if others
        do; each is looked at once."""
        if definition.node in self.given:
            return True
        if definition not in self._known:
            self._known[definition] = True
            value = definition.value if definition.kind is Binding.ASSIGNMENT and not definition.path else None
            self._known[definition] = value is not None and self.is_tensor(value, depth + 1)
        return self._known[definition]

    def _assigned(self, name: ast.Name) -> list[ast.expr | None]:
        definitions = self.semantics.definitions(name)
        return [item.value if item.kind is Binding.ASSIGNMENT and not item.path else None for item in definitions]


def _compares_values(operators: list[ast.cmpop]) -> bool:
    return not any(isinstance(item, ast.Is | ast.IsNot | ast.In | ast.NotIn) for item in operators)
