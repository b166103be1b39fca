from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.scaling import Scaling, is_handed, scaling_of
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_READY, _STEPPED, _AGAIN = "ready", "stepped", "stepped and computed again"
_TABLE = Automaton(
    start=_READY,
    moves={
        (_READY, "step"): _STEPPED,
        (_STEPPED, "backward"): _AGAIN,
        (_AGAIN, "step"): _STEPPED,
        **{(state, "update"): _READY for state in (_STEPPED, _AGAIN)},
    },
    wrong={(_AGAIN, "step"): "no update"},
    on_every_path=False,  # nothing on any path of the loop may update: see `_updates_within`
)
#: What an action of a scaler is for this rule; the others leave it as it is.
_OWN = {
    Scaling.SCALED_BACKWARD: "backward",
    Scaling.STEP: "step",
    **dict.fromkeys((Scaling.UPDATE, Scaling.LOAD, Scaling.UNSEEN), "update"),
}


class ScalerWithoutUpdate(Rule):
    """## What it does

    Reports `scaler.step(optimizer)` in a loop in which nothing calls `scaler.update()`.

    ## Why is this bad?

    `update()` ends the step of a `GradScaler` and adjusts its scale. Without it the second `scaler.step(optimizer)`
    raises "step() has already been called since the last update()".

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
            scaler.step(optimizer)
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

    A scaler that is given to a helper, and objects that are no `GradScaler`.

    ## References

    - [GradScaler.update](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update)
    - [Typical mixed precision training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    """

    code = "TL703"
    name = "scaler-without-update"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The second step of a gradient scaler raises when nothing updated it."

    @on_flow("scale", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.scaled or Duty.SCALING in owned_duties(unit.semantics, root.function):
            return
        told: set[ast.AST] = set()
        for path in dict.fromkeys(scaler.path for scaler in found.scaled.values() if scaler.path):
            events = {action: _event(found, path, action) for action in found.actions}
            for optimizer in found.optimizers:
                own = {
                    action: (event,) if event and (event != "step" or _given(action) == optimizer.path) else ()
                    for action, event in events.items()
                }
                classify = own.__getitem__
                for violation in violations(_TABLE, found.flow_for(classify), classify):
                    loop = _cycle(found, violation)
                    if loop is not None and loop.node not in told and not _updates_within(found, events, loop):
                        told.add(loop.node)
                        yield self._diagnosis(violation.action, loop, events)

    def _diagnosis(self, step: Action, loop: Loop, events: dict[Action, str]) -> Diagnosis:
        assert step.receiver is not None
        scaler = step.receiver.shown
        message = (
            f"`{ast.unparse(step.node)}` raises in the second iteration: nothing in the loop calls `{scaler}.update()`."
        )
        stepped = {_given(action) for action, event in events.items() if event == "step"}
        # A second update without a step between raises as well: the one that comes too late goes.
        late = [action.node for action, event in events.items() if event == action.verb == "update"]
        title = f"{'Move' if late else 'Insert'} `{scaler}.update()`" + (" into the loop" if late else "")
        fix = FixPlan(title, "unsafe", lambda edit: _insert(edit, step.node, late))
        related = [(loop.node, "in each iteration of this loop")]
        offered = len(stepped) == 1 and len(late) < 2
        return self.found(step.node, message, related=related, fixes=[fix] if offered else [])


def _given(step: Action) -> str:
    return step.arguments[0].path


def _event(found: Training, scaler: str, action: Action) -> str:
    seen = scaling_of(found, action)
    if seen.scaler is not None and seen.scaler.path == scaler:
        return "" if seen.what is Scaling.STEP and seen.optimizer is None else _OWN.get(seen.what, "")
    known = action.verb == "..." or action.verb.endswith("GradScaler") or is_handed(action, scaler)
    return "update" if known else ""


def _cycle(found: Training, violation: Violation) -> Loop | None:
    """The innermost loop that holds this step, the one before it, and the backward pass between them."""
    between = (violation.last("step"), violation.last("backward"))
    around = [{loop.node for loop in found.places[action].loops} for action in between if action is not None]
    return next((loop for loop in reversed(violation.loops) if all(loop.node in nodes for nodes in around)), None)


def _updates_within(found: Training, events: dict[Action, str], loop: Loop) -> bool:
    updates = (action for action, event in events.items() if event == "update")
    return any(loop.node in {item.node for item in found.places[action].loops} for action in updates)


def _insert(edit: Editor, step: ast.AST, late: list[ast.AST]) -> None:
    assert isinstance(step, ast.Call)
    assert isinstance(step.func, ast.Attribute)
    for update in late:
        statement = edit.statement_of(update)
        same = enclosing_function(update) is enclosing_function(step)
        if not isinstance(statement, ast.Expr) or statement.value is not update or not same:
            raise FixImpossible("the update cannot move")
        edit.remove_statement(statement)
    edit.insert_statement_after(edit.statement_of(step), f"{edit.source(step.func.value)}.update()")
