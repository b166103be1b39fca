from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_CLEARED, _USED, _ADDED = "cleared or never stepped", "used", "added to used ones"
_MAY_CLEAR = (vocabulary.CLEAR, vocabulary.PERHAPS_CLEAR, vocabulary.ESCAPE, vocabulary.BUILT)
_TABLE = Automaton(
    start=_CLEARED,
    moves={
        **{(state, event): _CLEARED for state in (_USED, _ADDED) for event in _MAY_CLEAR},
        (_USED, vocabulary.BACKWARD): _ADDED,
        **{(state, vocabulary.STEP): _USED for state in (_CLEARED, _ADDED)},
    },
    wrong={(_ADDED, vocabulary.STEP): "missing"},
    on_every_path=False,  # one is enough, as nothing on any path of the loop may clear: see `_clears_within`
)


class MissingZeroGrad(Rule):
    """## What it does

    Reports an optimizer that is stepped in a loop in which gradients are computed and never cleared.

    ## Why is this bad?

    `backward()` adds to `.grad`. Without `zero_grad()` each step uses the sum of the gradients of all batches so far,
    most of them of weights that no longer exist: training slows down, oscillates or diverges, and nothing is raised.
    Where the call stands does not matter: before the forward pass, before `backward()` or after `step()`.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
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

    Gradient accumulation: any clearing on a path of the cycle is enough. Also clearing by the module
    (`model.zero_grad()`) or by hand (`p.grad = None`), optimizers that step with a closure, loops that a framework
    owns, `torch.autograd.grad`, and optimizers that are given to code that cannot be seen.

    ## References

    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html)
    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "TL201"
    name = "missing-zero-grad"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Gradients of all earlier iterations are added to those of this one."

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            classify = found.events_of(optimizer)
            for violation in violations(_TABLE, found.flow_for(classify), classify):
                loop = _cycle(found, violation)
                if loop is not None and not _clears_within(found, classify, loop):
                    yield self._diagnosis(optimizer, violation, loop, found)
                    break

    def _diagnosis(self, optimizer: Optimizer, violation: Violation, loop: Loop, found: Training) -> Diagnosis:
        step = violation.action
        name = optimizer.ref.shown
        related: list[tuple[ast.AST, str]] = []
        backward = violation.last(vocabulary.BACKWARD)
        if backward is not None:
            related.append((backward.node, "gradients are added here"))
        related.append((loop.node, "in each iteration of this loop"))
        cleared = _cleared_before(found, optimizer, loop)
        if cleared is not None:
            related.append((cleared.node, "cleared here, but not in the loop"))
        call = ast.unparse(step.node)
        message = (
            f"`{call}` also uses the gradients of all earlier iterations: nothing in the loop clears those of `{name}`."
        )
        title = f"Insert `{ast.unparse(_stepped_expression(found, step))}.zero_grad()`"
        fixes = [FixPlan(title, "unsafe", lambda edit: _insert(edit, step, optimizer, found))]
        return self.found(step.node, message, related=related, fixes=fixes)


def _cycle(found: Training, violation: Violation) -> Loop | None:
    """The innermost loop that holds this step, the one before it, and the backward pass between them."""
    between = (violation.last(vocabulary.STEP), violation.last(vocabulary.BACKWARD))
    around = [{loop.node for loop in found.places[action].loops} for action in between if action is not None]
    return next((loop for loop in reversed(violation.loops) if all(loop.node in nodes for nodes in around)), None)


def _clears_within(found: Training, classify: Callable[[Action], tuple[str, ...]], loop: Loop) -> bool:
    """Whether anything in the loop may clear, in whatever phase of it."""
    clears = (a for a in found.actions if any(event in _MAY_CLEAR for event in classify(a)))
    return any(loop.node in {item.node for item in found.places[action].loops} for action in clears)


def _cleared_before(found: Training, optimizer: Optimizer, loop: Loop) -> Action | None:
    """A clear of the optimizer outside the loop."""
    classify = found.events_of(optimizer)
    clears = (action for action in found.actions if vocabulary.CLEAR in classify(action))
    return next((a for a in clears if loop.node not in {item.node for item in found.places[a].loops}), None)


def _insert(edit: Editor, step: Action, optimizer: Optimizer, found: Training) -> None:
    """Clear before what computes the gradients in the block of the step; where that is elsewhere (a step in every
    k-th iteration), after the step."""
    statement = edit.statement_of(step.node)
    text = f"{edit.source(_stepped_expression(found, step))}.zero_grad()"
    block = edit.block_of(statement)
    begin = 0
    for action in found.actions:
        other = found.stepped(action)
        position = found.position_in(block, action)
        if other is not None and other.path != optimizer.path and position is not None:
            begin = max(begin, position + 1 if position < block.index(statement) else 0)
    positions = [found.position_in(block, action) for action in found.actions if _computes(found, action)]
    candidates = [position for position in positions if position is not None and position >= begin]
    first = block[min(candidates)] if candidates else statement
    if first is statement or block.index(first) > block.index(statement):
        edit.insert_statement_after(statement, text)
    else:
        edit.insert_statement_before(first, text)


def _computes(found: Training, action: Action) -> bool:
    """Whether an action is a forward or backward pass, or may hold one."""
    unknown = action.verb == "?" and action.receiver is not None and action.receiver.path[:1] in ("%", "$", "s")
    return action.verb == "()" or unknown or is_backward(action) or found.is_attribute_call(action)


def _stepped_expression(found: Training, step: Action) -> ast.expr:
    """How the code of the step names the optimizer."""
    assert isinstance(step.node, ast.Call)
    if step.receiver is not None and not found.is_scaler(step.receiver) and isinstance(step.node.func, ast.Attribute):
        return step.node.func.value
    return step.node.args[0]
