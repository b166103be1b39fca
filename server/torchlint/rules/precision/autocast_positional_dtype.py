from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, default_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit


class AutocastPositionalDtype(Rule):
    """## What it does

    Reports `torch.amp.autocast(device_type, True)`: a truth value in the second place, which is that of the dtype.

    ## Why is this bad?

    Entering the context raises "argument 'dtype' must be torch.dtype, not bool" (torch 2.13). The mistake comes with
    the move from `torch.cuda.amp.autocast(True)`, whose first parameter is `enabled`.

    ## Example

    ```python
    import torch

    with torch.amp.autocast("cuda", True):
        loss = model(images).sum()
    ```

    ## Use instead

    ```python
    import torch

    with torch.amp.autocast("cuda", enabled=True):
        loss = model(images).sum()
    ```

    ## Exceptions

    A value of which the file does not say that it is a truth value or a number.

    ## References

    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
    """

    code = "TL704"
    name = "autocast-positional-dtype"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "The second argument of `torch.autocast` is the dtype: a truth value there raises."

    @on_call("torch.amp.autocast")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if len(call.args) < 2 or argument(call, 1, None) is None:
            return
        given = call.args[1]
        if not _is_truth_value(given, unit.semantics) or is_expected_to_raise(call):
            return
        message = "The second argument of `autocast` is the dtype: a truth value there raises when it is entered."
        fix = FixPlan("Pass it as `enabled=`", "safe", lambda edit: edit.insert_before(given, "enabled="))
        clear = len(call.args) == 2 and argument(call, None, "enabled") is None
        yield self.found(given, message, fixes=[fix] if clear else [])


def _is_truth_value(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is certainly a truth value or a number, and no dtype."""
    if isinstance(expression, ast.Compare):
        kind = semantics.kind(expression)
        return kind is None or not kind.is_tensor
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        return True
    if isinstance(semantics.literal(expression), bool):
        return True
    kind = semantics.kind(expression)
    if kind is not None:
        return kind.proven and kind.what is What.NUMBER
    return isinstance(expression, ast.Name) and _has_truth_value_as_default(expression, semantics)


def _has_truth_value_as_default(name: ast.Name, semantics: Semantics) -> bool:
    """Whether a name is a parameter whose default is ``True`` or ``False``."""
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].kind is not Binding.PARAMETER:
        return False
    parameter = definitions[0].node
    if not isinstance(parameter, ast.arg) or parameter.annotation is not None:
        return False
    default = default_of(parameter)
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)
