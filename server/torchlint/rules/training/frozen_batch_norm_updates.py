from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint import torch_api
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.paths import is_within
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Ref
from torchlint.semantics.kinds import Kind
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_BATCH_NORMS = re.compile(r"^torch\.nn\.(Lazy)?(BatchNorm[123]d|SyncBatchNorm)$")
#: Models of torchvision that have batch normalization (torchvision 0.28).
_WITH_BATCH_NORM = re.compile(
    r"^torchvision\.models\.(?!.*swin|.*vit)(.*\.)?(resnet|resnext|wide_resnet|densenet|mobilenet|mnasnet|inception"
    r"|googlenet|shufflenet|efficientnet|regnet|vgg\d+_bn)"
)
_MEANT = re.compile(r"adapt|statistic|running|momentum|moco|dino|batch ?norm|\bbn\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class _Freeze:
    """At ``node`` the parameters of ``module`` are frozen; ``at``: the place of it in the flow."""

    module: Ref
    node: ast.AST
    path: str
    at: int


class FrozenBatchNormUpdates(Rule):
    """## What it does

    Points out a part of a model whose parameters are frozen, while the model is put into training mode and the part
    has batch normalization.

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

    `FrozenBatchNorm2d`, a part that is put into evaluation mode anywhere, parameters that are unfrozen later, and
    statistics that a comment says to be adapted.

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
        for freeze in _freezes(found, root):
            trained = _put_into_training(found, freeze)
            layer = _batch_norm(unit.semantics, freeze.module.kind, set()) if trained is not None else ""
            if trained is None or not layer or is_stated(freeze.node, _MEANT) or is_stated(trained.node, _MEANT):
                continue
            name = freeze.module.shown
            message = f"`{name}` is frozen, but in training mode its `{layer}` goes on to update its statistics."
            yield self.found(freeze.node, message, related=[(trained.node, "training mode since here")])
            return


def _freezes(found: Training, root: Root) -> Iterator[_Freeze]:
    """The modules whose parameters are all frozen in a flow, in its own function."""
    for position, action in enumerate(found.actions):
        receiver = action.receiver
        if receiver is None or not receiver.path or not isinstance(action.node, ast.Call):
            continue
        if action.verb == "requires_grad_" and receiver.kind is not None and receiver.kind.is_module:
            given = action.node.args[0] if action.node.args else None
            if given is not None and found.semantics.literal(given) is False:
                yield _Freeze(receiver, action.node, receiver.path, position)
        elif action.verb == "parameters" and not action.arguments and (loop := _frozen_by_loop(action.node)):
            yield _Freeze(receiver, loop, receiver.path, position)


def _frozen_by_loop(parameters: ast.Call) -> ast.stmt | None:
    """What freezes each parameter of ``for p in net.parameters(): p.requires_grad = False``."""
    loop = parent_of(parameters)
    if not isinstance(loop, ast.For) or loop.iter is not parameters or len(loop.body) != 1:
        return None
    match loop.target, loop.body[0]:
        case (
            ast.Name(id=one),
            ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=other), attr="requires_grad")], value=ast.Constant(value=False)
            ) as statement,
        ) if one == other:
            return statement
        case ast.Name(id=one), ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=other), attr="requires_grad_"), args=[ast.Constant(value=False)]
            )
        ) as statement if one == other:
            return statement
        case _:
            return None


def _put_into_training(found: Training, freeze: _Freeze) -> Action | None:
    """What puts a frozen module into training mode, if nothing may put it back or unfreeze it; the calls of ``train``
    that come before it count too where a loop repeats them."""
    trained: Action | None = None
    for action in found.actions:
        receiver = action.receiver
        path = receiver.path if receiver is not None else ""
        touches = bool(path) and (is_within(freeze.path, path) or is_within(path, freeze.path))
        if action.verb == "eval" and (is_within(path, freeze.path) or _may_be_a_part(receiver, freeze)):
            return None
        if touches and action.verb == "requires_grad_" and action.node is not freeze.node and not _says_false(action):
            return None
        if action.verb == "..." or (
            action.verb not in ("()", "?") and "train" not in action.verb and re.search(r"freeze|bn|norm", action.verb)
        ):
            return None
        if action.verb == "apply" and touches:
            return None
        if action.verb == "train" and touches and is_within(freeze.path, path) and _says_true(action):
            trained = trained or action
    return trained


def _may_be_a_part(receiver: Ref | None, freeze: _Freeze) -> bool:
    """Whether an object of which nothing is known may be a layer of the frozen module (``for m in net.modules()``)."""
    if receiver is None or not receiver.path:
        return True
    return receiver.kind is None and _head(receiver.path) != _head(freeze.path)


def _head(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _says_false(action: Action) -> bool:
    match action.node:
        case ast.Call(args=[ast.Constant(value=False)]):
            return True
        case _:
            return False


def _says_true(action: Action) -> bool:
    match action.node:
        case ast.Call(args=[]) | ast.Call(args=[ast.Constant(value=True)]):
            return True
        case _:
            return False


def _batch_norm(semantics: Semantics, kind: Kind | None, seen: set[ast.AST]) -> str:
    """The batch normalization in a module, by its class; empty if none is certain."""
    if kind is None or len(seen) > 20:
        return ""
    if kind.class_node is not None:
        if kind.class_node in seen:
            return ""
        seen.add(kind.class_node)
        if semantics.find_method(kind.class_node, "train") is not None:
            return ""
        for method in semantics.module.methods(kind.class_node):
            found = _among(semantics, nodes_within(method, ast.Call), seen)
            if found:
                return found
        return ""
    if _WITH_BATCH_NORM.match(kind.origin) and torch_api.is_torchvision_model(kind.origin):
        given = kind.node.keywords if isinstance(kind.node, ast.Call) else []
        return "" if any(keyword.arg in ("norm_layer", None) for keyword in given) else "BatchNorm2d"
    return _among(semantics, nodes_within(kind.node, ast.Call), seen) if isinstance(kind.node, ast.Call) else ""


def _among(semantics: Semantics, calls: Iterator[ast.AST], seen: set[ast.AST]) -> str:
    for call in calls:
        if not isinstance(call, ast.Call):
            continue
        name = semantics.name(call.func)
        if _BATCH_NORMS.match(name):
            return name.rpartition(".")[2]
        if name.startswith(".") or torch_api.is_torchvision_model(name):
            node = semantics.local_class(call.func)
            if node is None or node not in seen:
                kind = semantics.kind(call)
                if kind is not None and kind.is_module and (kind.class_node is not None or kind.node is call):
                    found = _batch_norm(semantics, kind, seen) if kind.class_node is not None else ""
                    found = found or ("BatchNorm2d" if _WITH_BATCH_NORM.match(name) else "")
                    if found:
                        return found
    return ""
