"""Which calls made a dataset: on all paths, behind parts of it (``Subset``, ``random_split``) and joins."""

from __future__ import annotations

import ast

from torchlint.idioms.data.loader_use import Phase, dicts_behind, entries_under, stated_phase
from torchlint.idioms.training.construction import Constructions, constructions
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics

_SPLIT = "torch.utils.data.random_split"
#: Datasets over (a part of) the map-style dataset that they are given first.
PARTS = ("torch.utils.data.Subset", _SPLIT)
_JOINED = ("torch.utils.data.ConcatDataset", "torch.utils.data.StackDataset")
_DEEPEST = 4


def built_datasets(semantics: Semantics, dataset: ast.expr | None, depth: int = 0) -> Constructions:
    """The calls that made a dataset, or the whole ones that it is a part or a join of. Where the whole of a part is not
    known, the call that makes the part stands for it."""
    value = semantics.value_of(dataset)
    if value is None or depth > _DEEPEST:
        return Constructions((), False)
    if isinstance(value, ast.Subscript):
        return _of_entries(semantics, value, depth)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _joined([built_datasets(semantics, side, depth + 1) for side in (value.left, value.right)])
    found = constructions(semantics, dataset, (_SPLIT,))
    inner = [_inside(semantics, call, depth) for call in found.calls]
    joined = _joined(inner)
    return Constructions(joined.calls, joined.complete and found.complete)


def _joined(found: list[Constructions]) -> Constructions:
    calls = dict.fromkeys(call for item in found for call in item.calls)
    return Constructions(tuple(calls), bool(found) and all(item.complete for item in found))


def _of_entries(semantics: Semantics, entry: ast.Subscript, depth: int) -> Constructions:
    """The datasets that a dict of the file holds: ``datasets[phase]``."""
    key = semantics.literal(entry.slice)
    values = [
        value
        for container in dicts_behind(semantics, entry.value, depth)
        for value in entries_under(semantics, container, key)
    ]
    return _joined([built_datasets(semantics, value, depth + 1) for value in values])


def _inside(semantics: Semantics, call: ast.Call, depth: int) -> Constructions:
    itself = Constructions((call,), True)
    if semantics.is_named(call.func, *PARTS):
        whole = built_datasets(semantics, argument(call, 0, "dataset"), depth + 1)
        return whole if whole.complete else itself
    if semantics.is_named(call.func, *_JOINED):
        match argument(call, 0, "datasets"):
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements:
                return _joined([built_datasets(semantics, element, depth + 1) for element in elements])
    return itself


def phase_of_dataset(semantics: Semantics, dataset: ast.expr | None) -> Phase | None:
    """Which part of the data a dataset is, as all of the calls that may have made it say (see ``stated_phase``)."""
    stated = stated_phase(semantics, dataset)
    if stated is not None:
        return stated
    built = built_datasets(semantics, dataset)
    phases = {stated_phase(semantics, call) for call in built.calls} if built.complete else set()
    return phases.pop() if len(phases) == 1 else None
