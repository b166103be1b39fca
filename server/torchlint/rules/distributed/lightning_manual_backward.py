from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.training.lightning import is_lightning_module
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_SWITCH = "automatic_optimization"
#: Hooks of a LightningModule whose default does what the author does there.
_HOOKS = frozenset(("backward", "manual_backward", "optimizer_step", "optimizer_zero_grad", "configure_optimizers"))


@dataclass(frozen=True, eq=False, slots=True)
class _ByHand:
    """What a training step does by hand: "manual_backward", "backward" or "step"."""

    what: str
    call: ast.Call


class LightningManualBackward(Rule):
    """## What it does

    Reports `loss.backward()`, `self.manual_backward(loss)` and `optimizer.step()` in the `training_step` of a
    `LightningModule` that leaves `automatic_optimization` on.

    ## Why is this bad?

    Lightning clears the gradients, runs the backward pass of what `training_step` returns, and steps the optimizer.
    `self.manual_backward(...)` therefore raises a `MisconfigurationException`; a second backward pass through the same
    loss raises "Trying to backward through the graph a second time"; an optimizer that is stepped by hand is stepped
    twice for each batch. Either return the loss and leave the rest to Lightning, or say
    `self.automatic_optimization = False` and do all of it.

    ## Example

    ```python
    import lightning as L
    import torch


    class LitModel(L.LightningModule):
        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = self.criterion(self.model(x), y)
            self.manual_backward(loss)
            self.optimizers().step()
            return loss
    ```

    ## Use instead

    ```python
    import lightning as L
    import torch


    class LitModel(L.LightningModule):
        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = self.criterion(self.model(x), y)
            return loss
    ```

    ## Exceptions

    `automatic_optimization = False` in the class, in a base class of the file, or set on the object; bases that the
    file does not show; the hooks `backward` and `optimizer_step`; a backward pass for other gradients, whose loss is
    not returned (adversarial examples); a training step that says `return None`, by which Lightning skips its own; and
    optimizers that the author made and Lightning does not know.

    ## References

    - [Manual optimization](https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html)
    """

    code = "TL851"
    name = "lightning-manual-backward"
    level = Level.ERROR
    summary = "Lightning runs the backward pass and the step itself: doing it by hand raises or trains twice."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if view.method("training_step") is None or not is_lightning_module(view.semantics, view.node):
            return
        if _may_be_manual(view):
            return
        done = [item for method in _steps(view) for item in _by_hand(method, view)]
        backwards = [item for item in done if item.what == "backward"]
        steps = [item for item in done if item.what == "step"]
        wrong = [item for item in done if item.what == "manual_backward" or _is_repeated(item, steps, view)] + steps
        if _skips_lightning(view):
            wrong = [item for item in wrong if item.what == "manual_backward"]
        if not wrong:
            return
        first = min(wrong, key=lambda item: done.index(item))
        also = {"manual_backward": "another backward pass here", "backward": "backward pass here", "step": "step here"}
        related = [(item.call, also[item.what]) for item in (*backwards, *wrong) if item is not first]
        yield self.found(first.call, _message(first, semantics), related=related[:3])


def _skips_lightning(view: ClassView) -> bool:
    """Whether the training step says ``return None`` and nothing else: Lightning then leaves out its own backward
    pass, and its step finds no gradients."""
    step = view.method("training_step")
    returned = view.semantics.returned_values(step) if step is not None else ()
    return bool(returned) and all(isinstance(value, ast.Constant) and value.value is None for value in returned)


def _message(item: _ByHand, semantics: Semantics) -> str:
    call = ast.unparse(item.call)
    if item.what == "manual_backward":
        return f"`{call}` raises: `{_SWITCH}` is on, and Lightning runs the backward pass itself."
    if item.what == "backward":
        return f"`{call}` in a training step: `{_SWITCH}` is on, and Lightning runs the backward pass again."
    return f"`{call}` in a training step: `{_SWITCH}` is on, and Lightning steps this optimizer again."


