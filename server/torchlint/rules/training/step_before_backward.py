from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import may_touch_gradients
from torchlint.idioms.training.vocabulary import training_of
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_flow
from torchlint.semantics.flow import Action
from torchlint.semantics.typestate import NEXT_ITERATION, Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_UNKNOWN, _COMPUTED, _CARRIED, _DROPPED = "unknown", "computed", "of the iteration before", "dropped"
_UNSEEN = "unseen code"
_TABLE = Automaton(
    start=_UNKNOWN,
    moves={
        **{(state, vocabulary.BACKWARD): _COMPUTED for state in (_UNKNOWN, _CARRIED, _DROPPED)},
        (_COMPUTED, NEXT_ITERATION): _CARRIED,
        (_CARRIED, vocabulary.CLEAR): _DROPPED,
        (_COMPUTED, vocabulary.CLEAR): _UNKNOWN,
        **{(state, vocabulary.STEP): _UNKNOWN for state in (_COMPUTED, _CARRIED, _DROPPED)},
        **{
            (state, event): _UNKNOWN
            for state in (_COMPUTED, _CARRIED, _DROPPED)
            for event in (vocabulary.PERHAPS_CLEAR, vocabulary.ESCAPE, vocabulary.WRITE, vocabulary.BUILT)
        },
        (_DROPPED, _UNSEEN): _UNKNOWN,
    },
    wrong={(_DROPPED, vocabulary.STEP): "before backward"},
    neutral=frozenset((_UNKNOWN,)),
)


class StepBeforeBackward(Rule):
    """## What it does

    Reports a loop that clears the gradients, steps, and only then calls `backward()`.

    ## Why is this bad?

    Each step finds the gradients just cleared: those that `backward()` computes at the end of an iteration are thrown
    away at the start of the next. The parameters never change, and nothing is raised.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            optimizer.step()
            loss.backward()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    Steps that use the gradients of the iteration before, with no clearing in between, and code in which a branch does
    it in the right order.

    ## References

    - [Taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL203"
    name = "step-before-backward"
    level = Level.ERROR
    fix = FixKind.NONE
    summary = "Every step finds its gradients cleared, and those computed later are thrown away."

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            events = found.events_of(optimizer)
            if not violations(_TABLE, found.flow_for(events), events):
                continue  # unseen code only takes violations away

            def classify(action: Action) -> tuple[str, ...]:
                return events(action) or ((_UNSEEN,) if _is_unseen(action) else ())  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                yield self._diagnosis(violation)

    def _diagnosis(self, violation: Violation) -> Diagnosis:
        step = violation.action
        message = (
            f"`{ast.unparse(step.node)}` has no gradients to use: they are cleared before it and computed after it."
        )
        related: list[tuple[ast.AST, str]] = []
        clear, backward = violation.last(vocabulary.CLEAR), violation.last(vocabulary.BACKWARD)
        if clear is not None:
            related.append((clear.node, "cleared here"))
        if backward is not None:
            related.append((backward.node, "computed here, after the step"))
        return self.found(step.node, message, related=related)


def _is_unseen(action: Action) -> bool:
    """Whether an action may compute gradients out of sight; calling an object that is a variable is a forward pass."""
    if action.verb == "?" and action.receiver is not None and action.receiver.path[:1] in ("%", "$", "s"):
        return False
    return may_touch_gradients(action)
