from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaders import loaded_class, loader_argument, loaders_of
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit

_DATASET = "torch.utils.data.Dataset"
#: Base classes that say nothing about samples.
_EMPTY_BASES = frozenset(("abc.ABC", "typing.Generic", "typing.Protocol", _DATASET))
#: What takes the length of its first argument when it is called (torch 2.13).
_ASKING_LENGTH = (
    "torch.utils.data.random_split",
    "torch.utils.data.RandomSampler",
    "torch.utils.data.DistributedSampler",
    "torch.utils.data.distributed.DistributedSampler",
    "len",
)
_READS = ("__getitem__", "__getitems__", "__getattr__")


class IncompleteDataset(Rule):
    """## What it does

    Reports a `Dataset` that a `DataLoader` of the same file gets and that has no `__getitem__`, or no `__len__` where
    no sampler is given; one without `__len__` that is split, or whose length a sampler or `len` asks for; and one with
    a misspelt `__getitem__` or `__len__`.

    ## Why is this bad?

    Without `__getitem__` the first sample raises `NotImplementedError`. Without `__len__` the default samplers raise
    "object of type ... has no len()": with `shuffle=True` when the loader is made, else at the first batch.

    ## Example

    ```python
    from torch.utils.data import DataLoader, Dataset


    class Pairs(Dataset):
        def __init__(self, pairs):
            self.pairs = pairs

        def __getitem__(self, index):
            return self.pairs[index]


    loader = DataLoader(Pairs(pairs), batch_size=8)
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader, Dataset


    class Pairs(Dataset):
        def __init__(self, pairs):
            self.pairs = pairs

        def __getitem__(self, index):
            return self.pairs[index]

        def __len__(self):
            return len(self.pairs)


    loader = DataLoader(Pairs(pairs), batch_size=8)
    ```

    ## Exceptions

    Classes with bases or mixins that are not in the file, abstract bases that no loader gets, an `IterableDataset`, and
    loaders with a sampler of their own (they need no `__len__`).

    ## References

    - [Map-style datasets](https://docs.pytorch.org/docs/stable/data.html#map-style-datasets)
    """

    code = "TL512"
    name = "incomplete-dataset"
    level = Level.ERROR
    summary = "A loader raises with a dataset that lacks `__getitem__` or `__len__`."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if not view.node.bases or not _is_plain_dataset(view, unit):
            return
        loaders = [call for call in loaders_of(unit.semantics, view.node) if not is_expected_to_raise(call)]
        loaders = [call for call in loaders if loaded_class(unit.semantics, call) is view.node]
        lacks_item = not _has(view, unit, *_READS)
        lacks_length = not _has(view, unit, "__len__", "__getattr__")
        for method in [name for name, lacks in (("__getitem__", lacks_item), ("__len__", lacks_length)) if lacks]:
            misspelt = next((item for item in view.methods if _is_misspelt(item.name, method)), None)
            if misspelt is not None:
                message = f"`{misspelt.name}` is not what a loader calls: `{view.name}` has no `{method}`."
                yield self.found(misspelt, message)
                return
        counted = [call for call in loaders if _needs_length(call, unit)]
        if lacks_length and counted:
            missing = "neither `__getitem__` nor `__len__`" if lacks_item else "no `__len__`"
            message = f"`{view.name}` has {missing}: the sampler of the loader raises."
            yield self.found(view.node, message, related=[(counted[0], "loaded here")])
        elif lacks_length and (asked := next(_asks_length(view, unit), None)) is not None:
            message = f"`{view.name}` has no `__len__`: `{last_name(asked.func)}` asks for it and raises."
            yield self.found(view.node, message, related=[(asked, "asks for the length")])
        elif lacks_item and loaders:
            message = f"`{view.name}` has no `__getitem__`: the first sample raises `NotImplementedError`."
            yield self.found(view.node, message, related=[(loaders[0], "loaded here")])


def _is_plain_dataset(view: ClassView, unit: Unit) -> bool:
    """Whether a class is a map-style dataset of which the file shows all bases."""
    ancestors = unit.semantics.ancestors(view.node)
    if _DATASET not in ancestors or view.node.decorator_list or view.node.keywords:
        return False
    foreign = {name for name in ancestors if not name.startswith(".")}
    return foreign <= _EMPTY_BASES and not unit.semantics.has_unknown_base(view.node)


def _has(view: ClassView, unit: Unit, *names: str) -> bool:
    """Whether a class or a base in this file defines one of these names, as a method or in another way."""
    module = unit.semantics.module
    return any(
        module.method(node, name) is not None or module.body_definitions(node, name)
        for node in unit.semantics.lineage(view.node)
        for name in names
    )


def _asks_length(view: ClassView, unit: Unit) -> Iterator[ast.Call]:
    """The calls in this file that take the length of an instance of the class: splits, samplers, ``len``."""
    semantics = unit.semantics
    asked = [semantics.literal(argument(call, 1, None)) for call in semantics.module.calls_of("hasattr")]
    for name in _ASKING_LENGTH if "__len__" not in asked else _ASKING_LENGTH[:-1]:
        for call in semantics.module.calls_of(name.rpartition(".")[2]):
            kind = semantics.kind(argument(call, 0, "dataset"))
            if kind is None or not kind.proven or kind.class_node is not view.node or is_expected_to_raise(call):
                continue
            if semantics.is_named(call.func, name) or builtin_called(semantics, call) == name:
                yield call


def _needs_length(call: ast.Call, unit: Unit) -> bool:
    given = (loader_argument(call, name) for name in ("sampler", "batch_sampler"))
    return not has_unknown_arguments(call) and all(
        item is None or unit.semantics.literal(item) is None for item in given
    )


def _is_misspelt(name: str, method: str) -> bool:
    """Whether a name was certainly meant to be a special method: the same letters with other underscores or case."""
    special = name.startswith("__") or (name.startswith("_") and name.endswith("_"))
    letters = name.replace("_", "").lower()
    return special and name != method and letters == method.replace("_", "")
