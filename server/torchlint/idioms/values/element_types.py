"""What the elements of a tensor are (floating point, integer, truth values), as far as its construction tells."""

from __future__ import annotations

import ast
from enum import Enum

from torchlint.idioms.values.origins import KEEPING, RESHAPING, operation_of, origin_of
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.torch_api.known import legacy_constructor_dtype

_DEEPEST = 10


class ElementType(Enum):
    """What elements are to autograd: only floating point and complex numbers have gradients."""

    FLOAT = "floating point"
    COMPLEX = "complex"
    INTEGER = "integer"
    TRUTH = "bool"

    @property
    def differentiable(self) -> bool:
        return self in (ElementType.FLOAT, ElementType.COMPLEX)


_F, _I, _T = ElementType.FLOAT, ElementType.INTEGER, ElementType.TRUTH
_INTEGER_DTYPES = frozenset(
    f"torch.{name}" for name in "uint8 int8 int16 short int32 int int64 long uint16 uint32 uint64".split()
)
_FLOAT_DTYPES = frozenset(
    f"torch.{name}" for name in "float16 half bfloat16 float32 float float64 double float8_e4m3fn float8_e5m2".split()
)
_CONVERSIONS = {
    **dict.fromkeys("float double half bfloat16".split(), _F),
    **dict.fromkeys("long int short char byte".split(), _I),
    "bool": _T,
}
#: Operations whose result is of one type, whatever they are given.
_RESULTS = {
    **dict.fromkeys("argmax argmin argsort count_nonzero bincount nonzero searchsorted bucketize".split(), _I),
    **dict.fromkeys("randint randperm tril_indices triu_indices one_hot".split(), _I),
    **dict.fromkeys(
        "eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not any all isin isclose".split(), _T
    ),
}
_FLOAT_FACTORIES = frozenset("zeros ones empty eye rand randn linspace logspace".split())
_LIKE = frozenset("zeros_like ones_like empty_like full_like".split())


def element_type(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> ElementType | None:
    """The type of a tensor's elements; None where the code does not show it."""
    value = origin_of(semantics, expression)
    if depth > _DEEPEST:
        return None
    match value:
        case ast.Call():
            return _of_call(semantics, value, depth)
        case ast.Compare(ops=[operation], left=left) if not isinstance(
            operation, ast.Is | ast.IsNot | ast.In | ast.NotIn
        ):
            kind = semantics.kind(left)
            return _T if kind is not None and kind.is_tensor and kind.proven else None
        case ast.Subscript(value=inner):
            kind = semantics.kind(inner)
            return element_type(semantics, inner, depth + 1) if kind is not None and kind.is_tensor else None
        case ast.BinOp(left=left, right=right, op=operator) if not isinstance(operator, ast.Div):
            sides = {_side(semantics, left, depth), _side(semantics, right, depth)}
            if ElementType.FLOAT in sides:
                return _F
            return _I if sides == {_I} else None
        case _:
            return None


def dtype_named(semantics: Semantics, expression: ast.expr | None) -> ElementType | None:
    """The type that an expression such as ``torch.int64`` stands for."""
    names = semantics.names(semantics.value_of(expression))
    return _of_dtypes(names) if names else None


def _of_dtypes(names: frozenset[str]) -> ElementType | None:
    if names <= _INTEGER_DTYPES:
        return _I
    if names <= _FLOAT_DTYPES:
        return _F
    return _T if names <= {"torch.bool"} else None


def _side(semantics: Semantics, side: ast.expr, depth: int) -> ElementType | None:
    number = literal_of(side)
    if number is not UNKNOWN:
        return _of_data(number)
    return element_type(semantics, side, depth + 1)


def _of_call(semantics: Semantics, call: ast.Call, depth: int) -> ElementType | None:
    if has_unknown_arguments(call):
        return None
    dtype = argument(call, None, "dtype")
    if dtype is not None:
        return dtype_named(semantics, dtype)
    name = semantics.name(call.func)
    legacy = legacy_constructor_dtype(name)
    if legacy is not None:
        return _of_dtypes(frozenset((legacy,)))
    head, _, tail = name.rpartition(".")
    operation, operand = operation_of(semantics, call)
    if operation in _RESULTS and (head or _is_tensor(semantics, operand)):
        return _RESULTS[operation]
    if head == "torch":
        made = _of_factory(semantics, call, tail)
        if made is not None:
            return made
    if tail in _LIKE or operation in RESHAPING or operation in KEEPING:
        return element_type(semantics, operand, depth + 1)
    if not head and operand is not None:
        return _of_method(semantics, call, operation, operand, depth)
    if head == "torch.nn" and tail == "Parameter":
        return element_type(semantics, argument(call, 0, "data"), depth + 1)
    return None


def _of_method(semantics: Semantics, call: ast.Call, method: str, receiver: ast.expr, depth: int) -> ElementType | None:
    if method in _CONVERSIONS and not call.args and _is_tensor(semantics, receiver):
        return _CONVERSIONS[method]
    if method in ("to", "type") and call.args:
        target = dtype_named(semantics, call.args[0])
        if target is not None:
            return target
        kind = semantics.kind(call.args[0])
        if method == "to" and kind is not None and kind.what in (What.DEVICE, What.TEXT):
            return element_type(semantics, receiver, depth + 1)
    return None


def _of_factory(semantics: Semantics, call: ast.Call, name: str) -> ElementType | None:
    if name in _FLOAT_FACTORIES:
        return _F
    if name in ("tensor", "as_tensor", "scalar_tensor"):
        return _of_data_expression(semantics, argument(call, 0, "data"))
    if name == "full":
        return _of_data_expression(semantics, argument(call, 1, "fill_value"))
    if name == "arange":
        bounds = [*call.args, *(item.value for item in call.keywords if item.arg in ("start", "end", "step"))]
        types = {_of_data_expression(semantics, bound) for bound in bounds}
        return types.pop() if len(types) == 1 and types <= {_I} else None
    return None


def _of_data_expression(semantics: Semantics, expression: ast.expr | None) -> ElementType | None:
    """The type of what ``torch.tensor`` makes of Python data: literals, ``range(...)`` and lists of integers."""
    value = semantics.value_of(expression)
    data = literal_of(value)
    if data is not UNKNOWN:
        return _of_data(data)
    match value:
        case ast.Call(func=ast.Name(id="range" | "len" | "int") as name) if not semantics.definitions(name):
            return _I
        case ast.Call(func=ast.Name(id="list"), args=[inner]):
            return _of_data_expression(semantics, inner)
        case ast.ListComp(elt=element):
            return _of_data_expression(semantics, element)
        case ast.List(elts=[ast.Constant(), *_] as elements) | ast.BinOp(left=ast.List(elts=elements), op=ast.Mult()):
            types = {_of_data_expression(semantics, element) for element in elements}
            return types.pop() if len(types) == 1 else None
        case _:
            return None


def _of_data(data: object) -> ElementType | None:
    match data:
        case bool():
            return _T
        case int():
            return _I
        case float():
            return _F
        case complex():
            return ElementType.COMPLEX
        case [] | ():
            return _F
        case list() | tuple():
            types = {_of_data(item) for item in data}
            if None in types:
                return None
            order = (ElementType.COMPLEX, _F, _I, _T)
            return next(item for item in order if item in types)
        case _:
            return None


def _is_tensor(semantics: Semantics, expression: ast.expr | None) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.is_tensor
