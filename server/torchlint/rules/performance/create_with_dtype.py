from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.arguments import position_of, with_keyword, without_argument
from torchlint.fixes.editor import Editor
from torchlint.idioms.values.creations import SHAPES, creation_of
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.dtype_conversions import (
    DTYPE_METHODS,
    Conversion,
    conversion_of,
    gives_default_dtype,
    is_exact,
    means_the_same,
    takes_dtype_of_data,
)
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit


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
    nothing, like `torch.tensor(len(x)).long()`; `torch.tensor(t)` of a tensor.

    ## References

    - [Creation operations](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "TL602"
    name = "create-with-dtype"
    level = Level.HINT
    fix = FixKind.SAFE
    summary = "The tensor is made in one dtype and converted; `dtype=` makes it in the right one."

    @on_method("to", "type", *DTYPE_METHODS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        assert isinstance(call.func, ast.Attribute)
        if not isinstance(call.func.value, ast.Call):
            return
        factory = creation_of(semantics, _before_move(call.func.value, semantics), SHAPES)
        conversion = conversion_of(call, semantics) if factory is not None else None
        if factory is None or conversion is None or not means_the_same(factory, conversion, semantics):
            return
        made = ast.unparse(factory.func)
        convert = f".{call.func.attr}()" if conversion.argument is None else f".{call.func.attr}(...)"
        if gives_default_dtype(factory, conversion, semantics):
            message = f"`{convert}` is for another default dtype: `dtype={conversion.shown}` says so without a call."
        elif takes_dtype_of_data(factory, semantics):
            message = (
                f"`{made}` takes the dtype of its data and `{convert}` converts the result: "
                f"`dtype={conversion.shown}` makes it at once."
            )
        else:
            message = (
                f"`{made}` makes the tensor in one dtype and `{convert}` converts it: "
                f"`dtype={conversion.shown}` makes it at once."
            )
        fix = FixPlan(
            f"Create it with `dtype={conversion.shown}`",
            "safe" if is_exact(factory, conversion, semantics) else "unsafe",
            lambda edit: _rewrite(edit, factory, conversion),
        )
        place = call if conversion.alone or conversion.argument is None else conversion.argument
        yield self.found(place, message, fixes=[fix])


def _before_move(made: ast.expr, semantics: Semantics) -> ast.expr:
    """What is moved, where a move to a device stands between the creation and the conversion."""
    match made:
        case ast.Call(func=ast.Attribute(value=moved, attr="cuda")):
            return moved
        case ast.Call(func=ast.Attribute(value=moved, attr="to"), args=[device], keywords=[]):
            return moved if device_evidence(semantics, device) is not None else made
        case _:
            return made


def _rewrite(edit: Editor, factory: ast.Call, conversion: Conversion) -> None:
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
