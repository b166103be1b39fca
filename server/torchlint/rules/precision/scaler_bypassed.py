from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.scaling import Scaling, scaling_of
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Ref
from torchlint.semantics.typestate import Automaton, violations
from torchlint.semantics.unit import Root, Unit

_PLAIN, _SCALED, _UNSCALED = "not scaled", "scaled", "unscaled"
_TABLE = Automaton(
    start=_PLAIN,
    moves={
        **{(state, "scaled backward"): _SCALED for state in (_PLAIN, _UNSCALED)},
        **{(state, "backward"): _PLAIN for state in (_SCALED, _UNSCALED)},
        (_SCALED, "unscale"): _UNSCALED,
        **{(state, "step"): _PLAIN for state in (_SCALED, _UNSCALED)},
    },
    wrong={(_SCALED, "step"): "bypassed"},
    neutral=frozenset((_PLAIN,)),
)
_BACKWARDS = {Scaling.SCALED_BACKWARD: "scaled backward", Scaling.BACKWARD: "backward"}


class ScalerBypassed(Rule):
    """## What it does

    Reports `optimizer.step()` after `scaler.scale(loss).backward()`: a step that the gradient scaler does not see.

    ## Why is this bad?

    The gradients are multiplied by the scale, 65536 at first. `scaler.step(optimizer)` divides by it and leaves the
    step out when gradients overflowed; `optimizer.step()` uses them as they are: the weights leap, or become NaN at the
    first overflow. With Adam, which divides by the size of gradients, it may go unseen for long.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = criterion(model(inputs), targets)
            scaler.scale(loss).backward()
            optimizer.step()
            scaler.update()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = criterion(model(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Exceptions

    Branches with and without mixed precision, gradients that were unscaled before, and helpers that have the scaler.

    ## References

    - [Typical mixed precision training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    - [GradScaler.step](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step)
    """

    code = "TL702"
    name = "scaler-bypassed"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The optimizer uses gradients that are still multiplied by the scale."

    @on_flow("scale", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.scaled or Duty.SCALING in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            events = {action: _event(found, optimizer, action) for action in found.actions}
            if "scaler step" in events.values():
                continue  # one branch for each precision

            def classify(action: Action) -> tuple[str, ...]:
                return (events[action],) if events[action] else ()  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                backward = violation.last("scaled backward")
                if backward is not None:
                    yield self._diagnosis(violation.action, backward, found.scaled[backward], found)

    def _diagnosis(self, step: Action, backward: Action, scaler: Ref, found: Training) -> Diagnosis:
        call = ast.unparse(step.node)
        message = f"`{call}` uses gradients that are still multiplied by the scale of `{scaler.shown}`."
        fix = FixPlan(
            f"Step with `{scaler.shown}.step(...)`",
            "unsafe",
            lambda edit: _step_with(edit, step.node, _spelled(backward, scaler, edit)),
        )
        same = found.places[step].calls == found.places[backward].calls
        related = [(backward.node, "scaled gradients are computed here")]
        return self.found(step.node, message, related=related, fixes=[fix] if same else [])


def _event(found: Training, optimizer: Optimizer, action: Action) -> str:
    seen = scaling_of(found, action)
    if seen.what in _BACKWARDS:
        return _BACKWARDS[seen.what]
    stepped = found.stepped(action)
    if stepped is not None and stepped.path == optimizer.path:
        return "scaler step" if seen.what is Scaling.STEP else "step"
    return "unscale" if seen.what in (Scaling.UNSCALE, Scaling.UNSEEN) else ""


def _spelled(backward: Action, scaler: Ref, edit: Editor) -> str:
    """The scaler as the code of the backward pass names it."""
    for node in ast.walk(backward.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "scale":
            return edit.source(node.func.value)
    return scaler.shown


def _step_with(edit: Editor, step: ast.AST, scaler: str) -> None:
    assert isinstance(step, ast.Call)
    assert isinstance(step.func, ast.Attribute)
    edit.replace(step, f"{scaler}.step({edit.source(step.func.value)})")
