"""How many axes a tensor has and how long they are, as far as literals and the calls that make it tell."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.idioms.values.origins import KEEPING, arguments_after, operation_of, origin_of
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.torch_api.known import legacy_constructor_dtype

#: The length of each axis; None for one that is not known.
Sizes = tuple[int | None, ...]

_DEEPEST = 10
_SIZED = frozenset("zeros ones empty rand randn".split())
_LIKE = frozenset("zeros_like ones_like empty_like full_like rand_like randn_like randint_like".split())
#: Operations that keep the shape.
ELEMENTWISE = KEEPING | frozenset(
    "relu sigmoid tanh exp log log1p expm1 sqrt rsqrt abs neg sin cos softmax log_softmax softplus gelu silu elu "
    "leaky_relu clamp clamp_min clamp_max round floor ceil sign float double half bfloat16 long int bool short to type "
    "type_as dropout isnan isinf logical_not square reciprocal erf cumsum cumprod flip roll normalize "
    "eq ne lt le gt ge masked_fill pow".split()
)
#: Those of them that broadcast, where they are given another tensor.
_BROADCASTING = frozenset("eq ne lt le gt ge pow masked_fill clamp clamp_min clamp_max".split())
#: Operations that take an axis away: by ``dim`` at this position, all of them without it.
_REDUCING = frozenset("sum mean prod std var amax amin argmax argmin norm logsumexp all any".split())


def sizes_of(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> Sizes | None:
    """The lengths of all axes of a tensor; None where not even their number is known."""
    value = origin_of(semantics, expression)
    if depth > _DEEPEST:
        return None
    match value:
        case ast.Call() if not has_unknown_arguments(value):
            return _of_call(semantics, value, depth)
        case ast.BinOp(left=left, right=right) if not isinstance(value.op, ast.MatMult):
            return _broadcast(semantics, left, right, depth)
        case ast.Compare(left=left, comparators=[right], ops=[operation]):
            if not isinstance(operation, ast.Is | ast.IsNot | ast.In | ast.NotIn):
                return _broadcast(semantics, left, right, depth)
        case ast.UnaryOp(operand=operand) if not isinstance(value.op, ast.Not):
            return sizes_of(semantics, operand, depth + 1)
        case ast.Subscript(value=inner, slice=index):
            sizes = sizes_of(semantics, inner, depth + 1)
            return None if sizes is None else _indexed(sizes, index)
        case ast.Attribute(value=inner, attr="data" | "grad"):
            return sizes_of(semantics, inner, depth + 1)
        case ast.Attribute(value=inner, attr="T"):
            sizes = sizes_of(semantics, inner, depth + 1)
            return None if sizes is None else sizes[::-1]
    return None


def _of_call(semantics: Semantics, call: ast.Call, depth: int) -> Sizes | None:
    name = semantics.name(call.func)
    head, _, tail = name.rpartition(".")
    if name == "torch.nn.Parameter":
        return sizes_of(semantics, argument(call, 0, "data"), depth + 1)
    if head == "torch" and tail in _SIZED:
        return _given(semantics, call.args or [item.value for item in call.keywords if item.arg == "size"])
    if legacy_constructor_dtype(name) is not None and len(call.args) > 1:
        return _given(semantics, call.args)
    if head == "torch":
        made = _of_other_factory(semantics, call, tail, depth)
        if made is not None:
            return made
    operation, operand = operation_of(semantics, call)
    if operand is None:
        return None
    if operation in ("cat", "concat", "stack"):
        return _joined(semantics, operation, operand, depth)
    sizes = sizes_of(semantics, operand, depth + 1)
    given = arguments_after(semantics, call)
    if operation in _BROADCASTING and not all(_is_number(semantics, item) for item in _values(call, given)):
        is_pair = len(given) == 1 and not call.keywords
        return _broadcast(semantics, operand, given[0], depth) if is_pair else None
    if operation in _LIKE or is_elementwise(operation, call):
        return sizes
    if operation == "repeat":
        counts = _given(semantics, given)
        return None if counts is None else (None,) * len(counts)
    if operation in ("view", "reshape", "expand"):
        shaped = _given(semantics, given)
        if operation in ("view", "reshape") or shaped is None or None not in shaped or sizes is None:
            return shaped
        return (None,) * len(shaped)
    if sizes is None:
        return (None,) if operation in ("ravel", "flatten") and not given and not call.keywords else None
    return _reshaped(semantics, call, operation, sizes, given)


def is_elementwise(operation: str, call: ast.Call) -> bool:
    """Whether a call of an operation gives a tensor of the shape of its operand. ``x.type()`` is the name of a type."""
    return operation in ELEMENTWISE and (operation != "type" or bool(call.args or call.keywords))


def _values(call: ast.Call, given: Sequence[ast.expr]) -> list[ast.expr]:
    return [*given, *(item.value for item in call.keywords if item.arg != "input")]


def _of_other_factory(semantics: Semantics, call: ast.Call, name: str, depth: int) -> Sizes | None:
    match name:
        case "tensor" | "as_tensor":
            data = literal_of(semantics.value_of(argument(call, 0, "data")))
            return None if data is UNKNOWN else _of_data(data)
        case "full" | "randint" | "normal":
            position = {"full": 0, "randint": 1 if len(call.args) == 2 else 2, "normal": 2}[name]
            size = argument(call, position, "size")
            return _given(semantics, [size]) if isinstance(size, ast.Tuple | ast.List) else None
        case "arange" | "range":
            return (whole_number(call.args[0], semantics) if len(call.args) == 1 else None,)
        case "randperm":
            return (whole_number(argument(call, 0, "n"), semantics),)
        case "linspace" | "logspace":
            return (whole_number(argument(call, 2, "steps"), semantics),)
        case "eye":
            rows = whole_number(argument(call, 0, "n"), semantics)
            columns = argument(call, 1, "m")
            return (rows, rows if columns is None else whole_number(columns, semantics))
        case _:
            return None


def _given(semantics: Semantics, given: Sequence[ast.expr]) -> Sizes | None:
    """The sizes that are written as arguments, or as one tuple or list; an axis of length -1 is not known."""
    items = given
    if len(given) == 1:
        value = semantics.value_of(given[0])
        if isinstance(value, ast.Tuple | ast.List):
            items = value.elts
        elif isinstance(value, ast.Attribute | ast.Call | ast.Subscript) or value is None:
            return None
        elif isinstance(value, ast.Name) and whole_number(value, semantics) is None:
            return None  # a name may be a number or a whole shape
    if not items or any(isinstance(item, ast.Starred) for item in items):
        return None
    numbers = (whole_number(item, semantics) for item in items)
    return tuple(number if number is not None and number >= 0 else None for number in numbers)


def _of_data(data: object) -> Sizes | None:
    if isinstance(data, list | tuple):
        if not data:
            return (0,)
        inner = _of_data(data[0])
        return None if inner is None else (len(data), *inner)
    return () if isinstance(data, int | float | complex) else None


def _broadcast(semantics: Semantics, left: ast.expr, right: ast.expr, depth: int) -> Sizes | None:
    sides: list[Sizes] = []
    for side in (left, right):
        sizes = () if _is_number(semantics, side) else sizes_of(semantics, side, depth + 1)
        if sizes is None:
            return None
        sides.append(sizes)
    longer, shorter = sorted(sides, key=len, reverse=True)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    return tuple(_common(one, other) for one, other in zip(longer, padded, strict=True))


def _common(one: int | None, other: int | None) -> int | None:
    if one == 1:
        return other
    if other == 1 or one == other:
        return one
    return one if other is None else other


def _is_number(semantics: Semantics, expression: ast.expr) -> bool:
    return isinstance(semantics.literal(expression), int | float | complex)


def _indexed(sizes: Sizes, index: ast.expr) -> Sizes | None:
    """The sizes after ``x[index]``: integers take an axis, slices keep it, None adds one. Other indices: unknown."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    left = list(sizes)
    found: list[int | None] = []
    for item in items:
        match item:
            case ast.Constant(value=None):
                found.append(1)
            case ast.Slice() if left:
                size = left.pop(0)
                found.append(size if item.lower is None and item.upper is None and item.step is None else None)
            case _ if left and isinstance(literal_of(item), int):
                left.pop(0)
            case _:
                return None
    return (*found, *left)


