from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop, Ref
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, nodes_within, statement_of
from torchlint.semantics.scopes import last_name
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_START, _EARLY, _STEPPED = "start", "scheduler first", "optimizer first"
_TABLE = Automaton(
    start=_START,
    moves={
        (_START, "schedule"): _EARLY,
        **{(state, "step"): _STEPPED for state in (_START, _EARLY)},
        **{(state, "unknown"): _STEPPED for state in (_START, _EARLY)},
    },
    wrong={(_EARLY, "step"): "early"},
)
#: Unknown functions that are given the optimizer and by their name step it.
_TRAINS = regex(r"train|fit|one_epoch|run_epoch", re.IGNORECASE)


class SchedulerBeforeOptimizer(Rule):
    """## What it does

    Reports a learning rate scheduler of torch that is stepped before its optimizer in a training loop.

    ## Why is this bad?

    The first value of the schedule is skipped: warm-up starts one step late in value, and each drop of the rate comes
    one epoch early. Since 1.1 torch warns of it at run time: "Detected call of `lr_scheduler.step()` before
    `optimizer.step()`".

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(90):
            scheduler.step()
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(90):
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
            scheduler.step()
    ```

    ## Exceptions

    Schedulers that are not torch's, `step(epoch)` with the epoch given, schedules that are only plotted or
    fast-forwarded when training is resumed, and projects that allow torch older than 1.1.

    ## References

    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "TL204"
    name = "scheduler-before-optimizer"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The first learning rate of the schedule is skipped."

    @on_flow("step")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is not None and unit.torch.may_be_below("1.1"):
            return
        found = training_of(unit.semantics, root)
        if Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for scheduler in _schedulers(found):
            owner = _optimizer_given(found, scheduler)
            events = {action: _event(found, scheduler, owner, action) for action in found.actions}

            def classify(action: Action) -> tuple[str, ...]:
                return (events[action],) if events[action] else ()  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                early = violation.last("schedule")
                loop = _cycle(found, early, violation) if early is not None else None
                if early is not None and loop is not None and not _only_records(found, loop):
                    yield self._diagnosis(early, violation.action, found)
                    break

    def _diagnosis(self, early: Action, step: Action, found: Training) -> Diagnosis:
        call = ast.unparse(early.node)
        assert isinstance(step.node, ast.Call)
        shown = ast.unparse(step.node.func)
        message = f"`{call}` comes before `{shown}()` in the loop: the first learning rate of the schedule is skipped."
        statement = statement_of(early.node)
        position = found.position_in(found.semantics.block_of(statement), step)
        fix = FixPlan(
            f"Move `{call}` behind the optimizer's step", "unsafe", lambda edit: _move(edit, early, step, found)
        )
        related = [(step.node, "the optimizer is stepped here")]
        return self.found(early.node, message, related=related, fixes=[fix] if position is not None else [])


def _schedulers(found: Training) -> Iterator[Ref]:
    """The schedulers of torch that are stepped in a flow, each once."""
    seen: set[str] = set()
    for action in found.actions:
        receiver = action.receiver
        if action.verb != "step" or receiver is None or receiver.kind is None or receiver.path in seen:
            continue
        if receiver.path and receiver.kind.what is What.SCHEDULER and receiver.kind.origin.startswith("torch."):
            seen.add(receiver.path)
            yield receiver


def _optimizer_given(found: Training, scheduler: Ref) -> frozenset[ast.Call]:
    """The calls that built the optimizer which a scheduler was given; empty where that is not known."""
    given = (argument(build, 0, "optimizer") for build in constructions(found.semantics, scheduler.node).calls)
    return frozenset(call for item in given for call in constructions(found.semantics, item).calls)


def _event(found: Training, scheduler: Ref, owner: frozenset[ast.Call], action: Action) -> str:
    receiver = action.receiver
    if action.verb == "step" and receiver is not None and receiver.path == scheduler.path:
        return "" if action.arguments else "schedule"
    stepped = found.stepped(action)
    if stepped is not None:
        single = len(found.optimizers) == 1
        return "step" if single or not owner.isdisjoint(constructions(found.semantics, stepped.node).calls) else ""
    if action.verb == "...":
        return "unknown"
    gives = any(
        item.kind is not None
        and item.kind.what is What.OPTIMIZER
        and not owner.isdisjoint(constructions(found.semantics, item.node).calls)
        for item in action.arguments
    )
    function = action.node.func if isinstance(action.node, ast.Call) else None
    name = last_name(function)
    return "step" if gives and _TRAINS.search(name) else ""


def _cycle(found: Training, early: Action, violation: Violation) -> Loop | None:
    """The innermost loop that holds both steps."""
    around = {loop.node for loop in found.places[early].loops}
    return next((loop for loop in reversed(violation.loops) if loop.node in around), None)


def _only_records(found: Training, loop: Loop) -> bool:
    """Whether a loop without a backward pass looks at learning rates: a schedule that is plotted."""
    if found.trains or found.semantics.module.mentions_call("backward"):
        return False
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("get_last_lr", "get_lr", "param_groups")
        for node in nodes_within(loop.node, ast.Attribute)
    )


def _move(edit: Editor, early: Action, step: Action, found: Training) -> None:
    statement = edit.statement_of(early.node)
    block = edit.block_of(statement)
    position = found.position_in(block, step)
    assert position is not None
    edit.move_after(statement, block[position])
