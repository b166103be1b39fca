from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.data.loaders import loaded_class, loader_argument
from torchlint.idioms.data.samplers import loaders_in
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop, actions, walk
from torchlint.semantics.nodes import enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import Binding, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
_WRAPPER_NAMES = frozenset(name.rpartition(".")[2] for name in _WRAPPERS)
#: Samplers that know nothing of ranks.
_WHOLE = ("torch.utils.data.RandomSampler", "torch.utils.data.SequentialSampler")
_DEEPEST = 3
#: What says that each rank loads its own part, or draws by its own seed.
_BY_RANK = regex(r"rank|world|shard|replica|node|partition|local|hvd", re.IGNORECASE)


class MissingDistributedSampler(Rule):
    """## What it does

    Reports a `DataLoader` whose batches train a `DistributedDataParallel` (or `FullyShardedDataParallel`) model, where
    both are made in the same program and the loader has no sampler, or one that goes over the whole dataset
    (`RandomSampler`).

    ## Why is this bad?

    Each rank then loads the whole dataset: an epoch does the work of as many epochs as there are ranks, and no time is
    won by more GPUs. With the same seed on all ranks the batches are even the same, so that the averaged gradient is
    the gradient of one. `DistributedSampler` gives each rank its own part.

    ## Example

    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader


    def train(net, dataset, criterion, optimizer):
        model = DistributedDataParallel(net)
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler


    def train(net, dataset, criterion, optimizer):
        model = DistributedDataParallel(net)
        loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    ## Exceptions

    Loaders for evaluation, iterable datasets, datasets or seeds that depend on the rank, a loader in a branch for
    training without ranks, and loaders that a framework prepares.

    ## References

    - [DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler)
    - [Getting started with DistributedDataParallel](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html)
    """

    code = "TL802"
    name = "missing-distributed-sampler"
    level = Level.WARNING
    summary = "Without a `DistributedSampler` each rank loads all of the data."

    @on_flow("backward")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        module = semantics.module
        if not module.mentions_call("DataLoader") or not module.mentions_any_call(_WRAPPER_NAMES):
            return
        if _seeds_by_rank(semantics) or owned_duties(semantics, root.function) is not Duty.NONE:
            return
        found = training_of(semantics, root)
        wrappers = {action.node for action in found.actions if action.verb in _WRAPPERS}
        for loop in (flow for flow in walk(root.flow) if isinstance(flow, Loop)):
            wrapper = _trained_wrapper(loop, wrappers, semantics)
            if wrapper is None or loop.iterable is None:
                continue
            loaders = list(loaders_in(semantics, loop.iterable.node))
            if wrapper not in wrappers:
                loaders = [item for item in loaders if enclosing_function(item) is enclosing_function(wrapper)]
            if all(_is_plain(loader, semantics) for loader in loaders):
                for loader in loaders:
                    if _is_beside(loader, wrapper) and not _is_prepared(found.actions, loader, semantics):
                        yield self._diagnosis(loader, wrapper, loop)

    def _diagnosis(self, loader: ast.Call, wrapper: ast.AST, loop: Loop) -> Diagnosis:
        holder = parent_of(loader)
        name = dotted(holder.targets[0]) if isinstance(holder, ast.Assign) and len(holder.targets) == 1 else None
        shown = f"`{name}`" if name else "This loader"
        message = f"{shown} gives each rank all of the data: a `DistributedSampler` would give each its own part."
        related = [(wrapper, "trained on several ranks"), (loop.node, "by the batches of this loop")]
        return self.found(loader, message, related=related)


def _seeds_by_rank(semantics: Semantics) -> bool:
    """Whether the file seeds by rank: then each rank draws other batches, which may be meant."""
    calls = (*semantics.module.calls_of("manual_seed"), *semantics.module.calls_of("seed_everything"))
    return any(_BY_RANK.search(ast.unparse(item)) for call in calls for item in call.args)