def _joined(semantics: Semantics, operation: str, operand: ast.expr, depth: int) -> Sizes | None:
    if not isinstance(operand, ast.List | ast.Tuple) or not operand.elts:
        return None
    sizes = sizes_of(semantics, operand.elts[0], depth + 1)
    if sizes is None:
        return None
    return (None,) * (len(sizes) + (1 if operation == "stack" else 0))


def _reshaped(
    semantics: Semantics, call: ast.Call, operation: str, sizes: Sizes, given: Sequence[ast.expr]
) -> Sizes | None:
    """What the operations that move, add and take axes make of known sizes."""
    rank = len(sizes)
    keywords = {item.arg: item.value for item in call.keywords}
    axes = [whole_number(item, semantics) for item in given]
    match operation:
        case "unsqueeze":
            axis = whole_number(given[0] if given else keywords.get("dim"), semantics)
            if axis is None or not -rank - 1 <= axis <= rank:
                return None
            place = axis % (rank + 1)
            return (*sizes[:place], 1, *sizes[place:])
        case "squeeze" if given or keywords:
            axis = whole_number(given[0] if given else keywords.get("dim"), semantics)
            if axis is None or not -rank <= axis < rank or sizes[axis] is None:
                return None
            return tuple(size for place, size in enumerate(sizes) if place != axis % rank or size != 1)
        case "transpose" | "swapaxes":
            return moved(sizes, permutation_of(operation, axes, rank))
        case "permute" | "t":
            flat = axes
            if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
                flat = [whole_number(item, semantics) for item in given[0].elts]
            return moved(sizes, permutation_of(operation, flat, rank))
        case "flatten" if not given and not keywords:
            return (None,)
        case "max" | "min" if not given and not keywords:
            return ()
        case _ if operation in _REDUCING:
            return _reduced(semantics, sizes, given, keywords)
        case _:
            return None


