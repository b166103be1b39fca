from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_PLATEAU = "ReduceLROnPlateau"


class PlateauSchedulerWithoutMetric(Rule):
    """## What it does

    Reports `step()` without an argument on a `ReduceLROnPlateau` scheduler.

    ## Why is this bad?

    The scheduler watches a metric, which `step` must be given: the call raises a `TypeError`, after the first epoch.

    ## Example

    ```python
    import torch

    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(10):
        train(model, optimizer)
        scheduler.step()
    ```

    ## Use instead

    ```python
    import torch

    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(10):
        train(model, optimizer)
        scheduler.step(validate(model))
    ```

    ## Exceptions

    A scheduler that may be one of several classes, and a class of your own with another `step`.

    ## References

    - [torch.optim.lr_scheduler.ReduceLROnPlateau](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html)
    """

    code = "TL222"
    name = "plateau-scheduler-without-metric"
    level = Level.ERROR
    summary = "`ReduceLROnPlateau.step()` raises without the metric that it watches."

    @on_method("step")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if call.args or call.keywords or not isinstance(call.func, ast.Attribute):
            return
        module = unit.semantics.module
        if not (module.mentions_call(_PLATEAU) or module.reads_name(_PLATEAU) or module.reads_attribute(_PLATEAU)):
            return
        receiver = call.func.value
        known = _known_by_test(call, receiver, unit)
        if known is not None:
            message = f"`{ast.unparse(receiver)}` is a `ReduceLROnPlateau` here: `step()` without the metric raises."
            if not is_expected_to_raise(call):
                yield self.found(call, message, related=[(known, "asked here")])
            return
        kind = unit.semantics.kind(receiver)
        if kind is None or kind.what is not What.SCHEDULER or kind.class_node is not None:
            return
        if not torch_api.needs_metric(kind.origin) or _is_told_apart(call) or is_expected_to_raise(call):
            return
        message = f"`{ast.unparse(receiver)}` is a `ReduceLROnPlateau`: `step()` without the metric raises."
        related = [(kind.node, "made here")] if isinstance(kind.node, ast.Call) else []
        yield self.found(call, message, related=related)


def _known_by_test(call: ast.Call, receiver: ast.expr, unit: Unit) -> ast.expr | None:
    """The test that lets a call run only for this scheduler: ``if isinstance(scheduler, ReduceLROnPlateau):``."""
    child: ast.AST = call
    current = parent_of(call)
    while isinstance(current, ast.stmt | ast.expr) and not isinstance(current, ast.FunctionDef | ast.ClassDef):
        match current:
            case ast.If(test=ast.Call(func=ast.Name(id="isinstance"), args=[asked, given]) as test, body=body):
                is_same = ast.unparse(asked) == ast.unparse(receiver)
                if child in body and is_same and unit.semantics.is_named(given, f"torch.optim.lr_scheduler.{_PLATEAU}"):
                    return test
        child, current = current, parent_of(current)
    return None


def _is_told_apart(call: ast.Call) -> bool:
    """Whether a condition around a call asks what the scheduler is."""
    current = parent_of(call)
    while current is not None:
        if isinstance(current, ast.If | ast.IfExp) and any(
            (isinstance(node, ast.Name) and node.id == "isinstance")
            or "plateau" in str(getattr(node, "attr", getattr(node, "id", getattr(node, "value", "")))).lower()
            for node in ast.walk(current.test)
        ):
            return True
        current = parent_of(current)
    return False
