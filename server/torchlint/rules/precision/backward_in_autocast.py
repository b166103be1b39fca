from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import Place, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Within
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_AUTOCAST = frozenset(("torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"))
_MEASURES = regex(r"bench|profil|fp8|float8", re.IGNORECASE)
#: What may follow the backward pass outside of the context as well as inside.
_AFTER = frozenset("backward step zero_grad update unscale_ clip_grad_norm_ clip_grad_value_ append item".split())


class BackwardInAutocast(Rule):
    """## What it does

    Reports `loss.backward()` inside a `torch.autocast` block.

    ## Why is this bad?

    Autocast chooses the dtype of each operation of the forward pass; the backward pass runs each operation in the
    dtype that its forward had, without any context. Under autocast the backward passes of custom functions and hooks
    are cast a second time, and PyTorch recommends against it. The block should end after the loss.

    ## Example

    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
            loss.backward()
        optimizer.step()
    ```

    ## Use instead

    ```python
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Exceptions

    Disabled contexts, benchmarks, libraries for 8-bit floats that want the nesting, engines whose `backward` knows
    better, and backward passes inside functions of autograd.

    ## References

    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
    - [Automatic mixed precision examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    """

    code = "TL705"
    name = "backward-in-autocast"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Autocast is for the forward pass and the loss: the backward pass belongs outside."

    @on_flow("backward")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        module = semantics.module
        if not module.mentions_call("autocast") and not module.imported_from(frozenset(("autocast",))):
            return  # asked of the file: a method may enter what another has made
        found = training_of(semantics, root)
        if not found.trains or Duty.SCALING in owned_duties(semantics, root.function):
            return
        for action in found.actions:
            if action.verb != "backward" or not is_backward(action):
                continue
            place = found.places[action]
            block = _autocast_around(place, semantics)
            if block is None or _is_meant(place, root):
                continue
            yield self._diagnosis(action, block, semantics)

    def _diagnosis(self, action: Action, block: Within, semantics: Semantics) -> Diagnosis:
        message = (
            f"`{ast.unparse(action.node)}` runs under autocast, which is for the forward pass and the loss: "
            "end the block before it."
        )
        context = _entered(block, semantics) or block.node
        fix = FixPlan("Move it out of the block", "unsafe", lambda edit: _move_out(edit, action, block))
        fixes = [fix] if _can_move(action, block) else []
        return self.found(action.node, message, related=[(context, "autocast begins here")], fixes=fixes)


def _autocast_around(place: Place, semantics: Semantics) -> Within | None:
    """The innermost autocast context around an action, if that one is not switched off."""
    for block in reversed(place.contexts):
        entered = _entered(block, semantics)
        if entered is not None:
            return None if _is_off(entered, semantics) else block
    return None


def _entered(block: Within, semantics: Semantics) -> ast.expr | None:
    """The autocast that a block enters, directly or by a name."""
    for name, context in block.contexts:
        if name in _AUTOCAST:
            return context
        value = semantics.value_of(context) if isinstance(context, ast.Name) else context
        if isinstance(context, ast.Attribute):
            value = made_by(semantics, context)
        sides = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
        for side in sides:  # `autocast("cuda") if amp else nullcontext()`
            if isinstance(side, ast.Call) and semantics.is_named(side.func, *_AUTOCAST):
                return side
    return None


def _is_off(context: ast.expr, semantics: Semantics) -> bool:
    if not isinstance(context, ast.Call):
        return False
    position = 2 if semantics.is_named(context.func, "torch.amp.autocast") else 0
    enabled = argument(context, position, "enabled")
    return has_unknown_arguments(context) or (enabled is not None and semantics.literal(enabled) is False)


def _is_meant(place: Place, root: Root) -> bool:
    functions = [root.name, *(call.function.name for call in place.calls)]
    contexts = [ast.unparse(context) for block in place.contexts for _, context in block.contexts]
    return any(_MEASURES.search(text) for text in (*functions, *contexts))


def _can_move(action: Action, block: Within) -> bool:
    """Whether the backward pass and what follows it can leave the block as they are."""
    statements = _tail(action, block)
    return bool(statements) and all(_may_follow(statement) for statement in statements)


def _tail(action: Action, block: Within) -> list[ast.stmt]:
    """The statements of a ``with`` block from the backward pass on, if something stands before it."""
    holder = block.node
    if not isinstance(holder, ast.With):
        return []
    statement: ast.AST | None = action.node
    while statement is not None and parent_of(statement) is not holder:
        statement = parent_of(statement)
    if not isinstance(statement, ast.stmt) or statement not in holder.body:
        return []
    position = holder.body.index(statement)
    return holder.body[position:] if position else []


def _may_follow(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _AFTER
        case ast.AugAssign(value=ast.Call(func=ast.Attribute(attr="item"))):
            return True
        case _:
            return False


def _move_out(edit: Editor, action: Action, block: Within) -> None:
    statements = _tail(action, block)
    if not statements or not isinstance(block.node, ast.stmt):
        raise FixImpossible("the block cannot end before it")
    edit.dedent_from(statements[0], statements[-1], block.node)
