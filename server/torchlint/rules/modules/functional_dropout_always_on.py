from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.modules.training_guard import depends_on_mode, is_deliberate_noise
from torchlint.idioms.training.grad_mode import GradMode, grad_mode_at
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.nodes import (
    argument,
    default_of,
    enclosing_class,
    enclosing_function,
    has_unknown_arguments,
    is_static,
)
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.unit import Unit

_FUNCTIONAL = "torch.nn.functional."


class FunctionalDropoutAlwaysOn(Rule):
    """## What it does

    Reports `F.dropout` (and `F.dropout1d`, `F.dropout2d`, `F.dropout3d`) without `training=` in a method of a module,
    or in a function that such methods call, and a constant `dropout_p` of `F.scaled_dot_product_attention`.
    `F.alpha_dropout`, `F.feature_alpha_dropout` and `F.rrelu` have the opposite default: without `training=` they are
    always off, which is a hint.

    ## Why is this bad?

    The functions do not know the mode of the module. `F.dropout` drops by default, so after `model.eval()` predictions
    stay random and are worse than they have to be.

    ## Example

    ```python
    import torch.nn as nn
    import torch.nn.functional as F


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            return self.fc(F.dropout(x, p=0.3))
    ```

    ## Use instead

    ```python
    import torch.nn as nn
    import torch.nn.functional as F


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            return self.fc(F.dropout(x, p=0.3, training=self.training))
    ```

    ## Exceptions

    Code below a test of the mode, and methods that are called below one. `training=True` says that it is meant; so do
    names and comments that speak of a pre-net or Monte Carlo dropout, and a probability that a method under
    `torch.no_grad` is given. A probability of 0 drops nothing.

    ## References

    - [torch.nn.functional.dropout](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html)
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL112"
    name = "functional-dropout-always-on"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Functional dropout without `training=` stays on after `model.eval()`."

    @on_call(*(f"{_FUNCTIONAL}{name}" for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")))
    def check_dropout(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if _is_given(call, 2, "training") or _is_zero(argument(call, 1, "p"), unit):
            return
        yield from self._report(call, unit, "is always on: it drops after `eval()` too.", None)

    @on_call(*(f"{_FUNCTIONAL}{name}" for name in ("alpha_dropout", "feature_alpha_dropout")))
    def check_alpha_dropout(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not _is_given(call, 2, "training") and not _is_zero(argument(call, 1, "p"), unit):
            yield from self._report(call, unit, "is always off: it drops nothing in training either.", Level.HINT)

    @on_call(f"{_FUNCTIONAL}rrelu", "torch.rrelu")
    def check_rrelu(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not _is_given(call, 3, "training"):
            yield from self._report(call, unit, "is never random: it takes the mean slope in training too.", Level.HINT)

    def _report(self, call: ast.Call, unit: Unit, consequence: str, level: Level | None) -> Iterator[Diagnosis]:
        method = _module_method(call, unit) or _helper_of_modules(call, unit)
        if method is None or depends_on_mode(call, unit.semantics) or is_deliberate_noise(call, method):
            return
        if _is_asked_for(call, unit):
            return
        name = ast.unparse(call.func)
        value = f"{_self_name(call, method)}.training"
        fix = FixPlan(f"Add `training={value}`", "unsafe", lambda edit: edit.add_keyword(call, "training", value))
        yield self.found(
            call,
            f"`{name}` without `training=` {consequence}",
            fixes=[fix] if enclosing_class(method) is not None and _self_name(call, method) else [],
            severity=level.severity if level is not None else None,
        )

    @on_call(f"{_FUNCTIONAL}scaled_dot_product_attention")
    def check_attention(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        position = torch_api.positional_index(f"{_FUNCTIONAL}scaled_dot_product_attention", "dropout_p")
        given = argument(call, position, "dropout_p")
        method = _module_method(call, unit)
        if given is None or method is None or not _is_constant_above_zero(given, unit):
            return
        if depends_on_mode(given, unit.semantics) or is_deliberate_noise(call, method):
            return
        name = _self_name(call, method)
        fix = FixPlan(
            f"Drop only in training: `if {name}.training else 0.0`",
            "unsafe",
            lambda edit: edit.insert_after(given, f" if {name}.training else 0.0"),
        )
        yield self.found(
            given,
            f"`dropout_p={ast.unparse(given)}` does not look at the mode: attention drops after `eval()` too.",
            fixes=[fix] if name else [],
        )


def _is_given(call: ast.Call, position: int, keyword: str) -> bool:
    return has_unknown_arguments(call) or argument(call, position, keyword) is not None


def _is_zero(p: ast.expr | None, unit: Unit) -> bool:
    return p is not None and unit.semantics.literal(p) in (0, 0.0)


def _is_asked_for(call: ast.Call, unit: Unit) -> bool:
    """Whether the caller of a function without gradients says how much to drop, as for the noise of a sampler."""
    p = argument(call, 1, "p")
    return (
        isinstance(p, ast.Name)
        and all(definition.kind is Binding.PARAMETER for definition in unit.semantics.definitions(p))
        and grad_mode_at(unit.semantics, call).mode is GradMode.OFF
    )


def _is_constant_above_zero(given: ast.expr, unit: Unit) -> bool:
    """Whether a probability is a literal above zero, an attribute that only ever gets one, or that of a dropout layer
    which is built with one."""
    value = unit.semantics.literal(given)
    own = unit.semantics.class_of_self(given.value) if isinstance(given, ast.Attribute) else None
    if isinstance(given, ast.Attribute) and given.attr == "p" and own is None:
        layer = unit.semantics.kind(given.value)
        if layer is None or layer.origin != "torch.nn.Dropout" or not isinstance(layer.node, ast.Call):
            return False
        rate = argument(layer.node, 0, "p")
        value = 0.5 if rate is None else unit.semantics.literal(rate)
        if isinstance(rate, ast.Name):
            value = _default(rate, unit)
    elif isinstance(given, ast.Attribute):
        if own is None or unit.semantics.find_method(own, given.attr) is not None:
            return False
        writes = unit.semantics.module.attribute_writes(own, given.attr)
        if len(writes) != 1 or writes[0].path or writes[0].augmented:
            return False
        value = unit.semantics.literal(writes[0].value)
        if isinstance(writes[0].value, ast.Name):
            value = _default(writes[0].value, unit)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _default(name: ast.Name, unit: Unit) -> object:
    """The literal default of the parameter that a name stands for, or the literal that it is bound to."""
    definitions = unit.semantics.definitions(name)
    if len(definitions) != 1 or not isinstance(definitions[0].node, ast.arg):
        return unit.semantics.literal(name)
    default = default_of(definitions[0].node)
    return unit.semantics.literal(default) if default is not None else None


def _module_method(node: ast.AST, unit: Unit) -> FunctionNode | None:
    """The method of a module in which a node stands (in a function inside it, too)."""
    function = enclosing_function(node)
    while function is not None and enclosing_function(function) is not None:
        function = enclosing_function(function)
    if function is None or is_static(function) or first_parameter(function) is None:
        return None
    owner = enclosing_class(function)
    return function if owner is not None and unit.semantics.is_module_class(owner) else None


def _helper_of_modules(node: ast.AST, unit: Unit) -> FunctionNode | None:
    """The function of the file in which a node stands, if methods of modules call it, and call it in every mode."""
    function = enclosing_function(node)
    if function is None or enclosing_function(function) is not None or enclosing_class(function) is not None:
        return None
    calls = unit.semantics.callers(function)
    for call in calls:
        method = _module_method(call, unit)
        if method is None or depends_on_mode(call, unit.semantics) or is_deliberate_noise(call, method):
            return None
    return function if calls else None


def _self_name(node: ast.AST, method: FunctionNode) -> str:
    """How ``self`` is called at a node; empty where an inner function has the name for something else."""
    name = first_parameter(method) or ""
    function = enclosing_function(node)
    while function is not None and function is not method:
        arguments = function.args
        if name in (item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)):
            return ""
        function = enclosing_function(function)
    return name
