from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_clip
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import statement_of
from torchlint.semantics.typestate import NEXT_ITERATION, Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_UNKNOWN, _COMPUTED, _USED, _GONE, _CLEARED = "unknown", "computed", "used", "used and cleared", "cleared"
_CLIP = "clip"
_TABLE = Automaton(
    start=_UNKNOWN,
    moves={
        **{(state, vocabulary.BACKWARD): _COMPUTED for state in (_UNKNOWN, _USED, _GONE, _CLEARED)},
        (_COMPUTED, vocabulary.STEP): _USED,
        (_USED, vocabulary.CLEAR): _GONE,
        (_USED, NEXT_ITERATION): _CLEARED,
        (_GONE, NEXT_ITERATION): _CLEARED,
        **{(state, vocabulary.CLEAR): _CLEARED for state in (_UNKNOWN, _COMPUTED)},
        **{
            (state, event): _UNKNOWN
            for state in (_COMPUTED, _USED, _GONE, _CLEARED)
            for event in (vocabulary.PERHAPS_CLEAR, vocabulary.ESCAPE, vocabulary.WRITE, vocabulary.BUILT)
        },
    },
    wrong={
        (_USED, _CLIP): "after the step",
        (_GONE, _CLIP): "after the step",
        (_CLEARED, _CLIP): "before backward",
    },
    neutral=frozenset((_UNKNOWN,)),
)


class MisplacedGradientClipping(Rule):
    """## What it does

    Reports gradient clipping after the step that it was meant for, or before `backward()` has computed gradients.

    ## Why is this bad?

    After the step the gradients have been used; before `backward()` there are none. Either way nothing is clipped: the
    one large gradient that clipping is there for goes into the weights as it is.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    ```

    ## Exceptions

    Clipping for another optimizer, calls whose result is used (a norm that is only logged), and gradients of the
    iteration before that are clipped and used at the head of the loop.

    ## References

    - [torch.nn.utils.clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    code = "TL213"
    name = "misplaced-gradient-clipping"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Gradients are clipped when they have been used already, or before there are any."

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            events = found.events_of(optimizer)
            clips = {action for action in found.actions if _is_for(found, optimizer, action)}

            def classify(action: Action) -> tuple[str, ...]:
                return (_CLIP,) if action in clips else events(action)  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify) if clips else ():
                step = _step_of(found, optimizer, violation)
                if step is not None:
                    yield self._diagnosis(violation, step, found)

    def _diagnosis(self, violation: Violation, step: Action, found: Training) -> Diagnosis:
        clip = violation.action
        by_hand = _clamping_loop(found, clip)
        clips = _whole(by_hand.node if by_hand is not None else clip.node)
        shown = f"`{ast.unparse(step.node)}`"
        related: list[tuple[ast.AST, str]] = []
        if violation.problem == "after the step":
            message = f"Gradients are clipped after {shown} has used them."
            related.append((step.node, "the step uses them here"))
        else:
            message = f"Gradients are clipped before `backward()` computes those that {shown} uses."
            cleared = violation.last(vocabulary.CLEAR)
            if cleared is not None:
                related.append((cleared.node, "cleared here"))
            related.append((step.node, "the step they are meant for"))
        fix = FixPlan(f"Move it before {shown}", "unsafe", lambda edit: _move(edit, clips, step))
        block = found.semantics.block_of(statement_of(step.node))
        movable = clips in block and not found.is_scaler(step.receiver)
        return self.found(clip.node, message, related=related, fixes=[fix] if movable else [])


def _is_for(found: Training, optimizer: Optimizer, clip: Action) -> bool:
    """Whether a call clips the gradients of this optimizer and does nothing else."""
    if not isinstance(parent_of(clip.node), ast.Expr) or not clip.arguments:
        return False
    loop = _clamping_loop(found, clip)
    if loop is None and not is_clip(clip):
        return False
    if len(found.optimizers) == 1:
        return True
    given = loop.iterable if loop is not None else clip.arguments[0]
    module = given.path.partition(".parameters()")[0] if given is not None else ""
    return bool(module) and optimizer.modules == frozenset((module,))


def _clamping_loop(found: Training, clip: Action) -> Loop | None:
    """The loop that clips by hand: ``for p in net.parameters(): p.grad.data.clamp_(-1, 1)``."""
    match clip.node:
        case ast.Call(func=ast.Attribute(attr="clamp_" | "clip_", value=ast.Attribute() as clamped)):
            gradient = clamped.value if clamped.attr == "data" else clamped
        case _:
            return None
    loops = found.places[clip].loops
    match gradient, loops[-1].node if loops else None:
        case (
            ast.Attribute(attr="grad", value=ast.Name(id=one)),
            ast.For(target=ast.Name(id=other), iter=ast.Call(func=ast.Attribute(attr="parameters"))),
        ) if one == other:
            return loops[-1]
        case _:
            return None


def _step_of(found: Training, optimizer: Optimizer, violation: Violation) -> Action | None:
    """The step that the clipping was meant for: the last one, or the next one in the same loop, after a backward."""
    if violation.problem == "after the step":
        return violation.last(vocabulary.STEP)
    events = found.events_of(optimizer)
    later = found.actions[found.actions.index(violation.action) + 1 :]
    backward = False
    for action in later:
        backward = backward or vocabulary.BACKWARD in events(action)
        if vocabulary.STEP in events(action):
            return action if backward and _same_loops(found, action, violation.action) else None
    return None


def _same_loops(found: Training, one: Action, other: Action) -> bool:
    by_hand = _clamping_loop(found, other)
    around = [loop.node for loop in found.places[other].loops if loop is not by_hand]
    return [loop.node for loop in found.places[one].loops] == around


def _whole(clips: ast.AST) -> ast.stmt:
    """The statement that clips, with the test that it stands under: ``if max_norm > 0: clip_grad_norm_(...)``."""
    statement = statement_of(clips)
    match parent_of(statement):
        case ast.If(body=[only], orelse=[]) as test if only is statement:
            return test
        case _:
            return statement


def _move(edit: Editor, clips: ast.stmt, step: Action) -> None:
    edit.move_before(clips, edit.statement_of(step.node))