def _trained_wrapper(loop: Loop, wrappers: set[ast.AST], semantics: Semantics) -> ast.AST | None:
    """The call that wrapped the model which a loop calls and backpropagates: of the same flow, or in the `__init__`
    that made it."""
    inner = list(actions(loop.body))
    if not any(map(is_backward, inner)):
        return None
    for action in inner:
        if action.verb in ("()", "?") and action.receiver is not None:
            for value in _values(action.receiver.node, semantics):
                if value in wrappers or (
                    isinstance(action.receiver.node, ast.Attribute)
                    and isinstance(value, ast.Call)
                    and semantics.is_named(value.func, *_WRAPPERS)
                ):
                    return value
    return None


def _values(expression: ast.expr | None, semantics: Semantics) -> Iterator[ast.expr]:
    match expression:
        case ast.Name():
            yield from (item.value for item in semantics.definitions(expression) if item.value is not None)
        case ast.Attribute(value=owner, attr=attribute):
            holder = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(holder, attribute) if holder is not None else ()
            yield from (item.value for item in writes if item.value is not None)


def _is_plain(loader: ast.Call, semantics: Semantics) -> bool:
    """Whether a loader certainly goes over the whole of a dataset on each rank."""
    if has_unknown_arguments(loader):
        return False
    sampler = loader_argument(loader, "sampler")
    if loader_argument(loader, "batch_sampler") is not None or not _is_for_all(sampler, semantics):
        return False
    dataset = loader_argument(loader, "dataset")
    if dataset is None or not _is_indexed(loader, dataset, semantics):
        return False
    made = list(constructions(semantics, dataset).calls)
    return not any(_depends_on_rank(item, semantics) for item in (loader, *made))


def _depends_on_rank(expression: ast.expr, semantics: Semantics, depth: int = 0) -> bool:
    """Whether an expression, or what its names are bound to, speaks of ranks: ``mine = files[rank::world]``."""
    if _BY_RANK.search(ast.unparse(expression)):
        return True
    if depth >= _DEEPEST:
        return False
    return any(
        definition.kind is Binding.ASSIGNMENT
        and definition.value is not None
        and _depends_on_rank(definition.value, semantics, depth + 1)
        for name in nodes_within(expression, ast.Name)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
        for definition in semantics.definitions(name)
    )


def _is_for_all(sampler: ast.expr | None, semantics: Semantics) -> bool:
    """Whether a sampler goes over the whole dataset, as that of a loader without one does."""
    if sampler is None:
        return True
    made = constructions(semantics, sampler)
    return made.complete and all(
        semantics.is_named(call.func, *_WHOLE) and not _BY_RANK.search(ast.unparse(call)) for call in made.calls
    )


def _is_indexed(loader: ast.Call, dataset: ast.expr, semantics: Semantics) -> bool:
    """Whether a dataset is no iterable one, which would shard itself: shuffling, or its class, says so."""
    shuffle = loader_argument(loader, "shuffle")
    if shuffle is not None and semantics.literal(shuffle) is True:
        return True
    if loader_argument(loader, "sampler") is not None:
        return True
    owner = loaded_class(semantics, loader)
    if owner is not None:
        return semantics.find_method(owner, "__getitem__") is not None
    kind = semantics.kind(dataset)
    origin = kind.origin if kind is not None else ""
    return origin.startswith("torchvision.datasets.") or origin == "torch.utils.data.TensorDataset"


def _is_beside(loader: ast.Call, wrapper: ast.AST) -> bool:
    """Whether a loader is made on each path that wraps the model: no condition keeps it away."""
    return _conditions(loader) <= _conditions(wrapper)


def _conditions(node: ast.AST) -> set[tuple[ast.AST, str]]:
    found: set[tuple[ast.AST, str]] = set()
    child, holder = node, parent_of(node)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.If):
            found.add((holder, "body" if child in holder.body else "orelse"))
        elif isinstance(holder, ast.IfExp | ast.Match):
            found.add((holder, ""))
        child, holder = holder, parent_of(holder)
    return found


def _is_prepared(flow: tuple[Action, ...], loader: ast.Call, semantics: Semantics) -> bool:
    """Whether unknown code is given the loader, and may divide it (``engine.distribute(loader)``)."""
    return any(
        action.verb in ("prepare", "setup", "setup_dataloaders", "initialize", "auto_dataloader")
        and any(loader in constructions(semantics, item.node).calls for item in action.arguments)
        for action in flow
    )
