from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.accelerators import is_accelerator
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_foreign_backward, may_touch_gradients
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action
from torchlint.semantics.typestate import NEXT_ITERATION, Automaton, violations
from torchlint.semantics.unit import Root, Unit

_UNKNOWN, _COMPUTED, _CARRIED, _CLEARED = "unknown", "computed", "computed in an earlier iteration", "cleared"
_UNSEEN = "unseen code"
_TABLE = Automaton(
    start=_UNKNOWN,
    moves={
        **{(state, vocabulary.BACKWARD): _COMPUTED for state in (_UNKNOWN, _CARRIED, _CLEARED)},
        (_COMPUTED, vocabulary.CLEAR): _CLEARED,
        (_CARRIED, vocabulary.CLEAR): _UNKNOWN,
        (_COMPUTED, NEXT_ITERATION): _CARRIED,
        **{(state, vocabulary.STEP): _UNKNOWN for state in (_COMPUTED, _CARRIED, _CLEARED)},
        **{
            (state, event): _UNKNOWN
            for state in (_COMPUTED, _CARRIED, _CLEARED)
            for event in (vocabulary.PERHAPS_CLEAR, vocabulary.ESCAPE, vocabulary.WRITE, vocabulary.BUILT)
        },
        # What is called between clearing and step may put gradients back.
        (_CLEARED, _UNSEEN): _UNKNOWN,
    },
    wrong={(_CLEARED, vocabulary.STEP): "cleared"},
    neutral=frozenset((_UNKNOWN, _CARRIED)),
)


class ZeroGradBeforeStep(Rule):
    """## What it does

    Reports an optimizer step whose gradients were cleared after `backward()` computed them.

    ## Why is this bad?

    The step finds no gradients: the parameters do not change (with gradients set to zero instead of `None`, momentum
    and weight decay still move them). The loss is computed, nothing is learned, and nothing is raised.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Exceptions

    Clearing the gradients of another optimizer or another network, gradients that are computed or written again before
    the step, and a clear after which the iteration is left (`optimizer.zero_grad(); continue`).

    ## References

    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Optimizer.step](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html)
    """

    code = "TL202"
    name = "zero-grad-before-step"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The gradients are cleared before the step uses them."

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        accelerated = _accelerated(found)
        if not (found.trains or accelerated) or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            events = _with(accelerated, found.events_of(optimizer))
            if not violations(_TABLE, found.flow_for(events), events):
                continue  # unseen code only takes violations away

            def classify(action: Action) -> tuple[str, ...]:
                return events(action) or ((_UNSEEN,) if may_touch_gradients(action) else ())  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                clear = violation.last(vocabulary.CLEAR)
                if clear is not None:
                    yield self._diagnosis(violation.action, clear, violation.last(vocabulary.BACKWARD), found)

    def _diagnosis(self, step: Action, clear: Action, backward: Action | None, found: Training) -> Diagnosis:
        related: list[tuple[ast.AST, str]] = [(clear.node, "cleared here")]
        if backward is not None:
            related.insert(0, (backward.node, "gradients are computed here"))
        call = ast.unparse(step.node)
        message = f"`{call}` has no gradients to use: they were cleared after `backward()` computed them."
        title = (
            f"Move `{ast.unparse(clear.node)}` behind the step" if clear.verb == "zero_grad" else "Clear after the step"
        )
        fix = FixPlan(title, "unsafe", lambda edit: _move(edit, clear, step, found))
        return self.found(step.node, message, related=related, fixes=[fix])


def _accelerated(found: Training) -> frozenset[Action]:
    """The backward passes that an ``Accelerator`` runs; what it is given, it does not clear."""
    return frozenset(
        action
        for action in found.actions
        if is_foreign_backward(action)
        and action.receiver is not None
        and is_accelerator(found.semantics, action.receiver.node)
    )


def _with(
    backwards: frozenset[Action], events: Callable[[Action], tuple[str, ...]]
) -> Callable[[Action], tuple[str, ...]]:
    """The events of an optimizer, with further backward passes."""
    if not backwards:
        return events
    return lambda action: (vocabulary.BACKWARD,) if action in backwards else events(action)


def _move(edit: Editor, clear: Action, step: Action, found: Training) -> None:
    """Move the statement that clears, with a loop around it, behind the step of the same block."""
    target = edit.statement_of(step.node)
    block = edit.block_of(target)
    position = found.position_in(block, clear)
    if position is None or found.places[clear].calls != found.places[step].calls:
        raise FixImpossible("cleared elsewhere")
    edit.move_after(block[position], target)
