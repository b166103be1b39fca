from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import has_unknown_arguments
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

#: Names of things that are meant for the two flags that losses begin with (`size_average`, `reduce`).
_FLAG = regex(r"averag|reduc|^is_|^use_|flag|weight", re.IGNORECASE)
_KINDS = frozenset({"activation", "dropout", "pooling", "shape", "normalization", "distance"})
#: What the functions and objects that compute a loss call their data.
_DATA = frozenset({"input", "target"})
_STATELESS = frozenset({"activation", "pooling", "shape", "distance"})
_CONVERTING = frozenset("float long int to squeeze unsqueeze view reshape flatten type cuda".split())
#: What targets are called.
_TARGET = regex(r"^(?:ys?|y_true|(?:true_?)?(?:target|label)s?|gt|ground_?truth)$|_(?:target|label)s?$")


class ConstructorCalledAsFunction(Rule):
    """## What it does

    Reports a loss or layer class that is called with the data: `nn.MSELoss(prediction, target)`, `nn.ReLU(x)`.

    ## Why is this bad?

    The call makes an object; the data go into its settings. `nn.MSELoss(prediction, target)` takes them for two flags
    and raises "Boolean value of Tensor with more than one value is ambiguous"; `nn.Sigmoid(x)` raises `TypeError`;
    `nn.ReLU(x)` gives a layer where a tensor is expected.

    ## Example

    ```python
    import torch
    import torch.nn as nn

    prediction, target = torch.randn(8), torch.randn(8)
    loss = nn.MSELoss(prediction, target)
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn

    prediction, target = torch.randn(8), torch.randn(8)
    loss = nn.MSELoss()(prediction, target)
    ```

    `nn.functional.mse_loss(prediction, target)` does the same without an object.

    ## Exceptions

    Arguments that are settings: numbers, flags, a tensor of class weights.

    ## References

    - [torch.nn.MSELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html)
    - [torch.nn.ReLU](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html)
    """

    code = "TL122"
    name = "constructor-called-as-function"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The data are given to the constructor, which makes an object instead of computing."

    @on_call(*torch_api.module_names())
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not (call.args or call.keywords) or has_unknown_arguments(call):
            return
        name = unit.semantics.name(call.func)
        facts = torch_api.module_facts(name)
        if facts is None:
            return
        written = ast.unparse(call.func)
        if facts.kind == "loss":
            if not _is_loss_of_data(call, facts.parameters, unit.semantics):
                return
            message = f"`{written}` takes settings, not the data: the call makes a loss function and computes nothing."
        elif facts.kind in _KINDS and _is_layer_of_data(call, facts.parameters, unit.semantics):
            message = f"`{written}` takes settings, not the data: the call makes a layer and computes nothing."
        else:
            return
        function = call.func
        can = all(item.arg in _DATA for item in call.keywords) and _needs_nothing(name)
        fix = FixPlan(
            f"Make the object, then call it: `{written}()(...)`", "unsafe", lambda e: e.insert_after(function, "()")
        )
        settings = [*call.args[1:], *call.keywords]
        if not can and facts.kind in _STATELESS and call.args and settings and not _keeps(name):
            given = ", ".join(ast.unparse(item) for item in settings)
            fix = FixPlan(
                f"Make the object, then call it: `{written}({given})(...)`",
                "unsafe",
                lambda e: e.replace(
                    call, f"{e.source(function)}({', '.join(map(e.source, settings))})({e.source(call.args[0])})"
                ),
            )
            can = True
        yield self.found(call, message, fixes=[fix] if can else [])


def _is_loss_of_data(call: ast.Call, parameters: tuple[str, ...], semantics: Semantics) -> bool:
    """Whether the first arguments of a loss class are a prediction and a target."""
    if any(item.arg in _DATA and item.arg not in parameters for item in call.keywords):
        return True
    if len(call.args) < 2:
        return False
    first, second = call.args[:2]
    if not all(isinstance(one, ast.Name | ast.Attribute | ast.Call | ast.Subscript) for one in (first, second)):
        return False
    if any(_FLAG.search(ast.unparse(one).rpartition(".")[2]) for one in (first, second)):
        return False
    if _is_tensor(second, semantics):
        return True
    kinds = [semantics.kind(one) for one in (first, second)]
    seems = _is_tensor(first, semantics) or kinds == [None, None]
    if parameters[:2] == ("size_average", "reduce"):
        return seems
    names = [_name_of(one).lower() for one in (first, second)]
    return seems and "weight" not in names[0] and bool(_TARGET.search(names[1]))


def _name_of(expression: ast.expr) -> str:
    """What data are called: ``y`` of ``y.float().unsqueeze(1)``."""
    while isinstance(expression, ast.Call):
        function = expression.func
        converted = isinstance(function, ast.Attribute) and function.attr in _CONVERTING
        expression = function.value if converted and isinstance(function, ast.Attribute) else function
        if not converted:
            break
    return last_name(expression)


def _is_layer_of_data(call: ast.Call, parameters: tuple[str, ...], semantics: Semantics) -> bool:
    """Whether the first argument of a layer class is what it would be applied to: a tensor, or something before what
    can only be the probability of a dropout."""
    if not call.args or _is_tensor(call.args[0], semantics):
        return bool(call.args)
    if parameters[1:2] != ("inplace",) or len(call.args) != 2 or semantics.kind(call.args[0]) is not None:
        return False
    return isinstance(semantics.literal(call.args[1]), float)


def _is_tensor(expression: ast.expr, semantics: Semantics) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.is_tensor and kind.what is not What.PARAMETER


def _needs_nothing(name: str) -> bool:
    """Whether a class can be made without arguments and does something sensible then."""
    facts = torch_api.module_facts(name)
    if facts is None or name.endswith(("Softmax", "LogSoftmax", "Softmin")):
        return False
    return (facts.kind in ("activation", "loss", "distance") or name == "torch.nn.Flatten") and not _keeps(name)


def _keeps(name: str) -> bool:
    """Whether a layer has weights or a mode: the module would have to keep it, which is no small fix."""
    return torch_api.has_parameters(name, {}) is not False or torch_api.is_mode_dependent(name, {}) is not False
