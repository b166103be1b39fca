from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Applicability
from torchlint.fixes.editor import Editor
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_clip
from torchlint.idioms.training.scaling import Scaling, scaling_of
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Ref, is_within
from torchlint.semantics.nodes import enclosing_function, nodes_within, statement_of
from torchlint.semantics.typestate import Automaton, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_PLAIN, _SCALED, _UNSCALED, _CLIPPED = "not scaled", "scaled", "unscaled", "clipped while scaled"
_TABLE = Automaton(
    start=_PLAIN,
    moves={
        **{(state, "scaled backward"): _SCALED for state in (_PLAIN, _UNSCALED)},
        **{(state, "backward"): _PLAIN for state in (_SCALED, _UNSCALED, _CLIPPED)},
        **{(state, "unscale"): _UNSCALED for state in (_PLAIN, _SCALED)},
        (_SCALED, "clip"): _CLIPPED,
        **{(state, "done"): _PLAIN for state in (_SCALED, _UNSCALED, _CLIPPED)},
    },
    wrong={(_CLIPPED, "step"): "scaled"},
    # On a path without mixed precision, or without clipping, there is nothing to unscale.
    neutral=frozenset((_PLAIN, _SCALED)),
)


class ClipBeforeUnscale(Rule):
    """## What it does

    Reports gradient clipping between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` without
    `scaler.unscale_(optimizer)` before it.

    ## Why is this bad?

    At that point the gradients are still multiplied by the scale of the `GradScaler`, 65536 at first. A threshold of
    1.0 then clips every gradient to a norm of 1/65536: training all but stops, or its speed follows the scale.

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
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
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
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Exceptions

    Gradients that a helper unscales, clipping under a test of `scaler.is_enabled()`, and objects that are no
    `GradScaler`.

    ## References

    - [Gradient clipping with a GradScaler](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    """

    code = "TL701"
    name = "clip-before-unscale"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "Gradients are clipped while they are still multiplied by the scale."

    @on_flow("scale", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.scaled or Duty.SCALING in owned_duties(unit.semantics, root.function):
            return
        scaled = [item for item in found.optimizers if item.path in _stepped_by_scaler(found)]
        told: set[ast.AST] = set()
        for optimizer in scaled:
            known = {action: _events(found, optimizer, len(scaled), action) for action in found.actions}

            def classify(action: Action) -> tuple[str, ...]:
                return known[action]  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                clip, backward = violation.last("clip"), violation.last("scaled backward")
                if clip is not None and backward is not None and clip.node not in told:
                    told.add(clip.node)
                    yield self._diagnosis(violation.action, clip, backward, optimizer, found, len(scaled))

    def _diagnosis(
        self, step: Action, clip: Action, backward: Action, optimizer: Optimizer, found: Training, optimizers: int
    ) -> Diagnosis:
        scaler = found.scaled[backward]
        name = scaler.shown
        message = (
            f"Gradients are clipped while they are still multiplied by the scale of `{name}`: "
            f"`{name}.unscale_({optimizer.ref.shown})` belongs before the clipping."
        )
        related: list[tuple[ast.AST, str]] = [
            (backward.node, "scaled gradients are computed here"),
            (step.node, "they are unscaled only here"),
        ]
        offered = optimizers == 1 and _once_for_each_step(clip, step, found)
        fix = _fix(clip, step, scaler, optimizer, found) if offered else None
        return self.found(clip.node, message, related=related, fixes=[fix] if fix is not None else [])


def _fix(clip: Action, step: Action, scaler: Ref, optimizer: Optimizer, found: Training) -> FixPlan | None:
    """Unscale before the clipping: by the call that comes too late, if there is one, for a second one raises."""
    safety: Applicability = "safe" if _is_proven(scaler) else "unsafe"
    shown = f"`{scaler.shown}.unscale_({optimizer.ref.shown})`"
    late = _unscaled_between(clip, step, found)
    if not late:
        return FixPlan(f"Insert {shown}", safety, lambda edit: _insert(edit, clip, step))
    block = found.semantics.block_of(statement_of(clip.node))
    moved, target = statement_of(late[0].node), statement_of(clip.node)
    if len(late) > 1 or moved not in block or not isinstance(moved, ast.Expr):
        return None
    return FixPlan(f"Move {shown} before the clipping", safety, lambda edit: edit.move_before(moved, target))


def _unscaled_between(clip: Action, step: Action, found: Training) -> list[Action]:
    first, last = found.actions.index(clip), found.actions.index(step)
    between = found.actions[first + 1 : last]
    return [action for action in between if scaling_of(found, action).what is Scaling.UNSCALE]


def _stepped_by_scaler(found: Training) -> frozenset[str]:
    """The paths of the optimizers that are stepped through a scaler."""
    seen = (scaling_of(found, action) for action in found.actions)
    return frozenset(item.optimizer.path for item in seen if item.what is Scaling.STEP and item.optimizer is not None)


def _clamps_gradients(action: Action) -> bool:
    """Whether an action is ``p.grad.clamp_(...)``: clipping by hand."""
    if action.verb not in ("clamp_", "clip_", "clamp_min_", "clamp_max_") or not isinstance(action.node, ast.Call):
        return False
    holder = action.node.func
    while isinstance(holder, ast.Attribute):
        holder = holder.value
        if isinstance(holder, ast.Attribute) and holder.attr == "grad":
            return True
    return False


def _events(found: Training, optimizer: Optimizer, optimizers: int, action: Action) -> tuple[str, ...]:
    if optimizers == 1 and _clamps_gradients(action):
        return () if _asks_the_scaler(action.node) else ("clip",)
    if is_clip(action):
        if _asks_the_scaler(action.node):
            return ()
        given = action.arguments[0].path.partition(".parameters()")[0] if action.arguments else ""
        return () if optimizers > 1 and _is_of_other(given, optimizer) else ("clip",)
    seen = scaling_of(found, action)
    given = seen.optimizer.path if seen.optimizer is not None else ""
    match seen.what:
        case Scaling.SCALED_BACKWARD:
            return ("scaled backward",)
        case Scaling.BACKWARD:
            return ("backward",)
        case Scaling.STEP:
            return ("step", "done") if given == optimizer.path else ()
        case Scaling.UPDATE:
            return ("done",)
        case Scaling.UNSCALE:
            others = {item.path for item in found.optimizers if item.path != optimizer.path}
            return () if given in others else ("unscale",)
        case Scaling.UNSEEN:
            return ("unscale",)
        case _:
            return ()


def _asks_the_scaler(node: ast.AST) -> bool:
    """Whether something happens only where a scaler was asked if it scales at all (``if not scaler.is_enabled()``)."""
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.If | ast.IfExp):
            asked = (call for call in nodes_within(current.test, ast.Attribute) if isinstance(call, ast.Attribute))
            if any(call.attr in ("is_enabled", "_enabled") for call in asked):
                return True
        current = parent_of(current)
    return False


def _is_of_other(given: str, optimizer: Optimizer) -> bool:
    """Whether what is clipped is certainly not what the optimizer has."""
    if not given or optimizer.modules is None:
        return False
    return not any(is_within(given, module) for module in optimizer.modules)


def _is_proven(scaler: Ref) -> bool:
    return scaler.kind is not None and scaler.kind.proven


def _once_for_each_step(clip: Action, step: Action, found: Training) -> bool:
    """Whether clipping happens exactly once before each step, so that unscaling there cannot raise."""
    if enclosing_function(clip.node) is not enclosing_function(step.node):
        return False
    block = found.semantics.block_of(statement_of(step.node))
    return found.position_in(block, clip) is not None and len(found.places[clip].loops) == len(found.places[step].loops)


def _insert(edit: Editor, clip: Action, step: Action) -> None:
    assert isinstance(step.node, ast.Call)
    assert isinstance(step.node.func, ast.Attribute)
    text = f"{edit.source(step.node.func.value)}.unscale_({edit.source(step.node.args[0])})"
    edit.insert_statement_before(edit.statement_of(clip.node), text)
