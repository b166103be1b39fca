from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.fixes.arguments import position_of, with_keyword, without_argument
from torchlint.fixes.editor import Editor
from torchlint.idioms.creations import SHAPES, creation_of
from torchlint.idioms.devices import device_evidence
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.semantics import Semantics, argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.torch_api import factory_facts

_METHODS = {
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
class _Conversion:
    """A conversion of a dtype: ``argument`` is the dtype as it is given (None: the method is called after it), ``name``
    its canonical name (empty where only the run tells), ``alone``: the call does nothing else."""

    call: ast.Call
    argument: ast.expr | None
    name: str
    alone: bool

    @property
    def shown(self) -> str:
        return f"torch.{self.name}" if self.argument is None else ast.unparse(self.argument)


class CreateWithDtype(Rule):
    """## What it does

    Points out a tensor that is created in one dtype and converted to another: `torch.zeros(n).half()`,
    `torch.ones(n).to(torch.long)`.

    ## Why is this bad?

    The tensor is made twice: allocated and filled in the default dtype, and allocated again to be converted. With
    `dtype=` it is made once. Where the default dtype is the one asked for, the conversion says nothing.

    ## Example

    ```python
    import torch

    mask = torch.ones(8, 128).bool()
    ```

    ## Use instead

    ```python
    import torch

    mask = torch.ones(8, 128, dtype=torch.bool)
    ```

    The fix is safe for `zeros`, `ones`, `empty`, and for `full` with a small integer. Random numbers and steps are
    drawn and rounded otherwise in another dtype, and `torch.tensor([0.1]).double()` keeps the error of `float32`.

    ## Exceptions

    A factory that has a `dtype` already; one with `requires_grad=True` (the converted tensor is no leaf); conversions
    to integers of what is made of floating point numbers; `arange(...).bool()`; `randint(...).long()`, which changes
    nothing; `torch.tensor(t)` of a tensor.

    ## References

    - [Creation operations](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "TL602"
    name = "create-with-dtype"
    level = Level.HINT
    fix = FixKind.SAFE
    summary = "The tensor is made in one dtype and converted; `dtype=` makes it in the right one."

    @on_method("to", "type", *_METHODS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        assert isinstance(call.func, ast.Attribute)
        if not isinstance(call.func.value, ast.Call):
            return
        factory = creation_of(semantics, call.func.value, SHAPES)
        conversion = _conversion(call, semantics) if factory is not None else None
        if factory is None or conversion is None or not _means_the_same(factory, conversion, semantics):
            return
        made = ast.unparse(factory.func)
        convert = f".{call.func.attr}()" if conversion.argument is None else f".{call.func.attr}(...)"
        if _is_default(factory, conversion, semantics):
            message = f"`{convert}` is for another default dtype: `dtype={conversion.shown}` says so without a call."
        else:
            message = (
                f"`{made}` makes the tensor in one dtype and `{convert}` converts it: "
                f"`dtype={conversion.shown}` makes it at once."
            )
        fix = FixPlan(
            f"Create it with `dtype={conversion.shown}`",
            "safe" if _is_exact(factory, conversion, semantics) else "unsafe",
            lambda edit: _rewrite(edit, factory, conversion),
        )
        place = call if conversion.alone or conversion.argument is None else conversion.argument
        yield self.found(place, message, fixes=[fix])


def _conversion(call: ast.Call, semantics: Semantics) -> _Conversion | None:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if has_unknown_arguments(call):
        return None
    if method in _METHODS:
        return _Conversion(call, None, _METHODS[method], True) if not call.args and not call.keywords else None
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
    return _Conversion(call, dtype, name, not others)


def _is_dtype(expression: ast.expr, semantics: Semantics) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.what is What.DTYPE and kind.proven


def _means_the_same(factory: ast.Call, conversion: _Conversion, semantics: Semantics) -> bool:
    """Whether the factory, given the dtype, makes what the conversion gives, up to rounding."""
    facts = factory_facts(semantics.name(factory.func))
    if facts is None or facts.name not in _KNOWN or not facts.takes_dtype:
        return False
    given = {item.arg: item.value for item in factory.keywords}
    if None in given or any(name in given for name in _MAKES_A_DIFFERENCE):
        return False
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
        data = semantics.kind(argument(factory, 0, "data"))
        return (to_float or to_integer or conversion.name == "bool") and not (data is not None and data.is_tensor)
    return True


def _is_default(factory: ast.Call, conversion: _Conversion, semantics: Semantics) -> bool:
    """Whether the factory makes ``float32`` in any case, as long as nobody changes the default dtype."""
    name = semantics.name(factory.func)
    makes_floats = name in _CONSTANT | _FLOATING | {"torch.eye"} and not name.endswith("_like")
    return makes_floats and conversion.name in ("float32", "float")


def _has_integers_only(factory: ast.Call, semantics: Semantics) -> bool:
    """Whether nothing that ``arange`` is given may be a fraction. The others draw integers in any case."""
    if semantics.name(factory.func) != "torch.arange":
        return True
    values = [*factory.args, *(item.value for item in factory.keywords if item.arg in ("start", "end", "step"))]
    return all(isinstance(semantics.literal(value), int) for value in values)


def _is_exact(factory: ast.Call, conversion: _Conversion, semantics: Semantics) -> bool:
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


def _rewrite(edit: Editor, factory: ast.Call, conversion: _Conversion) -> None:
    """The factory stands inside the conversion: both are rewritten as one text."""
    call, dtype = conversion.call, conversion.argument
    assert isinstance(call.func, ast.Attribute)
    written = edit.source(dtype) if dtype is not None else edit.spell(f"torch.{conversion.name}")
    kept = call.func.value if conversion.alone else call
    (start, end), (outer, _) = edit.span(factory), edit.span(kept)
    source = edit.source(kept)
    text = source[: start - outer] + with_keyword(edit.source(factory), "dtype", written) + source[end - outer :]
    if not conversion.alone and dtype is not None:
        text = without_argument(text, position_of(call, dtype))
    edit.replace(call, text)
