from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchlint.fixes.editor import Editor
from torchlint.idioms.loaders import LOADER, loader_argument
from torchlint.idioms.reductions import is_batch_mean
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node
from torchlint.semantics.module import enclosing_function
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics, contains, has_unknown_arguments
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
    if not isinstance(build, ast.Call) or not semantics.is_named(build.func, LOADER):
        return False
    if has_unknown_arguments(build) or loader_argument(build, "batch_sampler") is not None:
        return False
    size = loader_argument(build, "batch_size")
    return size is None or semantics.literal(size) in (1, None)


def _dividing_by(divisor: ast.expr, text: str) -> Callable[[Editor], None]:
    return lambda edit: edit.replace(divisor, text)
