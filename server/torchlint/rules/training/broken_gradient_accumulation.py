from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.frozen import dataclass
from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.accumulation import Guard, guards_of
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_foreign_backward
from torchlint.idioms.training.gradient_graph import loss_of
from torchlint.idioms.training.reductions import is_batch_mean
from torchlint.idioms.training.trainer_losses import ignored_items
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_class, on_flow
from torchlint.semantics.classes import ClassView
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import contains, nodes_within
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import part_of

#: Optimizers whose step does not depend on the scale of the gradients.
_SCALE_FREE = regex(r"Adam|RMSprop|Adagrad|Adadelta|Rprop|Lion|Muon|Adafactor", re.IGNORECASE)
#: What makes clearing and stepping conditional by itself.
_HELPERS = frozenset(("accumulate", "no_sync", "prepare"))
_SYNCS = "sync_gradients"


@dataclass(frozen=True, eq=False, slots=True)
class _Cycle:
    """A loop in which every backward pass runs in each iteration, and the steps of an optimizer in every k-th."""

    loop: Loop
    optimizer: Optimizer
    step: Action
    backward: Action
    guard: Guard
    clears: tuple[Action, ...]

    @property
    def every(self) -> ast.expr:
        assert self.guard.every is not None
        return self.guard.every


class BrokenGradientAccumulation(Rule):
    """## What it does

    Reports mistakes of gradient accumulation, where `optimizer.step()` runs in every `k`-th iteration:

    - the gradients are cleared in every iteration (error),
    - they are cleared at the head of each epoch, with those of a last group of less than `k` batches in them (hint),
    - the loss, a mean over the batch, is not divided by `k` (hint), and
    - `compute_loss` of a `Trainer` of transformers ignores `num_items_in_batch` (hint).

    ## Why is this bad?

    Cleared in every iteration, the gradients never add up: the step uses those of one batch of `k`, and the work for
    the others is thrown away. Without the division the gradients are `k` times those of one large batch, which is the
    same as a learning rate `k` times as high, and clips at another norm. A `Trainer` leaves the division to
    `compute_loss` where the model takes loss arguments, as most language models do.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer, k):
        for i, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets) / k
            loss.backward()
            if (i + 1) % k == 0:
                optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer, k):
        for i, (inputs, targets) in enumerate(loader):
            loss = criterion(model(inputs), targets) / k
            loss.backward()
            if (i + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Exceptions

    Backward passes that run only with the step (a generator trained in every k-th iteration), helpers that skip calls
    by themselves (`accelerator.accumulate`), losses that are summed or weighted in any way, gradients that are divided
    later, and, for the hint, optimizers whose step does not depend on the scale (Adam and its kind).

    ## References

    - [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "TL212"
    name = "broken-gradient-accumulation"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The step does not use the mean of the gradients of all its batches."

    @on_class()
    def check_trainer(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        parameter = ignored_items(view)
        if parameter is not None:
            message = (
                "`compute_loss` ignores `num_items_in_batch`: for a model that takes loss arguments the trainer does "
                "not divide, and the gradients of all accumulated batches are summed."
            )
            yield self.found(parameter, message, severity=Severity.HINT)

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        module = unit.semantics.module
        if module.mentions_any_call(_HELPERS) or module.reads_attribute(_SYNCS):
            return
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            cycle = _accumulation(found, optimizer)
            if cycle is None:
                continue
            lost = next((clear for clear in cycle.clears if _is_unconditional(found, clear, cycle)), None)
            if lost is not None:
                if not _between(found, cycle, lost):  # that is a step without gradients, another rule's
                    yield self._cleared(cycle, lost)
                continue
            wasted = next((clear for clear in _clears_outside(found, cycle) if _wastes(found, clear, cycle)), None)
            if wasted is not None and cycle.clears:
                yield self._wasted(cycle, wasted)
            if cycle.clears and _is_undivided(found, cycle):
                yield self._undivided(found, cycle)

    def _cleared(self, cycle: _Cycle, clear: Action) -> Diagnosis:
        call, step = ast.unparse(clear.node), ast.unparse(cycle.step.node)
        message = (
            f"`{call}` clears the gradients in every iteration: `{step}`, in every `{ast.unparse(cycle.every)}`-th, "
            "uses those of one batch only."
        )
        related: list[tuple[ast.AST, str]] = [
            (cycle.backward.node, "gradients are computed here"),
            (cycle.step.node, "used here, not in every iteration"),
        ]
        fix = FixPlan("Clear after the step", "unsafe", lambda edit: _move(edit, clear, cycle.step))
        return self.found(clear.node, message, related=related, fixes=[fix], severity=Severity.ERROR)

    def _wasted(self, cycle: _Cycle, clear: Action) -> Diagnosis:
        every = ast.unparse(cycle.every)
        message = (
            f"`{ast.unparse(clear.node)}` throws away the gradients of the last batches of an epoch, unless their "
            f"number is a multiple of `{every}`: `{ast.unparse(cycle.step.node)}` does not run for them."
        )
        related: list[tuple[ast.AST, str]] = [
            (cycle.step.node, f"a step for every `{every}` batches, and none for what is left"),
            (cycle.loop.node, "the batches of an epoch"),
        ]
        return self.found(clear.node, message, related=related, severity=Severity.HINT)

    def _undivided(self, found: Training, cycle: _Cycle) -> Diagnosis:
        every = ast.unparse(cycle.every)
        call = ast.unparse(cycle.backward.node)
        message = (
            f"The gradients of `{every}` batches are summed, not averaged: `{call}` does not divide the mean loss by "
            f"`{every}`."
        )
        fixes = []
        loss = _loss(found, cycle.backward)
        if loss is not None:
            fixes.append(
                FixPlan(f"Divide by `{every}`", "unsafe", lambda edit: edit.replace(loss, _divided(edit, loss, cycle)))
            )
        related = [(cycle.step.node, f"a step for every `{every}` batches")]
        return self.found(cycle.backward.node, message, related=related, fixes=fixes, severity=Severity.HINT)


def _accumulation(found: Training, optimizer: Optimizer) -> _Cycle | None:
    """The loop in which an optimizer accumulates, if all that it takes is seen."""
    classify = found.events_of(optimizer)
    steps = _with_event(found, classify, vocabulary.STEP)
    for step in steps:
        for loop in reversed(found.places[step].loops):
            cycle = _in_loop(found, optimizer, loop, steps, classify)
            if cycle is not None:
                return cycle
    return None


def _in_loop(
    found: Training,
    optimizer: Optimizer,
    loop: Loop,
    steps: list[Action],
    classify: Callable[[Action], tuple[str, ...]],
) -> _Cycle | None:
    if not isinstance(loop.node, ast.For | ast.AsyncFor | ast.While):
        return None
    guard = _kth(guards_of(found, steps[0], loop))
    if guard is None:
        return None
    guarded = (_kth(guards_of(found, step, loop)) for step in steps[1:])
    if any(item is None or item.key != guard.key for item in guarded):
        return None
    if any(
        other is not optimizer and loop.node in _loops(found, action)
        for other in found.optimizers
        for action in _with_event(found, found.events_of(other), vocabulary.STEP)
    ):
        return None
    backwards = [a for a in _with_event(found, classify, vocabulary.BACKWARD) if loop.node in _loops(found, a)]
    direct = [action for action in backwards if _innermost(found, action) is loop.node]
    if not direct or len(direct) != len(backwards) or any(_is_under(found, a, loop, guard) for a in backwards):
        return None
    clears = tuple(a for a in _with_event(found, classify, vocabulary.CLEAR) if loop.node in _loops(found, a))
    return _Cycle(loop, optimizer, steps[0], direct[-1], guard, clears)


def _with_event(found: Training, classify: Callable[[Action], tuple[str, ...]], event: str) -> list[Action]:
    return [action for action in found.actions if event in classify(action)]


def _loops(found: Training, action: Action) -> list[ast.AST]:
    return [item.node for item in found.places[action].loops]


def _innermost(found: Training, action: Action) -> ast.AST | None:
    loops = _loops(found, action)
    return loops[-1] if loops else None


def _kth(guards: tuple[Guard, ...] | None) -> Guard | None:
    return next((guard for guard in guards or () if guard.every is not None), None)


def _is_under(found: Training, action: Action, loop: Loop, guard: Guard) -> bool:
    """Whether an action runs under a modulo, be it the one of the step or another."""
    return any(item.every is not None or item.node is guard.node for item in guards_of(found, action, loop) or ())


def _is_unconditional(found: Training, clear: Action, cycle: _Cycle) -> bool:
    guards = guards_of(found, clear, cycle.loop)
    shared = {item.key for item in guards_of(found, cycle.backward, cycle.loop) or ()}
    return guards is not None and all(item.every is None and item.key in shared for item in guards)


def _between(found: Training, cycle: _Cycle, clear: Action) -> bool:
    """Whether a clear stands between the backward pass and the step."""
    order = {action: position for position, action in enumerate(found.actions)}
    return order[cycle.backward] < order[clear] < order[cycle.step]


def _clears_outside(found: Training, cycle: _Cycle) -> list[Action]:
    """The clears in the loop around that of an accumulation (the epochs), under no condition."""
    around = [item for item in found.places[cycle.step].loops if contains(item.node, cycle.loop.node)]
    epochs = [item for item in around if item.node is not cycle.loop.node][-1:]
    clears = _with_event(found, found.events_of(cycle.optimizer), vocabulary.CLEAR)
    return [
        clear
        for clear in clears
        for epoch in epochs
        if found.places[clear].loops and found.places[clear].loops[-1].node is epoch.node
        if guards_of(found, clear, epoch) == ()
    ]


def _wastes(found: Training, clear: Action, cycle: _Cycle) -> bool:
    """Whether a clear comes between the last batch of an epoch and the next step, where batches may be left over."""
    loop = cycle.loop.node
    test = found.semantics.value_of(cycle.guard.test)
    if not isinstance(loop, ast.For | ast.AsyncFor) or not _is_more_than_one(found, cycle.every):
        return False
    if test is None or any(isinstance(node, ast.BoolOp) for node in nodes_within(test, ast.BoolOp)):
        return False  # or it is the last batch
    batches = ast.unparse(loop.iter)
    counted = "range(" in batches and "len(" not in batches  # perhaps a multiple
    return cycle.guard.holds and not counted and "islice" not in batches


def _is_undivided(found: Training, cycle: _Cycle) -> bool:
    """Whether a mean loss is backpropagated as it is, and nothing makes up for it."""
    loss = _loss(found, cycle.backward)
    builds = cycle.optimizer.builds
    if loss is None or not builds or not is_batch_mean(found.semantics, loss):
        return False
    kinds = [ast.unparse(call.func) for call in builds]
    if any(_SCALE_FREE.search(kind) for kind in kinds):
        return False
    guards = [guards_of(found, clear, cycle.loop) or () for clear in cycle.clears]
    if not all(cycle.guard.key in {item.key for item in inner} for inner in guards):
        return False
    return _is_more_than_one(found, cycle.every) and not _is_scaled(cycle)


def _is_more_than_one(found: Training, every: ast.expr) -> bool:
    value = found.semantics.literal(every)
    return not isinstance(value, int) or value > 1


def _is_scaled(cycle: _Cycle) -> bool:
    """Whether the code around divides or multiplies by ``k``, or changes gradients or learning rates by hand."""
    text = re.escape(ast.unparse(cycle.every))
    scaled = regex(rf"/=?\s*\(?(float\()?{text}|\*=?\s*\(?{text}|1\.?0?\s*/|\.grad\b.*(div|mul|/|\*)")
    return any(scaled.search(part_of(node).text) for node in (cycle.loop.node, *cycle.optimizer.builds))


def _loss(found: Training, backward: Action) -> ast.expr | None:
    """What a backward pass is of, if the action is certainly one."""
    if is_foreign_backward(backward) or backward.verb != "backward" or not isinstance(backward.node, ast.Call):
        return None
    return loss_of(found.semantics, backward.node)


def _divided(edit: Editor, loss: ast.expr, cycle: _Cycle) -> str:
    inner = edit.source(loss) if isinstance(loss, ast.Name | ast.Call | ast.Attribute) else f"({edit.source(loss)})"
    every = ast.unparse(cycle.every)
    by = every if isinstance(cycle.every, ast.Name | ast.Attribute | ast.Constant | ast.Call) else f"({every})"
    text = f"{inner} / {by}"
    is_receiver = isinstance(cycle.backward.node, ast.Call) and (
        isinstance(cycle.backward.node.func, ast.Attribute) and cycle.backward.node.func.value is loss
    )
    return f"({text})" if is_receiver else text


def _move(edit: Editor, clear: Action, step: Action) -> None:
    """Take the clear away and put it behind the step, if both are statements of one function."""
    statement, target = edit.statement_of(clear.node), edit.statement_of(step.node)
    plain = isinstance(statement, ast.Expr) and statement.value is clear.node and isinstance(target, ast.Expr)
    if not plain or part_of(statement) is not part_of(target):
        raise FixImpossible("cleared or stepped elsewhere")
    edit.insert_statement_after(target, edit.source(statement))
    edit.remove_statement(statement)
