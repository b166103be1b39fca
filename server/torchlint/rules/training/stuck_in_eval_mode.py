from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.training import modes
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.modes import Forwards, is_from_elsewhere, is_without_grad, mode_dependent_layer
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_ANY, _TRAINING, _LEFT, _FROZEN = "unknown", "training", "left in evaluation mode", "in evaluation mode from the start"
_TRAINS, _EVALUATES = "trains", "evaluates"
_TABLE = Automaton(
    start=_ANY,
    moves={
        **{(state, modes.TRAIN): _ANY for state in (_FROZEN, _LEFT)},
        **{(_ANY, event): _TRAINING for event in (_TRAINS, _EVALUATES)},
        (_ANY, modes.EVAL): _FROZEN,
        (_TRAINING, modes.EVAL): _LEFT,
        **{(state, modes.UNKNOWN): _ANY for state in (_TRAINING, _LEFT, _FROZEN)},
    },
    wrong={(_LEFT, _TRAINS): "stuck"},
    on_every_path=False,
)


class StuckInEvalMode(Rule):
    """## What it does

    Reports training that goes on in evaluation mode: an evaluation inside the training loop called `eval()`, and
    nothing calls `train()` before the next backward pass.

    ## Why is this bad?

    From the first evaluation on, dropout is off and batch normalization no longer updates its statistics: the model
    trains without the regularisation that it was given. Only the first part of the training is as meant.

    ## Example

    ```python
    import torch
    from torch import nn


    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return sum(model(x).mean().item() for x in loader)


    def train(loader, val_loader):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            if step % 500 == 0:
                evaluate(model, val_loader)
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return sum(model(x).mean().item() for x in loader)


    def train(loader, val_loader):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            if step % 500 == 0:
                evaluate(model, val_loader)
                model.train()
    ```

    ## Exceptions

    Modes that the called function or the head of the epoch restores, models in evaluation mode from the start, parts
    of a model that are frozen, models without layers that depend on the mode, and loops that a framework owns. Where
    the layers of the model cannot be seen the finding is a warning.

    ## References

    - [Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval)
    """

    code = "TL208"
    name = "stuck-in-eval-mode"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "After the first evaluation, training goes on without dropout and batch statistics."

    @on_flow("eval", "train", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        found = training_of(semantics, root)
        if not found.trains or Duty.MODES in owned_duties(semantics, root.function):
            return
        told: set[ast.AST] = set()
        for run in modes.forwards(found):
            layer = mode_dependent_layer(semantics, run.module.kind)
            if not layer and not is_from_elsewhere(semantics, run.module):
                continue
            trained = {action for action in found.actions if is_backward(action) and _is_trained(found, run, action)}
            events = modes.mode_events(found, run.module)

            def classify(action: Action) -> tuple[str, ...]:
                if action in trained:  # noqa: B023
                    return (_TRAINS,)
                event = events(action)  # noqa: B023
                apart = event == (modes.EVAL,) and _evaluates_apart(found, run, action)  # noqa: B023
                return (_EVALUATES, *event) if apart else event

            for violation in violations(_TABLE, found.flow_for(classify), classify) if trained else ():
                evaluation = violation.last(modes.EVAL)
                loop = _carried_by(found, run, evaluation, violation) if evaluation is not None else None
                if evaluation is None or loop is None or _is_restored(found, events, loop):
                    continue
                if not layer and found.actions.index(evaluation) < found.actions.index(violation.action):
                    continue  # all of the training is in this mode, and perhaps no layer minds
                if evaluation.node not in told:
                    told.add(evaluation.node)
                    yield self._diagnosis(found, run, evaluation, violation.action, loop, layer)

    def _diagnosis(
        self, found: Training, run: Forwards, evaluation: Action, backward: Action, loop: Loop, layer: str
    ) -> Diagnosis:
        place = _in_loop(found, evaluation, loop)
        name = run.module.shown
        what = f"without its `{layer}`" if layer else "without dropout and batch statistics, if it has any"
        first = found.actions.index(evaluation) < found.actions.index(backward)
        since = "it" if first else "from the next iteration on it"
        message = f"`{name}` stays in evaluation mode: {since} is trained {what}."
        related: list[tuple[ast.AST, str]] = [(backward.node, "training goes on here")]
        if place is not evaluation.node:
            related.insert(0, (evaluation.node, "evaluation mode since here"))
        call = next((c for c in run.calls if enclosing_function(c.node) is enclosing_function(loop.node)), None)
        fixes = []
        called = ast.unparse(call.node.func) if call is not None and isinstance(call.node, ast.Call) else ""
        if not called and name.startswith("self.") and _in_one_class(place, evaluation.node):
            called = name
        if called:
            title = f"Insert `{called}.train()`"
            fixes.append(FixPlan(title, "unsafe", lambda edit: _insert(edit, called, place, evaluation, loop)))
        return self.found(place, message, related=related, fixes=fixes, severity=None if layer else Severity.WARNING)


def _is_trained(found: Training, run: Forwards, backward: Action) -> bool:
    """Whether the module is run, with gradients, in the innermost loop of a backward pass that some step uses: without
    one the gradients are for something else, as those of an adversarial example."""
    loops = found.places[backward].loops
    around = {loop.node for loop in loops}
    stepped = any(
        action.verb == "step" and not around.isdisjoint(loop.node for loop in found.places[action].loops)
        for action in found.actions
    )
    return stepped and any(
        loops[-1].node in {loop.node for loop in found.places[call].loops}
        and not is_without_grad(found.semantics, found.places[call].contexts)
        for call in run.calls
    )


def _evaluates_apart(found: Training, run: Forwards, switch: Action) -> bool:
    """Whether a module is switched by a function that evaluates it, and does nothing else: the mode is left by chance,
    also where that comes before the first backward pass."""
    calls = found.places[switch].calls
    inside = [action for action in found.actions if calls and found.places[action].calls[: len(calls)] == calls]
    return not any(map(is_backward, inside)) and any(
        action in run.calls and is_without_grad(found.semantics, found.places[action].contexts) for action in inside
    )


def _carried_by(found: Training, run: Forwards, evaluation: Action, violation: Violation) -> Loop | None:
    """The innermost loop that carries the mode from an evaluation to the backward pass of the next iteration, or the
    one that trains after it.

    None where the evaluation comes first in the iteration: a loop over phases, each with its mode.
    """
    first = found.actions.index(evaluation) < found.actions.index(violation.action)
    if first and not _evaluates_apart(found, run, evaluation):
        return None
    around = {loop.node for loop in found.places[evaluation].loops}
    loop = next((loop for loop in reversed(violation.loops) if loop.node in around), None)
    return loop if loop is not None or not first else next(iter(found.places[violation.action].loops), None)


def _is_restored(found: Training, events: Callable[[Action], tuple[str, ...]], loop: Loop) -> bool:
    """Whether anything in the loop may put the module back into training mode, under whatever condition."""
    return any(
        events(action)[:1] in ((modes.TRAIN,), (modes.UNKNOWN,))
        for action in found.actions
        if loop.node in {item.node for item in found.places[action].loops}
    )


def _in_loop(found: Training, evaluation: Action, loop: Loop) -> ast.AST:
    """What leaves the mode, in the function that holds the loop: a call of a function that evaluates, or ``eval()``."""
    function = enclosing_function(loop.node)
    calls = (call.node for call in found.places[evaluation].calls)
    return next((call for call in calls if enclosing_function(call) is function), evaluation.node)


def _in_one_class(one: ast.AST, other: ast.AST) -> bool:
    """Whether two places are in methods of one class, so that ``self`` is the same object in both."""
    functions = enclosing_function(one), enclosing_function(other)
    classes = {enclosing_class(function) for function in functions if function is not None}
    return None not in functions and None not in classes and len(classes) == 1


def _insert(edit: Editor, module: str, place: ast.AST, evaluation: Action, loop: Loop) -> None:
    """After the call that evaluates; where the evaluation is written out, at the head of the loop."""
    text = f"{module}.train()"
    if place is not evaluation.node:
        edit.insert_statement_after(edit.statement_of(place), text)
    else:
        assert isinstance(loop.node, ast.For | ast.AsyncFor | ast.While)
        edit.insert_statement_before(loop.node.body[0], text)
