"""Tensors that are created in one dtype and converted to another, and whether ``dtype=`` would make the same."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.idioms.values.devices import device_evidence
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of
from torchlint.torch_api import factory_facts

#: The methods that convert to one dtype, and which.
DTYPE_METHODS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}
_FLOATS = frozenset("float16 half bfloat16 float32 float float64 double".split())
_INTEGERS = frozenset("uint8 int8 int16 short int32 int int64 long".split())
#: All their elements are 0 or 1, or not set: those are the same in every dtype.
_CONSTANT = frozenset(f"torch.{name}{like}" for name in ("zeros", "ones", "empty") for like in ("", "_like"))
_FILLED = frozenset(("torch.full", "torch.full_like"))
#: These are drawn or computed as floating point numbers: an integer dtype raises, or gives something else.
_FLOATING = frozenset(f"torch.{name}" for name in "rand randn rand_like randn_like linspace logspace".split())
#: These are made of integers where their arguments are.
_COUNTING = frozenset(f"torch.{name}" for name in "arange randint randint_like randperm".split())
_OF_DATA = frozenset(("torch.tensor",))
_KNOWN = _CONSTANT | _FILLED | _FLOATING | _COUNTING | _OF_DATA | {"torch.eye"}
_MAKES_A_DIFFERENCE = ("dtype", "out", "layout", "pin_memory")
#: Integers that every dtype but `uint8` and `bool` holds exactly.
_SMALL = range(-128, 128)


@dataclass(frozen=True, eq=False)
class Conversion:
    """A conversion of a dtype: ``argument`` is the dtype as it is given (None: the method is called after it), ``name``
    its canonical name (empty where only the run tells), ``alone``: the call does nothing else."""

    call: ast.Call
    argument: ast.expr | None
    name: str
    alone: bool

    @property
    def shown(self) -> str:
        return f"torch.{self.name}" if self.argument is None else ast.unparse(self.argument)


def conversion_of(call: ast.Call, semantics: Semantics) -> Conversion | None:
    """The conversion that a call of ``to``, ``type``, ``half()`` and the like is; None where it may be another."""
    if not isinstance(call.func, ast.Attribute):
        return None
    method = call.func.attr
    if has_unknown_arguments(call):
        return None
    if method in DTYPE_METHODS:
        return Conversion(call, None, DTYPE_METHODS[method], True) if not call.args and not call.keywords else None
    keywords = {item.arg for item in call.keywords}
    if method == "type" or not keywords <= {"device", "dtype"}:
        dtype = argument(call, 0, "dtype") if len(call.args) + len(call.keywords) == 1 else None
    else:
        dtype = argument(call, None, "dtype") or next((item for item in call.args if _is_dtype(item, semantics)), None)
    if dtype is None or not _is_dtype(dtype, semantics):
        return None
    others = [item for item in (*call.args, *(keyword.value for keyword in call.keywords)) if item is not dtype]
    if len(others) > 1 or any(device_evidence(semantics, item) is None for item in others):
        return None
    kind = semantics.kind(dtype)
    name = (kind.origin if kind is not None else "").rpartition(".")[2]
    return Conversion(call, dtype, name, not others)


def _is_dtype(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether an argument is a dtype: by its kind, as the ``.dtype`` of something, or as what ``dtype=`` is given."""
    kind = semantics.kind(expression)
    if kind is not None and (kind.proven or kind.what is not What.DTYPE):
        return kind.what is What.DTYPE and kind.proven
    holder = parent_of(expression)
    is_named = isinstance(holder, ast.keyword) and holder.arg == "dtype"
    return is_named or (isinstance(expression, ast.Attribute) and expression.attr == "dtype")


def _is_dtype_of(dtype: ast.expr | None, tensor: ast.expr | None) -> bool:
    """Whether a dtype is ``x.dtype`` of this ``x``."""
    return isinstance(dtype, ast.Attribute) and tensor is not None and ast.dump(dtype.value) == ast.dump(tensor)


