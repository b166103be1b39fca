from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loader_use import made_by
from torchlint.idioms.data.loaders import LOADER, loaded_class, loader_argument
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import has_unknown_arguments
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

#: Conflict of arguments: where it stands, what it says, and the other side of it.
_Conflict = tuple[ast.expr, str, list[ast.expr]]
_ITERABLE, _PIPE = "torch.utils.data.IterableDataset", "torch.utils.data.IterDataPipe"
#: Arguments that are for worker processes.
_FOR_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
#: What a class of samplers is called, wherever it comes from.
_SAMPLER_CLASS = regex(r"(^|\.)_*[A-Z]\w*Sampler$")


class DataloaderArgumentConflict(Rule):
    """## What it does

    Reports arguments of `DataLoader` that exclude each other: `sampler` with `shuffle=True`; `batch_sampler` with
    `batch_size`, `shuffle`, `sampler` or `drop_last`; `batch_size=None` with `drop_last=True`; `prefetch_factor`,
    `persistent_workers`, `multiprocessing_context` or `timeout` without workers; `shuffle`, `sampler` or
    `batch_sampler` with an `IterableDataset`; and numbers that it does not take (`batch_size=0`, `num_workers=-1`).

    ## Why is this bad?

    The construction raises a `ValueError` (a `timeout` without workers: an `AssertionError` at the first batch), often
    only after the minutes in which the data were prepared.

    ## Example

    ```python
    from torch.utils.data import DataLoader, WeightedRandomSampler

    sampler = WeightedRandomSampler(weights, num_samples=len(weights))
    loader = DataLoader(dataset, batch_size=32, shuffle=True, sampler=sampler)
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader, WeightedRandomSampler

    sampler = WeightedRandomSampler(weights, num_samples=len(weights))
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    ```

    ## Exceptions

    A value that is not known from the file, such as `shuffle=(sampler is None)` or a sampler that may be `None`. The
    absence of `num_workers` is not known where arguments are unpacked (`**options`).

    ## References

    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL501"
    name = "dataloader-argument-conflict"
    level = Level.ERROR
    summary = "`DataLoader` raises when it is given arguments that exclude each other."

    @on_call(LOADER)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        conflict = next(_conflicts(call, unit.semantics), None)
        if conflict is None or is_expected_to_raise(call):
            return
        place, message, others = conflict
        if in_version_fallback(unit.semantics, call):
            return
        related = [(other, "excluded by it") for other in others]
        yield self.found(place, message, related=related)


def _conflicts(call: ast.Call, semantics: Semantics) -> Iterator[_Conflict]:
    yield from _bad_numbers(call, semantics)
    yield from _with_iterable(call, semantics)
    yield from _of_samplers(call, semantics)
    yield from _without_workers(call, semantics)


def _bad_numbers(call: ast.Call, semantics: Semantics) -> Iterator[_Conflict]:
    for name, least, must in (
        ("batch_size", 1, "positive"),
        ("num_workers", 0, "0 or more"),
        ("prefetch_factor", 0, "0 or more"),
        ("timeout", 0, "0 or more"),
    ):
        given = loader_argument(call, name)
        value = semantics.literal(given)
        if given is not None and type(value) in (int, float) and value < least:  # type: ignore[operator]
            yield given, f"`{name}={value}` raises a `ValueError`: it must be {must}.", []


def _with_iterable(call: ast.Call, semantics: Semantics) -> Iterator[_Conflict]:
    node = loaded_class(semantics, call)
    if node is None:
        return
    bases = semantics.ancestors(node)
    if _ITERABLE not in bases or _PIPE in bases:
        return
    for name in ("shuffle", "sampler", "batch_sampler"):
        given = loader_argument(call, name)
        if given is None or not (_is_true(given, semantics) if name == "shuffle" else _is_object(given, semantics)):
            continue
        shown = "shuffle=True" if name == "shuffle" else name
        message = f"`{shown}` with the `IterableDataset` `{node.name}` raises: the dataset decides the order itself."
        yield given, message, []


def _of_samplers(call: ast.Call, semantics: Semantics) -> Iterator[_Conflict]:
    sampler = loader_argument(call, "sampler")
    shuffle = loader_argument(call, "shuffle")
    batch_sampler = loader_argument(call, "batch_sampler")
    drop_last = loader_argument(call, "drop_last")
    batch_size = loader_argument(call, "batch_size")
    has_sampler = sampler is not None and _is_object(sampler, semantics)
    if batch_sampler is not None and _is_object(batch_sampler, semantics):
        size = semantics.literal(batch_size) if batch_size is not None else 1
        excluded = {
            "batch_size": batch_size if size is not UNKNOWN and size != 1 else None,
            "shuffle": shuffle if _is_true(shuffle, semantics) else None,
            "sampler": sampler if has_sampler else None,
            "drop_last": drop_last if _is_true(drop_last, semantics) else None,
        }
        given = {name: value for name, value in excluded.items() if value is not None}
        if given:
            names = " and ".join(f"`{name}`" for name in given)
            message = f"`batch_sampler` excludes {names}, and `DataLoader` raises: it decides what a batch is."
            yield batch_sampler, message, list(given.values())
    if sampler is not None and has_sampler and shuffle is not None and _is_true(shuffle, semantics):
        message = "`shuffle=True` excludes `sampler`, and `DataLoader` raises: the sampler decides the order."
        yield shuffle, message, [sampler]
    if drop_last is None or not _is_true(drop_last, semantics) or batch_size is None:
        return
    if semantics.literal(batch_size) is None:
        yield drop_last, "`drop_last=True` raises with `batch_size=None`, which switches batching off.", [batch_size]


def _without_workers(call: ast.Call, semantics: Semantics) -> Iterator[_Conflict]:
    workers = loader_argument(call, "num_workers")
    if workers is None and has_unknown_arguments(call):
        return
    if workers is not None and (type(semantics.literal(workers)) is not int or semantics.literal(workers) != 0):
        return
    for name in _FOR_WORKERS:
        given = loader_argument(call, name)
        value = semantics.literal(given)
        if given is None or value is UNKNOWN or value is None or value is False or (name == "timeout" and value == 0):
            continue
        raises = "raises at the first batch" if name == "timeout" else "raises"
        without = "with `num_workers=0`" if workers is not None else "without `num_workers`, which is 0 by default"
        yield given, f"`{name}` {raises} {without}: it is for worker processes.", [workers] if workers else []


def _is_true(expression: ast.expr | None, semantics: Semantics) -> bool:
    return semantics.literal(expression) is True


def _is_object(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether an expression is certainly a sampler, and not ``None``, whichever branch has bound it."""
    if isinstance(expression, ast.Name):
        bound = [definition.value for definition in semantics.definitions(expression) if not definition.path]
        if len(bound) > 1 and len(bound) == len(semantics.definitions(expression)):
            return all(_makes_sampler(value, semantics) for value in bound)
    if isinstance(expression, ast.Attribute):
        return _makes_sampler(made_by(semantics, expression), semantics)
    return _makes_sampler(semantics.value_of(expression), semantics)


def _makes_sampler(value: ast.expr | None, semantics: Semantics) -> bool:
    if isinstance(value, ast.List | ast.ListComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    if semantics.local_class(value.func) is not None or _SAMPLER_CLASS.search(semantics.name(value.func)):
        return True
    kind = semantics.kind(value)
    return kind is not None and kind.what is What.SAMPLER and bool(kind.origin)