def _may_be_manual(view: ClassView) -> bool:
    """Whether anything in the file may switch automatic optimization off."""
    semantics = view.semantics
    module = semantics.module
    if module.writes_attribute_of_others(_SWITCH) or semantics.find_method(view.node, _SWITCH) is not None:
        return True
    for node in semantics.lineage(view.node):
        values = [item.value for item in module.attribute_writes(node, _SWITCH)]
        values += [item.value for item in module.body_definitions(node, _SWITCH)]
        if any(semantics.literal(value) is not True for value in values):
            return True
    return any(argument(call, None, _SWITCH) is not None for call in module.calls_of("Trainer"))


def _steps(view: ClassView) -> list[FunctionNode]:
    """The training step and the methods of the class that it calls, the step first."""
    found = [method for method in view.called_from("training_step") if method.name not in _HOOKS]
    return sorted(found, key=lambda method: (method.name != "training_step", method.name))


def _by_hand(method: FunctionNode, view: ClassView) -> Iterator[_ByHand]:
    semantics = view.semantics
    for call in nodes_within(method, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="manual_backward", value=owner)):
                if semantics.class_of_self(owner) is not None:
                    yield _ByHand("manual_backward", call)
            case ast.Call(func=ast.Attribute(attr="backward", value=loss), args=[]):
                if semantics.class_of_self(loss) is None:
                    yield _ByHand("backward", call)
            case ast.Call(func=ast.Attribute(attr="step", value=optimizer)):
                if _is_of_lightning(optimizer, semantics):
                    yield _ByHand("step", call)


def _is_repeated(item: _ByHand, steps: list[_ByHand], view: ClassView) -> bool:
    """Whether a backward pass is for what Lightning trains: its loss is returned, or an optimizer of it stepped."""
    return item.what == "backward" and (bool(steps) or _is_returned(item.call, view))


def _is_returned(backward: ast.Call, view: ClassView) -> bool:
    """Whether the training step returns the loss of a backward pass that stands in it, or in a method that is given
    the loss."""
    step = view.method("training_step")
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    if step is None or not isinstance(loss, ast.Name):
        return False
    made = set(_bindings(loss, view.semantics))
    for value in view.semantics.returned_values(step):
        returned = _loss_in(value)
        if isinstance(returned, ast.Name) and made & set(view.semantics.definitions(returned)):
            return True
    return False


def _bindings(loss: ast.Name, semantics: Semantics) -> Iterator[Definition]:
    """What binds a loss, and what binds the names that a method is given for it."""
    for definition in semantics.definitions(loss):
        yield definition
        function = enclosing_function(loss)
        if isinstance(definition.node, ast.arg) and function is not None:
            for given in semantics.given_for(definition.node, function):
                if isinstance(given, ast.Name):
                    yield from semantics.definitions(given)


def _loss_in(returned: ast.expr) -> ast.expr | None:
    match returned:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return next((_loss_in(value) for key, value in pairs if literal_of(key) == "loss"), None)
        case ast.Call(func=ast.Attribute(attr="detach" | "clone", value=inner), args=[]):
            return _loss_in(inner)
        case _:
            return returned


def _is_of_lightning(expression: ast.expr, semantics: Semantics, depth: int = 0) -> bool:
    """Whether an expression is an optimizer that Lightning steps: one of ``self.optimizers()``."""
    match expression:
        case ast.Call(func=ast.Attribute(attr="optimizers", value=owner)):
            return semantics.class_of_self(owner) is not None
        case ast.Attribute(attr="optimizers", value=ast.Attribute(attr="trainer", value=owner)):
            return semantics.class_of_self(owner) is not None
        case ast.Subscript(value=inner):
            return _is_of_lightning(inner, semantics, depth + 1)
        case ast.Name() if depth < 5:
            definitions = semantics.definitions(expression)
            kinds = (Binding.ASSIGNMENT, Binding.LOOP)
            return bool(definitions) and all(
                item.kind in kinds and item.value is not None and _is_of_lightning(item.value, semantics, depth + 1)
                for item in definitions
            )
        case _:
            return False
