"""Which calls made a dataset: on all paths, behind parts of it (``Subset``, ``random_split``) and joins."""

from __future__ import annotations

import ast

from torchlint.idioms.data.loader_use import Phase, dicts_behind, entries_under, phase_called, stated_phase
from torchlint.idioms.training.construction import Constructions, constructions
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics

_SPLIT = "torch.utils.data.random_split"
#: Datasets over (a part of) the map-style dataset that they are given first.
PARTS = ("torch.utils.data.Subset", _SPLIT)
_JOINED = ("torch.utils.data.ConcatDataset", "torch.utils.data.StackDataset")
#: What loads datasets of Hugging Face, and methods that make one of another, in the same order.
HUGGING_FACE = ("datasets.load_dataset", "datasets.load_from_disk")
_SAME_ORDER = frozenset(
    "map filter with_format with_transform remove_columns rename_column rename_columns cast".split()
)
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
    if not values:
        return _of_hugging_face(semantics, entry.value, depth)
    return _joined([built_datasets(semantics, value, depth + 1) for value in values])


def _of_hugging_face(semantics: Semantics, whole: ast.expr, depth: int) -> Constructions:
    """What loads the datasets of Hugging Face that something was taken from or made of."""
    built = built_datasets(semantics, whole, depth + 1)
    loaded = all(semantics.is_named(call.func, *HUGGING_FACE) for call in built.calls)
    return built if loaded else Constructions((), False)


def _inside(semantics: Semantics, call: ast.Call, depth: int) -> Constructions:
    itself = Constructions((call,), True)
    if semantics.is_named(call.func, *PARTS):
        whole = built_datasets(semantics, argument(call, 0, "dataset"), depth + 1)
        return whole if whole.complete else itself
    if semantics.is_named(call.func, *_JOINED):
        match argument(call, 0, "datasets"):
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements:
                return _joined([built_datasets(semantics, element, depth + 1) for element in elements])
    if isinstance(call.func, ast.Attribute) and call.func.attr in _SAME_ORDER:
        loaded = _of_hugging_face(semantics, call.func.value, depth)
        return loaded if loaded.complete else itself
    return itself


def phase_of_dataset(semantics: Semantics, dataset: ast.expr | None) -> Phase | None:
    """Which part of the data a dataset is, as all of the calls that may have made it say: by a literal argument (see
    ``stated_phase``), or by the name of the folder that it reads."""
    stated = stated_phase(semantics, dataset)
    if stated is not None:
        return stated
    built = built_datasets(semantics, dataset)
    phases = {stated_phase(semantics, call) or _named_phase(semantics, call) for call in built.calls}
    return phases.pop() if built.complete and len(phases) == 1 else None


def _named_phase(semantics: Semantics, made: ast.Call) -> Phase | None:
    """The part that one of the arguments of a dataset names: ``"val"``, ``os.path.join(root, "val")``."""
    given = (*made.args, *(item.value for item in made.keywords))
    found = {phase for item in given if (phase := phase_called(_last_component(semantics, item))) is not None}
    return found.pop() if len(found) == 1 else None


def _last_component(semantics: Semantics, path: ast.expr) -> str:
    """The last part of a path that is a literal there; an empty text for anything else."""
    match semantics.value_of(path):
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[*_, ast.Constant(value=str(text))]):
            return text.rstrip("/").rpartition("/")[2]
        case ast.Call(args=[*_, last]) as call if semantics.is_named(call.func, "os.path.join"):
            return _last_component(semantics, last)
        case ast.Call(args=[inner]) as call if semantics.is_named(call.func, "pathlib.Path"):
            return _last_component(semantics, inner)
        case ast.BinOp(op=ast.Div() | ast.Add(), right=right):
            return _last_component(semantics, right)
        case _:
            return ""