def _reduced(
    semantics: Semantics, sizes: Sizes, given: Sequence[ast.expr], keywords: dict[str | None, ast.expr]
) -> Sizes | None:
    dim = keywords.get("dim") or (given[0] if given else None)
    if dim is None:
        return ()
    axis = whole_number(dim, semantics)
    keep = keywords.get("keepdim") or (given[1] if len(given) > 1 else None)
    kept = semantics.literal(keep) if keep is not None else False
    if axis is None or not -len(sizes) <= axis < len(sizes) or not isinstance(kept, bool):
        return None
    place = axis % len(sizes)
    return (*sizes[:place], *((1,) if kept else ()), *sizes[place + 1 :])


def permutation_of(operation: str, axes: Sequence[int | None], rank: int | None) -> tuple[int, ...] | None:
    """Where each axis of the result of ``transpose``, ``permute`` or ``t`` comes from; None where that is not told.

    Without a ``rank``, axes counted from the front are enough: the permutation is of as many axes as are moved.
    """
    if operation == "t":
        axes = (0, 1)
    if not axes or any(axis is None for axis in axes):
        return None
    numbers = [axis for axis in axes if axis is not None]
    if rank is None:
        if any(axis < 0 for axis in numbers):
            return None
        rank = len(numbers) if operation == "permute" else max(numbers) + 1
    if any(not -rank <= axis < rank for axis in numbers):
        return None
    numbers = [axis % rank for axis in numbers]
    if operation == "permute":
        return tuple(numbers) if sorted(numbers) == list(range(rank)) else None
    if len(numbers) != 2:
        return None
    order = list(range(rank))
    order[numbers[0]], order[numbers[1]] = numbers[1], numbers[0]
    return tuple(order)


def moved(sizes: Sizes, order: Sequence[int] | None) -> Sizes | None:
    """Sizes in another order."""
    return None if order is None or len(order) != len(sizes) else tuple(sizes[axis] for axis in order)
