from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from torchlint.idioms.data.loaders import has_workers, loaded_class, loader_argument, loaders_of
from torchlint.idioms.data.streams import is_whole, sources
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_ITERABLE, _PIPE = "torch.utils.data.IterableDataset", "torch.utils.data.IterDataPipe"
#: Words of code that knows in which worker it runs, or is told which part it is to give.
_SPLITS = regex(r"worker|shard|num_parts|num_replicas", re.IGNORECASE)
#: Random functions that order what is there; all others make elements, which differ from worker to worker.
_ORDERING = frozenset(("shuffle", "permutation", "randperm", "permuted", "seed", "manual_seed", "Random", "Generator"))
_RANDOM = (
    "random.",
    "numpy.random.",
    "torch.rand",
    "torch.normal",
    "torch.empty",
    "torch.bernoulli",
    "torch.multinomial",
)


class IterableDatasetNotSharded(Rule):
    """## What it does

    Reports an `IterableDataset` whose `__iter__` gives all of its data (a list, a file, a range) without asking in
    which worker it runs, where a `DataLoader` of the file loads it with workers.

    ## Why is this bad?

    Each worker process has a copy of the dataset and iterates over it from the beginning: with four workers every
    sample comes four times in an epoch, and an evaluation counts each of them four times.

    ## Example

    ```python
    from torch.utils.data import DataLoader, IterableDataset


    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                yield from file


    loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=4)
    ```

    ## Use instead

    ```python
    from itertools import islice

    from torch.utils.data import DataLoader, IterableDataset, get_worker_info


    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            worker = get_worker_info()
            first, step = (worker.id, worker.num_workers) if worker else (0, 1)
            with open(self.path) as file:
                yield from islice(file, first, None, step)


    loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=4)
    ```

    ## Exceptions

    Streams that draw their samples at random; sources that are not known to be whole, such as another dataset, which
    may split itself; a loader with a `worker_init_fn`; a class that mentions workers or shards; loaders without
    workers, or with one.

    ## References

    - [torch.utils.data.IterableDataset](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset)
    """

    code = "TL508"
    name = "iterable-dataset-not-sharded"
    level = Level.WARNING
    summary = "Every worker iterates over the whole dataset: each sample comes once for every worker."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        method = view.method("__iter__") if view.node.bases else None
        if method is None:
            return
        bases = semantics.ancestors(view.node)
        if _ITERABLE not in bases or _PIPE in bases or semantics.module.mentions_call("get_worker_info"):
            return
        loaders = [call for call in loaders_of(semantics, view.node) if _copies(call, method, semantics)]
        if not loaders:
            return
        found = list(sources(semantics, method))
        if not found or not all(is_whole(semantics, source) for source in found):
            return
        running = view.called_from("__iter__", "__next__")
        if _splits(view, semantics) or any(_draws(function, semantics) for function in running):
            return
        message = f"`{view.name}` gives all its samples in every worker of the `DataLoader`: each comes several times."
        related = [(source, "all of it, in each worker") for source in found[:1] if source is not None]
        yield self.found(method, message, related=[*related, (loaders[0], "loaded with workers")])


def _copies(call: ast.Call, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether a loader starts workers that each run this ``__iter__`` as it is."""
    node = loaded_class(semantics, call)
    if node is None or semantics.find_method(node, "__iter__") is not method or not has_workers(semantics, call):
        return False
    if semantics.literal(loader_argument(call, "num_workers")) == 1:
        return False
    return loader_argument(call, "worker_init_fn") is None and not has_unknown_arguments(call)


def _splits(view: ClassView, semantics: Semantics) -> bool:
    """Whether the class, or a base of it in the file, speaks of workers or shards."""
    classes = [view, *(ClassView(semantics, base) for base in semantics.local_bases(view.node))]
    return any(_SPLITS.search(name) for item in classes for method in item.methods for name in _words(method))


def _words(method: FunctionNode) -> Iterable[str]:
    yield method.name
    for node in nodes_within(method, ast.Name, ast.Attribute, ast.arg, ast.keyword):
        for field in ("id", "attr", "arg"):
            yield getattr(node, field, None) or ""


def _draws(function: FunctionNode, semantics: Semantics) -> bool:
    """Whether a method makes or chooses samples at random, rather than only bringing them into an order."""
    for call in nodes_within(function, ast.Call):
        assert isinstance(call, ast.Call)
        name = semantics.name(call.func)
        if name.startswith(_RANDOM) and name.rpartition(".")[2] not in _ORDERING:
            return True
        match call.func:
            case ast.Attribute(value=ast.Attribute(attr=owner) | ast.Name(id=owner), attr=drawn):
                if re.search(r"rng|random|generator", owner, re.IGNORECASE) and drawn not in _ORDERING:
                    return True
    return False
