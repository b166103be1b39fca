from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, on_call, on_reference
from torchlint.rules.versions._versioned import VersionedNameRule
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import versioned_tails

_REDUCTIONS = frozenset(("reduction", "reduce", "size_average"))


class InertLegacySwitch(VersionedNameRule):
    """## What it does

    Reports what is left of torch before 0.4: `volatile=` of `Variable`, `loss.data[0]`, `clip_grad_norm` and the
    initialisers of `torch.nn.init` without an underscore at the end, and `F.sigmoid` and `F.tanh` in projects that
    allow only torch before 2.0.

    ## Why is this bad?

    `volatile=True` has no effect: the inference that it was meant for builds a graph. `loss.data[0]` raises, because a
    loss is a tensor without dimensions. The old names warn on each call.

    ## Example

    ```python
    import torch.nn as nn

    nn.init.xavier_uniform(layer.weight)
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    nn.init.xavier_uniform_(layer.weight)
    ```

    ## Exceptions

    The same keyword of another function, `.data[0]` of anything but a loss of torch that is reduced to one number or
    what the same function backpropagates, and code for several versions. A dict that lists a function under its own
    name and its successor, too. `F.sigmoid` and `F.tanh` are no longer deprecated since torch 2.0. The fix takes
    `volatile` away; what was meant is `with torch.no_grad():`.

    ## References

    - [Migration guide of torch 0.4](https://pytorch.org/blog/pytorch-0_4_0-migration-guide/)
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    """

    code = "TL011"
    name = "inert-legacy-switch"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This is left of torch before 0.4: it has no effect, warns or raises."

    @on_reference(*versioned_tails("TL011"))
    def check_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        yield from self.at_reference(node, unit)

    @on_call("torch.autograd.Variable")
    def check_volatile(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = next((item for item in call.keywords if item.arg == "volatile"), None)
        if given is None or in_version_fallback(unit.semantics, call):
            return
        fixes = []
        if isinstance(given.value, ast.Constant | ast.Name | ast.Attribute):
            fixes.append(FixPlan("Remove `volatile`", "safe", lambda edit: edit.remove_argument(call, given.value)))
        yield self.found(given, "`volatile` has no effect since torch 0.4: use `with torch.no_grad():`.", fixes=fixes)

    @on_reference("data")
    def check_loss(self, data: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        node = parent_of(data)
        match node:
            case ast.Subscript(value=ast.Attribute(attr="data", value=loss), slice=ast.Constant(value=0)):
                pass
            case _:
                return
        if not _is_reduced_loss(loss, unit) and not _is_backpropagated(loss, unit):
            return
        if in_version_fallback(unit.semantics, node):
            return
        fix = FixPlan("Replace with `.item()`", "safe", lambda edit: edit.replace(node, f"{edit.source(loss)}.item()"))
        yield self.found(
            node,
            "A loss is a tensor without dimensions: `.data[0]` raises an IndexError, `.item()` is its value.",
            fixes=[fix],
        )

    @on_call("torch.nn.functional.sigmoid", "torch.nn.functional.tanh")
    def check_activation(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        name = unit.semantics.name(call.func)
        if not name or unit.torch is None or unit.torch.may_be_at_least("2.0"):
            return
        if in_version_fallback(unit.semantics, call):
            return
        new = f"torch.{name.rpartition('.')[2]}"
        fix = FixPlan(f"Replace with `{new}`", "safe", lambda edit: edit.replace(call.func, edit.spell(new)))
        yield self.found(call.func, f"`{name}` is deprecated in torch below 2.0: use `{new}`.", fixes=[fix])


def _is_backpropagated(loss: ast.expr, unit: Unit) -> bool:
    """Whether the same function backpropagates what a call gave, and gives no gradient: then it is one number."""
    if not isinstance(loss, ast.Name):
        return False
    function = enclosing_function(loss)
    made = set(unit.semantics.definitions(loss))
    if not made or not all(isinstance(item.value, ast.Call) and not item.path for item in made):
        return False
    for call in nodes_within(function, ast.Call) if function is not None else unit.all(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="backward", value=ast.Name(id=loss.id) as other), args=[]):
                if made & set(unit.semantics.definitions(other)):
                    return not any(item.arg in ("gradient", None) for item in call.keywords)
    return False


def _is_reduced_loss(expression: ast.expr, unit: Unit) -> bool:
    """Whether an expression is what a loss of torch returns when nobody has said how it is reduced."""
    semantics = unit.semantics
    made = semantics.value_of(expression)
    if not isinstance(made, ast.Call):
        return False
    if torch_api.is_loss_function(semantics.name(made.func)):
        return not any(item.arg is None or item.arg in _REDUCTIONS for item in made.keywords)
    kind = semantics.kind(made.func)
    if kind is None or kind.what is not What.LOSS or kind.class_node is not None or not isinstance(kind.node, ast.Call):
        return False
    return not any(item.arg is None or item.arg in _REDUCTIONS for item in kind.node.keywords)
