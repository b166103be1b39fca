from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.accelerators import is_accelerator, prepared_by
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Followed
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of


class AcceleratePlainBackward(Rule):
    """## What it does

    Reports `loss.backward()` where the model or its optimizer went through `accelerator.prepare(...)`.

    ## Why is this bad?

    `accelerator.backward(loss)` scales the loss for float16, divides it by `gradient_accumulation_steps`, and hands
    it to DeepSpeed or another engine. `loss.backward()` does none of it: with float16 small gradients vanish and the
    prepared optimizer's step fails, accumulated gradients are too large, and with DeepSpeed nothing is reduced. On one
    GPU in float32 the mistake cannot be seen.

    ## Example

    ```python
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead

    ```python
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
    ```

    ## Exceptions

    Objects that the file does not show to be an `Accelerator`, a branch for training without it, and models of which
    nothing was prepared.

    ## References

    - [Accelerator.backward](https://huggingface.co/docs/accelerate/package_reference/accelerator#accelerate.Accelerator.backward)
    - [Add Accelerate to your code](https://huggingface.co/docs/accelerate/basic_tutorials/migration)
    """

    code = "TL852"
    name = "accelerate-plain-backward"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A plain backward pass leaves out the scaling, accumulation and engine of the accelerator."

    @on_flow("backward")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not semantics.module.mentions_call("Accelerator") and not semantics.module.reads_name("Accelerator"):
            return
        found = training_of(semantics, root)
        if not found.trains or owned_duties(semantics, root.function) is not Duty.NONE:
            return
        for backward in found.actions:
            used = _prepared_use(found, backward) if _is_plain(backward, semantics) else None
            if used is not None and not _is_without_accelerator(backward, semantics):
                yield self._diagnosis(backward.node, *used)

    def _diagnosis(self, backward: ast.AST, used: Action, prepare: ast.Call) -> Diagnosis:
        assert isinstance(prepare.func, ast.Attribute)
        accelerator = prepare.func.value
        shown = ast.unparse(accelerator)
        name = used.receiver.shown if used.receiver is not None else "the model"
        message = (
            f"`{ast.unparse(backward)}` goes around `{shown}`, which prepared `{name}`: "
            f"`{shown}.backward(...)` scales and divides the loss."
        )
        fix = FixPlan(
            f"Call `{shown}.backward(...)`", "unsafe", lambda edit: _through(edit, backward, edit.source(accelerator))
        )
        related = [(prepare, "prepared here"), (used.node, "used here")]
        return self.found(backward, message, related=related, fixes=[fix] if _reaches(prepare, backward) else [])


def _prepared_use(found: Training, backward: Action) -> tuple[Action, ast.Call] | None:
    """The first step or call of something that was prepared, with the call that prepared it, in the function of a
    backward pass (or in what it calls) if that function takes steps, or if its caller does and it calls something
    prepared."""
    calls = found.places[backward].calls
    inner = _actions_within(found, calls)
    if any(action.verb == "step" for action in inner):
        return _first_prepared(found, inner)
    outer = _actions_within(found, calls[:-1]) if calls else []
    stepped = _first_prepared(found, [action for action in outer if action.verb == "step"])
    return _first_prepared(found, inner) if stepped is not None else None


def _actions_within(found: Training, calls: tuple[Followed, ...]) -> list[Action]:
    return [action for action in found.actions if found.places[action].calls[: len(calls)] == calls]


def _first_prepared(found: Training, among: list[Action]) -> tuple[Action, ast.Call] | None:
    for action in among:
        if action.verb in ("step", "()", "?") and action.receiver is not None:
            prepare = prepared_by(found.semantics, action.receiver.node)
            if prepare is not None:
                return action, prepare
    return None


def _is_plain(action: Action, semantics: Semantics) -> bool:
    """Whether an action is ``loss.backward()`` of a tensor, not of an engine or accelerator."""
    node = action.node
    if not is_backward(action) or action.verb != "backward" or not isinstance(node, ast.Call):
        return False
    return isinstance(node.func, ast.Attribute) and not is_accelerator(semantics, node.func.value)


def _is_without_accelerator(backward: Action, semantics: Semantics) -> bool:
    """Whether a backward pass stands in a branch that asks for the accelerator, or beside one that uses it."""
    holder = parent_of(backward.node)
    while holder is not None:
        if isinstance(holder, ast.If):
            if "accelerat" in ast.unparse(holder.test).lower():
                return True
            others = (node for node in ast.walk(holder) if isinstance(node, ast.Call) and node is not backward.node)
            if any(_is_accelerated(node, semantics) for node in others):
                return True
        holder = parent_of(holder)
    return False


def _is_accelerated(call: ast.Call, semantics: Semantics) -> bool:
    match call.func:
        case ast.Attribute(attr="backward", value=receiver):
            return is_accelerator(semantics, receiver)
        case _:
            return False


def _reaches(prepare: ast.Call, backward: ast.AST) -> bool:
    """Whether the accelerator has the same name at both places."""
    assert isinstance(prepare.func, ast.Attribute)
    match prepare.func.value:
        case ast.Attribute():
            holder = enclosing_class(prepare)
            return holder is not None and holder is enclosing_class(backward)
        case _:
            place = enclosing_function(prepare)
            return place is None or place is enclosing_function(backward)


def _through(edit: Editor, backward: ast.AST, accelerator: str) -> None:
    assert isinstance(backward, ast.Call)
    assert isinstance(backward.func, ast.Attribute)
    given = [edit.source(backward.func.value), *(edit.source(item) for item in backward.args)]
    given += [f"{item.arg}={edit.source(item.value)}" for item in backward.keywords if item.arg is not None]
    edit.replace(backward, f"{accelerator}.backward({', '.join(given)})")
