from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.modules.batch_norms import batch_norm_in, evaluated_norms, evaluates_norms
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.freezing import freezes, frozen_attributes, is_told_false
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.lightning import is_lightning_module
from torchlint.idioms.training.paths import path_when_returned
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_class, on_flow
from torchlint.semantics.classes import ClassView
from torchlint.semantics.flow import Action, Ref, is_within
from torchlint.semantics.kinds import Kind
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_MEANT = regex(r"adapt|statistic|running|momentum|moco|dino|batch ?norm|\bbn\b", re.IGNORECASE)
#: A comment that says that training mode is to come back.
_BACK = regex(r"temporar|for now|until|warm", re.IGNORECASE)
#: What a frozen copy is called that follows the trained one.
_FOLLOWS = regex(r"momentum|teacher|target|ema|moving|slow|key", re.IGNORECASE)


class FrozenBatchNormUpdates(Rule):
    """## What it does

    Points out a part of a model whose parameters are frozen, while the model is put into training mode and the part
    has batch normalization; and batch normalization that is put into evaluation mode once, before `train()` of the
    whole model puts it back in each epoch.

    ## Why is this bad?

    `requires_grad = False` stops the gradients and nothing else. In training mode batch normalization goes on to update
    its running mean and variance with each batch, and uses the statistics of the batch: the frozen part changes
    nevertheless, and gives other features at the end than at the beginning.

    ## Example

    ```python
    import torch
    from torchvision.models import resnet50


    def train(loader):
        backbone = resnet50(weights="DEFAULT")
        head = torch.nn.Linear(1000, 10)
        for param in backbone.parameters():
            param.requires_grad = False
        backbone.train()
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(backbone(x)), y).backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch
    from torchvision.models import resnet50


    def train(loader):
        backbone = resnet50(weights="DEFAULT")
        head = torch.nn.Linear(1000, 10)
        for param in backbone.parameters():
            param.requires_grad = False
        backbone.eval()
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(backbone(x)), y).backward()
            optimizer.step()
    ```

    ## Exceptions

    `FrozenBatchNorm2d`, a part that goes back to evaluation mode after each `train()`, a `train` of its own,
    parameters that are unfrozen later, copies that follow the trained part (a teacher), and statistics that a comment
    says to be adapted.

    ## References

    - [torch.nn.BatchNorm2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval)
    """

    code = "TL231"
    name = "frozen-batch-norm-updates"
    level = Level.HINT
    summary = "The statistics of a frozen part change with every batch."

    @on_flow("train", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.MODES in owned_duties(unit.semantics, root.function):
            return
        for freeze in freezes(found):
            trained = _put_into_training(found, freeze.path, freeze.node)
            layer = batch_norm_in(unit.semantics, freeze.module.kind) if trained is not None else ""
            if trained is None or not layer or is_stated(freeze.node, _MEANT) or is_stated(trained.by.node, _MEANT):
                continue
            name = freeze.module.shown
            message = f"`{name}` is frozen, but in training mode its `{layer}` goes on to update its statistics."
            related: list[tuple[ast.AST, str]] = [(trained.by.node, "training mode since here")]
            if trained.ended is not None:
                related.append((trained.ended.node, "the evaluation mode that is set here ends with it"))
            yield self.found(freeze.node, message, related=related)
            return
        yield from self._frozen_by_class(found)
        for norms in _evaluated_norms(found):
            by = _trained_again(found, norms)
            if by is not None:
                shown = ast.unparse(by.node)
                message = f"`{shown}` puts this batch normalization back into training mode: its statistics change."
                yield self.found(norms.switch, message, related=[(by.node, "training mode since here")])
                return

    def _frozen_by_class(self, found: Training) -> Iterator[Diagnosis]:
        """Parts that the class of a model freezes in its constructor, where the model is put into training mode."""
        for action in found.actions:
            receiver = action.receiver if action.verb == "train" else None
            node = receiver.kind.class_node if receiver is not None and receiver.kind is not None else None
            if receiver is None or node is None or not receiver.path:
                continue
            view = ClassView(found.semantics, node)
            if not view.is_module or found.semantics.has_unknown_base(node):
                continue
            for attribute, frozen, layer in _frozen_parts(view):
                trained = _put_into_training(found, f"{receiver.path}.{attribute.attr}")
                if trained is not None and trained.by is action and not is_stated(action.node, _MEANT):
                    yield self._updates(attribute, frozen, layer, [(action.node, "training mode since here")])
                    return

    def _updates(
        self, module: ast.Attribute, frozen: ast.AST, layer: str, related: list[tuple[ast.AST, str]]
    ) -> Diagnosis:
        name = ast.unparse(module)
        message = f"`{name}` is frozen, but in training mode its `{layer}` goes on to update its statistics."
        return self.found(frozen, message, related=related)

    @on_class()
    def check_lightning(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        """Lightning trains all parts of a LightningModule in the mode that they are made in."""
        if is_lightning_module(unit.semantics, view.node):
            for attribute, frozen, layer in _frozen_parts(view):
                yield self._updates(attribute, frozen, layer, [])
                return


def _frozen_parts(view: ClassView) -> Iterator[tuple[ast.Attribute, ast.AST, str]]:
    """The attributes with batch normalization that a class freezes when it is made: each with what freezes it and the
    class of the normalization. Empty if the class sets modes, or unfreezes, by itself."""
    checked = False
    for attribute, frozen in frozen_attributes(view):
        if not checked and _sets_modes(view):
            return
        checked = True
        layer = batch_norm_in(view.semantics, view.attribute_kind(attribute.attr))
        if not layer or is_stated(frozen, _MEANT) or _follows_another(attribute, view):
            continue
        if _is_run(attribute, view):
            yield attribute, frozen, layer


@dataclass(frozen=True, eq=False, slots=True)
class _Trained:
    """``by`` puts a module into training mode, and with it what ``ended`` put into evaluation mode."""

    by: Action
    ended: Action | None


def _put_into_training(found: Training, module: str, freeze: ast.AST | None = None) -> _Trained | None:
    """What puts a frozen module into training mode, if nothing puts it back or unfreezes it; the calls of ``train``
    that come before it count too where a loop repeats them."""
    for action in found.actions:
        path = path_when_returned(found, action, action.receiver.path) if action.receiver is not None else ""
        told = action.verb == "requires_grad_" and action.node is not freeze and _touches(path, module)
        if told and isinstance(action.node, ast.Call) and not is_told_false(found.semantics, action.node):
            return None
    return _last_mode(found, module)


def _last_mode(found: Training, path: str) -> _Trained | None:
    """What puts a module into training mode, if no part of it goes back to evaluation mode afterwards."""
    trains: list[Action] = []
    evals: list[Action] = []
    for action in found.actions:
        receiver = action.receiver
        other = path_when_returned(found, action, receiver.path) if receiver is not None else ""
        if action.verb == "..." or (
            action.verb not in ("()", "?") and "train" not in action.verb and re.search(r"freeze|bn|norm", action.verb)
        ):
            return None
        switched = is_within(other, path) or _may_be_a_part(receiver, path)
        if (action.verb == "eval" and switched) or (action.verb == "apply" and _touches(other, path)):
            evals.append(action)
        elif action.verb == "train" and bool(other) and is_within(path, other) and _says_true(action):
            trains.append(action)
    for train in trains:
        if all(_ends(found, train, action) for action in evals):
            return _Trained(train, evals[-1] if evals else None)
    return None


def _touches(one: str, other: str) -> bool:
    """Whether one of two modules holds the other, or both are the same."""
    return bool(one) and (is_within(one, other) or is_within(other, one))


def _ends(found: Training, train: Action, evaluation: Action) -> bool:
    """Whether ``train()`` certainly comes between ``eval()`` and each backward pass after it."""
    places, order = found.places, found.actions
    if any(_is_conditional(node) for node in (train.node, *(call.node for call in places[train].calls))):
        return False
    loops = set(places[evaluation].loops)
    shared = loops & set(places[train].loops)
    end = order.index(evaluation)
    if order.index(train) > end:
        return not shared
    for backward in filter(is_backward, order):
        around = set(places[backward].loops)
        if (order.index(backward) > end and shared <= around) or (loops & around) - shared:
            return False
    return True


def _is_conditional(node: ast.AST) -> bool:
    """Whether a branch decides whether something runs (``if __name__ == "__main__":`` is none)."""
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.If) and "__name__" not in ast.unparse(current.test):
            return True
        current = parent_of(current)
    return False


@dataclass(frozen=True, eq=False, slots=True)
class _Norms:
    """At ``switch`` the batch normalization of a module is put into evaluation mode; ``path``: where the root of the
    flow has the module."""

    module: Ref
    switch: ast.Call
    path: str


def _evaluated_norms(found: Training) -> Iterator[_Norms]:
    semantics = found.semantics
    for action in found.actions:
        node = action.node
        if not isinstance(node, ast.Call):
            continue
        if action.verb == "eval" and (source := evaluated_norms(semantics, node)) is not None:
            owner = next((item.receiver for item in found.actions if item.node is source), None)
            if owner is not None and owner.path:
                yield _Norms(owner, node, path_when_returned(found, action, owner.path))
        elif action.verb == "apply" and action.receiver is not None and action.receiver.path and len(node.args) == 1:
            function = semantics.local_function(node.args[0])
            if function is not None and evaluates_norms(function):
                path = path_when_returned(found, action, action.receiver.path)
                yield _Norms(action.receiver, node, path)


def _has_own_train(semantics: Semantics, kind: Kind | None) -> bool:
    """Whether a module may have a ``train`` of its own, as far as the file shows its class."""
    node = kind.class_node if kind is not None else None
    return node is not None and (semantics.find_method(node, "train") is not None or semantics.has_unknown_base(node))


def _trained_again(found: Training, norms: _Norms) -> Action | None:
    """What puts batch normalization back into training mode before a backward pass, for good."""
    trained = _last_mode(found, norms.path)
    if trained is None or trained.ended is None or is_stated(norms.switch, _BACK):
        return None
    whole = trained.by.receiver
    if whole is None or any(_has_own_train(found.semantics, module.kind) for module in (norms.module, whole)):
        return None
    later = found.actions[found.actions.index(trained.by) :]
    return trained.by if any(map(is_backward, later)) else None


def _may_be_a_part(receiver: Ref | None, path: str) -> bool:
    """Whether an object of which nothing is known may be a layer of a module (``for m in net.modules()``)."""
    if receiver is None or not receiver.path:
        return True
    return receiver.kind is None and _head(receiver.path) != _head(path)


def _head(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _says_true(action: Action) -> bool:
    match action.node:
        case ast.Call(args=[]) | ast.Call(args=[ast.Constant(value=True)]):
            return True
        case _:
            return False


def _sets_modes(view: ClassView) -> bool:
    """Whether a class, or a callback of its file, sets modes or unfreezes by hand."""
    semantics = view.semantics
    if semantics.find_method(view.node, "train") is not None or semantics.module.mentions_call("update_momentum"):
        return True
    for method in view.methods:
        for call in nodes_within(method, ast.Call):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                name = call.func.attr
                if name in ("eval", "train") or (name == "requires_grad_" and not is_told_false(semantics, call)):
                    return True
                if re.search(r"freeze|set_bn|bn_eval", name) and semantics.find_method(view.node, name) is None:
                    return True
        for value in nodes_within(method, ast.Assign):
            match value:
                case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=given):
                    if semantics.literal(given) is not False:
                        return True
    return False


def _follows_another(attribute: ast.Attribute, view: ClassView) -> bool:
    """Whether a module is a copy (a teacher, a momentum encoder), whose statistics follow those of the trained one."""
    copied = any(view.semantics.is_call_to(write.value, "copy.deepcopy") for write in view.writes(attribute.attr))
    return copied or _FOLLOWS.search(attribute.attr) is not None


def _is_run(attribute: ast.Attribute, view: ClassView) -> bool:
    """Whether methods besides the constructor use an attribute."""
    return any(
        isinstance(read, ast.Attribute) and read.attr == attribute.attr and view.semantics.class_of_self(read.value)
        for method in view.methods
        if method.name != "__init__"
        for read in nodes_within(method, ast.Attribute)
    )