def means_the_same(factory: ast.Call, conversion: Conversion, semantics: Semantics) -> bool:
    """Whether the factory, given the dtype, makes what the conversion gives, up to rounding."""
    facts = factory_facts(semantics.name(factory.func))
    if facts is None or facts.name not in _KNOWN or not facts.takes_dtype:
        return False
    given = {item.arg: item.value for item in factory.keywords}
    if None in given or any(name in given for name in _MAKES_A_DIFFERENCE):
        return False
    if facts.like and _is_dtype_of(conversion.argument, argument(factory, 0, "input")):
        return False  # it has that dtype already
    gradient = given.get("requires_grad")
    if gradient is not None and semantics.literal(gradient) is not False:
        return False
    to_float, to_integer = conversion.name in _FLOATS, conversion.name in _INTEGERS
    if facts.name in _FLOATING:
        return to_float
    if facts.name in _COUNTING:
        makes_other = to_integer and conversion.name not in ("int64", "long")
        return to_float or (makes_other and _has_integers_only(factory, semantics))
    if facts.name in _FILLED:
        return to_float or _small_value(factory, semantics) is not None
    if facts.name in _OF_DATA:
        if conversion.name in ("int64", "long") and _holds_integers(argument(factory, 0, "data"), semantics):
            return False
        data = semantics.kind(argument(factory, 0, "data"))
        return (to_float or to_integer or conversion.name == "bool") and not (data is not None and data.is_tensor)
    return True


def gives_default_dtype(factory: ast.Call, conversion: Conversion, semantics: Semantics) -> bool:
    """Whether the factory makes ``float32`` in any case, as long as nobody changes the default dtype."""
    name = semantics.name(factory.func)
    makes_floats = name in _CONSTANT | _FLOATING | {"torch.eye"} and not name.endswith("_like")
    return makes_floats and conversion.name in ("float32", "float")


def takes_dtype_of_data(factory: ast.Call, semantics: Semantics) -> bool:
    """Whether the factory is given data, and makes a tensor of their dtype."""
    return semantics.is_named(factory.func, *_OF_DATA)


def _holds_integers(data: ast.expr | None, semantics: Semantics) -> bool:
    """Whether data are integers or lists of them for certain: literals, lengths and sizes. They make ``int64``."""
    match data:
        case (
            ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.BinOp(op=ast.Mult(), left=ast.List(elts=elements))
        ):
            return bool(elements) and all(_holds_integers(element, semantics) for element in elements)
        case ast.ListComp(elt=element):
            return _holds_integers(element, semantics)
        case ast.Call(func=ast.Name(id="len" | "int")) | ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case None:
            return False
        case _:
            value = semantics.literal(data)
            return isinstance(value, int) and not isinstance(value, bool)


def _has_integers_only(factory: ast.Call, semantics: Semantics) -> bool:
    """Whether nothing that ``arange`` is given may be a fraction. The others draw integers in any case."""
    if semantics.name(factory.func) != "torch.arange":
        return True
    values = [*factory.args, *(item.value for item in factory.keywords if item.arg in ("start", "end", "step"))]
    return all(isinstance(semantics.literal(value), int) for value in values)


def is_exact(factory: ast.Call, conversion: Conversion, semantics: Semantics) -> bool:
    """Whether the elements are the same bits either way."""
    facts = factory_facts(semantics.name(factory.func))
    if facts is None or facts.name in _CONSTANT:
        return facts is not None
    value = _small_value(factory, semantics) if facts.name in _FILLED else None
    return value is not None and (value >= 0 or conversion.name in _FLOATS | _INTEGERS - {"uint8"})


def _small_value(factory: ast.Call, semantics: Semantics) -> float | None:
    """The value of ``full`` where it is a small whole number."""
    value = semantics.literal(argument(factory, 1, "fill_value"))
    return value if isinstance(value, int | float) and value in _SMALL else None
