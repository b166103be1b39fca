from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchlint.fixes.editor import Editor
from torchlint.idioms.data.loaders import LOADER, loader_argument
from torchlint.idioms.training.reductions import is_batch_mean
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node
from torchlint.semantics.nodes import contains, enclosing_function, has_unknown_arguments
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What a progress bar or a counter is called that gives the batches of its first argument.
_SHOWS_PROGRESS = frozenset(("tqdm", "track", "enumerate", "iter", "islice", "trange", "progress_bar"))


@dataclass(frozen=True, eq=False, slots=True)
class _Count:
    """A number of samples: those of ``loader`` (``len(loader.dataset)``), or those that ``loop`` has gone over."""

    loader: str
    loop: ast.For | None = None

    @property
    def batches(self) -> str:
        """The number of batches, as an expression."""
        return f"len({self.loader})"

    def is_of(self, loop: ast.For) -> bool:
        return loop is self.loop if self.loop is not None else self.loader == _loader_of(loop.iter)


class EpochLossWrongDenominator(Rule):
    """## What it does

    Reports batch losses that are means, added up over a loader, and divided by the number of samples
    (`len(loader.dataset)`).

    ## Why is this bad?

    Each batch loss is divided by the size of the batch already. The mean that is told is too small by that factor,
    changes with the batch size, and cannot be compared with another run or with the validation loss.

    ## Example

    ```python
    import torch.nn.functional as F


    def validate(model, loader):
        total = 0.0
        for x, y in loader:
            total += F.cross_entropy(model(x), y).item()
        return total / len(loader.dataset)
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def validate(model, loader):
        total = 0.0
        for x, y in loader:
            total += F.cross_entropy(model(x), y).item()
        return total / len(loader)
    ```

    Where the last batch is smaller than the others, `total += loss.item() * len(x)` with `len(loader.dataset)` is the
    exact mean.

    ## Exceptions

    Losses with `reduction="sum"`, losses that are weighted by the size of their batch, loaders with batches of one
    sample, and losses whose reduction cannot be seen.

    ## References

    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL228"
    name = "epoch-loss-wrong-denominator"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Each batch loss is a mean already, so the loss of the epoch is too small."

    @on_node(ast.BinOp, ast.AugAssign)
    def check(self, node: ast.BinOp | ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(node.op, ast.Div):
            return
        total, divisor = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        counts = _counts_of(unit.semantics, divisor) or list(_counted_in_loops(divisor, unit))
        if not counts:
            return
        for add, loop in _additions(total, unit):
            count = next((count for count in counts if count.is_of(loop)), None)
            if count is None or not _is_mean_of_many(add, loop, unit.semantics):
                continue
            shown, loader = ast.unparse(total), ast.unparse(divisor)
            message = f"`{shown}` adds up means of batches, but `{loader}` counts samples: the mean is far too small."
            related = [(add, "the mean of a batch is added here")]
            fix = FixPlan(f"Divide by `{count.batches}`", "unsafe", _dividing_by(divisor, count.batches))
            yield self.found(divisor, message, related=related, fixes=[] if contains(loop, node) else [fix])
            return


def _counts_of(semantics: Semantics, divisor: ast.expr) -> list[_Count]:
    """The loaders whose samples a divisor counts; empty where it is no such count."""
    match divisor:
        case ast.Call(func=ast.Name(id="float" | "int" | "max"), args=[inner, *_]):
            return _counts_of(semantics, inner)
    if isinstance(divisor, ast.Subscript):
        return list(_counts_of_entry(semantics, divisor))
    value = semantics.value_of(divisor)
    match value:
        case ast.Call(func=ast.Name(id="len") as function, args=[counted]) if not semantics.definitions(function):
            pass
        case _:
            return []
    match counted:
        case ast.Attribute(value=loader, attr="dataset" | "sampler"):
            return [_Count(ast.unparse(loader))]
        case ast.Name() | ast.Attribute():
            return [_Count(name) for name in _loaders_over(semantics, counted)]
        case _:
            return []


def _counts_of_entry(semantics: Semantics, entry: ast.Subscript) -> Iterator[_Count]:
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
        if not semantics.is_named(call.func, LOADER) or _gives_one(call, semantics):
            continue
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield _Count(f"{ast.unparse(statement.targets[0])}[{ast.unparse(entry.slice)}]")


def _counted_in_loops(divisor: ast.expr, unit: Unit) -> Iterator[_Count]:
    """The loops that count their samples in a divisor: ``total += labels.size(0)``."""
    if not isinstance(divisor, ast.Name):
        return
    found = list(_additions(divisor, unit))
    if all(_is_batch_size(added) for added, _ in found):
        yield from (_Count(_loader_of(loop.iter), loop) for _, loop in found)


def _is_batch_size(added: ast.expr) -> bool:
    match added:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return True
        case _:
            return False


def _loaders_over(semantics: Semantics, dataset: ast.expr) -> Iterator[str]:
    """The names of the loaders of this file that are built over a dataset."""
    text = ast.unparse(dataset)
    for call in semantics.module.calls_of("DataLoader"):
        given = loader_argument(call, "dataset")
        statement = parent_of(call)
        if given is None or ast.unparse(given) != text or not semantics.is_named(call.func, LOADER):
            continue
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            here = enclosing_function(call) in (None, enclosing_function(dataset))
            if here or text.startswith("self."):
                yield ast.unparse(statement.targets[0])


def _additions(total: ast.expr, unit: Unit) -> Iterator[tuple[ast.expr, ast.For]]:
    """What is added to a running total in loops, if the total is a name that starts from a constant and that nothing
    else changes."""
    if isinstance(total, ast.Call) and isinstance(total.func, ast.Name) and total.func.id == "float" and total.args:
        total = total.args[0]
    match total:
        case ast.Call(func=function, args=[ast.Name() as losses]) if _is_sum(unit.semantics, function):
            yield from _appended(losses, unit)
            return
    if not isinstance(total, ast.Name):
        return
    found: list[tuple[ast.expr, ast.For]] = []
    for binding in unit.semantics.bindings(total):
        match binding.node:
            case ast.AugAssign(op=ast.Div()):
                continue
            case ast.AugAssign(op=ast.Add(), value=added):
                pass
            case ast.Assign(value=ast.BinOp(op=ast.Add(), left=ast.Name(id=name), right=added)) if name == total.id:
                pass
            case ast.Assign(value=ast.BinOp(op=ast.Div(), left=ast.Name(id=name))) if name == total.id:
                continue
            case _ if binding.kind is Binding.ASSIGNMENT and unit.semantics.literal(binding.value) in (0, 0.0):
                continue
            case ast.Assign(value=ast.Tuple()) if binding.kind is Binding.ASSIGNMENT:
                continue
            case _:
                return
        loop = _loop_around(binding.node)
        if loop is not None:
            found.append((added, loop))
    yield from found


def _is_sum(semantics: Semantics, function: ast.expr) -> bool:
    if isinstance(function, ast.Name) and function.id == "sum" and not semantics.definitions(function):
        return True
    return semantics.is_named(function, "numpy.sum")


def _appended(losses: ast.Name, unit: Unit) -> Iterator[tuple[ast.expr, ast.For]]:
    """What loops put into a list that starts empty and that only ``append`` fills."""
    bindings = unit.semantics.bindings(losses)
    if not all(isinstance(binding.value, ast.List) and not binding.value.elts for binding in bindings):
        return
    for call in unit.all(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="append"), args=[added]):
                loop = _loop_around(call)
                if loop is not None and name.id == losses.id and unit.semantics.bindings(name) == bindings:
                    yield added, loop


def _loop_around(node: ast.AST) -> ast.For | None:
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.For):
        current = parent_of(current)
    return current if isinstance(current, ast.For) else None


def _loader_of(source: ast.expr) -> str:
    """The loader that a loop goes over, as it is written, without counters and progress bars."""
    while isinstance(source, ast.Call) and source.args:
        called = source.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in _SHOWS_PROGRESS:
            break
        source = source.args[0]
    return ast.unparse(source)


def _is_mean_of_many(added: ast.expr, loop: ast.For, semantics: Semantics) -> bool:
    """Whether what is added is the mean of a batch that holds more than one sample."""
    return is_batch_mean(semantics, added) and not _gives_single_samples(loop, semantics)


def _gives_single_samples(loop: ast.For, semantics: Semantics) -> bool:
    source = loop.iter
    while isinstance(source, ast.Call) and source.args:
        source = source.args[0]
    kind = semantics.kind(source)
    build = kind.node if kind is not None else None
    return isinstance(build, ast.Call) and semantics.is_named(build.func, LOADER) and _gives_one(build, semantics)


def _gives_one(build: ast.Call, semantics: Semantics) -> bool:
    """Whether a loader certainly gives single samples."""
    if has_unknown_arguments(build) or loader_argument(build, "batch_sampler") is not None:
        return False
    size = loader_argument(build, "batch_size")
    return size is None or semantics.literal(size) in (1, None)


def _dividing_by(divisor: ast.expr, text: str) -> Callable[[Editor], None]:
    return lambda edit: edit.replace(divisor, text)
