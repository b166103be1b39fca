"""How many samples a number counts (``len(loader.dataset)``, ``seen += x.size(0)``), and the loader of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.data.loaders import LOADER, all_loaders, loader_argument
from torchlint.semantics.nodes import element_of, enclosing_function, has_unknown_arguments, targets_of
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: What a progress bar or a counter is called that gives the batches of its first argument.
_SHOWS_PROGRESS = frozenset(("tqdm", "track", "enumerate", "iter", "islice", "trange", "progress_bar"))
_SUBSET_SAMPLERS = ("torch.utils.data.SubsetRandomSampler", "torch.utils.data.sampler.SubsetRandomSampler")
_DEEPEST = 4


@dataclass(frozen=True, eq=False, slots=True)
class SampleCount:
    """A number of samples: those of ``loader``, or those that ``loop`` has gone over. ``whole``: those of its dataset,
    whatever its sampler gives."""

    loader: str
    loop: ast.For | None = None
    whole: bool = False

    @property
    def batches(self) -> str:
        """The number of batches, as an expression."""
        return f"len({self.loader})"

    def is_of(self, loop: ast.For, semantics: Semantics) -> bool:
        """Whether the samples are those that a loop goes over."""
        return loop is self.loop if self.loop is not None else self.loader == loader_of(loop.iter, semantics)


def counts_of(semantics: Semantics, divisor: ast.expr) -> list[SampleCount]:
    """The loaders whose samples a divisor counts; empty where it is no such count."""
    match divisor:
        case ast.Call(func=ast.Name(id="float" | "int" | "max"), args=[inner, *_]):
            return counts_of(semantics, inner)
    if isinstance(divisor, ast.Subscript):
        return list(_counts_of_entry(semantics, divisor))
    value = semantics.value_of(divisor)
    match value:
        case ast.Call(func=ast.Name(id="len") as function, args=[counted]) if not semantics.definitions(function):
            pass
        case _:
            return []
    match counted:
        case ast.Attribute(value=loader, attr="dataset" | "sampler" as of):
            return [SampleCount(ast.unparse(loader), whole=of == "dataset")]
        case ast.Name() | ast.Attribute():
            return [SampleCount(name, whole=True) for name in _loaders_over(semantics, counted)]
        case _:
            return []


def _counts_of_entry(semantics: Semantics, entry: ast.Subscript) -> Iterator[SampleCount]:
    """The loaders of ``sizes[phase]``, where all sizes and all loaders are made of the same datasets:
    ``sizes = {x: len(data[x]) for x in phases}``, ``loaders = {x: DataLoader(data[x], ...) for x in phases}``."""
    match semantics.value_of(entry.value):
        case ast.DictComp(
            key=ast.Name(id=key),
            value=ast.Call(func=ast.Name(id="len"), args=[ast.Subscript(value=data, slice=ast.Name(id=at))]),
        ) if key == at:
            pass
        case _:
            return
    for call in semantics.module.calls_of("DataLoader"):
        made = parent_of(call)
        statement = parent_of(made) if made is not None else None
        match made, loader_argument(call, "dataset"):
            case (
                ast.DictComp(key=ast.Name(id=key), value=value),
                ast.Subscript(value=source, slice=ast.Name(id=at)),
            ) if value is call and key == at and ast.unparse(source) == ast.unparse(data):
                pass
            case _:
                continue
        if not semantics.is_named(call.func, LOADER) or gives_single_samples(call, semantics):
            continue
        targets = targets_of(statement)
        if len(targets) == 1:
            yield SampleCount(f"{ast.unparse(targets[0])}[{ast.unparse(entry.slice)}]")


def _loaders_over(semantics: Semantics, dataset: ast.expr) -> Iterator[str]:
    """The names of the loaders of this file that are built over a dataset."""
    text = ast.unparse(dataset)
    for call in semantics.module.calls_of("DataLoader"):
        given = loader_argument(call, "dataset")
        statement = parent_of(call)
        if given is None or ast.unparse(given) != text or not semantics.is_named(call.func, LOADER):
            continue
        targets = targets_of(statement)
        if len(targets) == 1:
            here = enclosing_function(call) in (None, enclosing_function(dataset))
            if here or text.startswith("self."):
                yield ast.unparse(targets[0])


def is_batch_size(expression: ast.expr) -> bool:
    """Whether an expression is the number of samples of a batch: ``x.size(0)``, ``x.shape[0]``, ``len(x)``."""
    match expression:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return True
        case _:
            return False


def loader_of(source: ast.expr, semantics: Semantics, depth: int = 0) -> str:
    """The loader that a loop goes over, as it is written, without counters and progress bars (``bar = tqdm(loader)``
    before the loop as well)."""
    while isinstance(source, ast.Call) and source.args:
        called = source.func
        name = last_name(called)
        if name not in _SHOWS_PROGRESS:
            break
        source = source.args[0]
    if isinstance(source, ast.Name) and depth < _DEEPEST:
        shown = {_shown_by(value, semantics, depth) for value in _values(source, semantics)}
        if len(shown) == 1 and (loader := shown.pop()):
            return loader
    return ast.unparse(source)


def _values(name: ast.Name, semantics: Semantics) -> list[ast.expr | None]:
    return [
        definition.value if definition.kind is Binding.ASSIGNMENT and not definition.path else None
        for definition in semantics.definitions(name)
    ]


def _shown_by(value: ast.expr | None, semantics: Semantics, depth: int) -> str:
    """The loader of ``tqdm(loader)``, or of another name of it; empty for anything else."""
    match value:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in _SHOWS_PROGRESS:
            return loader_of(value, semantics, depth + 1)
        case ast.Name():
            return loader_of(value, semantics, depth + 1)
        case _:
            return ""


def loader_build(source: ast.expr, semantics: Semantics) -> ast.Call | None:
    """The call of ``DataLoader`` that made an object, if the file shows it."""
    kind = semantics.kind(source)
    build = kind.node if kind is not None else None
    return build if isinstance(build, ast.Call) and semantics.is_named(build.func, LOADER) else None


def gives_single_samples(build: ast.Call, semantics: Semantics) -> bool:
    """Whether a loader certainly gives single samples."""
    if has_unknown_arguments(build) or loader_argument(build, "batch_sampler") is not None:
        return False
    size = loader_argument(build, "batch_size")
    return size is None or semantics.literal(size) in (1, None)


def subset_sampler(build: ast.Call, semantics: Semantics) -> ast.expr | None:
    """The sampler by which a loader gives only a part of its dataset: one over a slice of the indices, or one of two
    over the same dataset. None where it may give all samples."""
    sampler, dataset = loader_argument(build, "sampler"), loader_argument(build, "dataset")
    indices = _subset_of(sampler, semantics)
    if sampler is None or dataset is None or indices is None:
        return None
    if _is_slice(indices, semantics):
        return sampler
    for other in all_loaders(semantics):
        same = loader_argument(other, "dataset")
        its = loader_argument(other, "sampler")
        if other is build or same is None or its is None or ast.unparse(same) != ast.unparse(dataset):
            continue
        its_indices = _subset_of(its, semantics)
        if its_indices is not None and not _may_hold(indices, its_indices):
            return sampler
    return None


def _may_hold(indices: ast.expr, others: ast.expr) -> bool:
    """Whether all others may be among these indices: ``order`` and ``order[:100]``."""
    return ast.unparse(indices) in ast.unparse(others)


def _subset_of(sampler: ast.expr | None, semantics: Semantics) -> ast.expr | None:
    """The indices that a ``SubsetRandomSampler`` was given."""
    made = semantics.value_of(sampler)
    if isinstance(made, ast.Call) and made.args and semantics.is_named(made.func, *_SUBSET_SAMPLERS):
        return made.args[0]
    return None


def _is_slice(indices: ast.expr, semantics: Semantics) -> bool:
    if isinstance(indices, ast.Name):
        found = semantics.definitions(indices)
        values = [
            element_of(item.value, item.path) if item.value is not None and item.kind is Binding.ASSIGNMENT else None
            for item in found
        ]
        return bool(values) and all(value is not None and _is_slice_itself(value) for value in values)
    return _is_slice_itself(indices)


def _is_slice_itself(value: ast.expr) -> bool:
    return isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)


def drops_last(loader: ast.expr, semantics: Semantics) -> bool:
    """Whether all batches of a loader may be of the same size: its ``drop_last`` is given, or its making cannot be seen
    and some loader of the file has one."""
    build = loader_build(loader, semantics)
    builds = [build] if build is not None else list(all_loaders(semantics))
    return any(has_unknown_arguments(call) or _may_drop(call, semantics) for call in builds)


def _may_drop(call: ast.Call, semantics: Semantics) -> bool:
    given = loader_argument(call, "drop_last")
    return given is not None and semantics.literal(given) is not False
