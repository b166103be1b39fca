from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.data.sample_counts import (
    SampleCount,
    counts_of,
    drops_last,
    gives_single_samples,
    is_batch_size,
    loader_build,
    loader_of,
    subset_sampler,
)
from torchlint.idioms.training.reductions import is_batch_mean
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method, on_node, on_operation
from torchlint.semantics.nodes import argument, contains, shortened
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class EpochLossWrongDenominator(Rule):
    """## What it does

    Reports batch losses that are means, added up over a loader, and divided by the number of samples
    (`len(loader.dataset)`); and losses that are weighted by the size of their batch, where the sampler of the loader
    gives only a part of the dataset that is divided by. Points out `loader.batch_size` as the weight of every batch:
    the last one may be smaller.

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
    sample or with `drop_last`, and losses whose reduction cannot be seen.

    ## References

    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL228"
    name = "epoch-loss-wrong-denominator"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Each batch loss is a mean already, so the loss of the epoch is too small."

    @on_node(ast.AugAssign)
    @on_operation(ast.Div)
    def check(self, node: ast.BinOp | ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(node.op, ast.Div):
            return
        total, divisor = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        counts = counts_of(unit.semantics, divisor) or list(_counted_in_loops(divisor, unit))
        for add, loop in _additions(total, unit) if counts else ():
            count = next((count for count in counts if count.is_of(loop, unit.semantics)), None)
            if count is None:
                continue
            fixable = not contains(loop, node)
            if _is_mean_of_many(add, loop, unit.semantics):
                yield self._unweighted(total, divisor, add, count.batches if fixable else "")
                return
            weight = _weight(add, unit.semantics)
            if weight is not None and _is_nominal_size(weight, loop, unit.semantics):
                yield self._nominal(weight)
                return
            if weight is not None and is_batch_size(weight) and count.whole:
                yield from self._part(divisor, add, _source_of(loop), unit.semantics)
                return

    @on_method("update")
    def check_meter(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        """``meter.update(loss.item(), loader.batch_size)``"""
        if len(call.args) + len(call.keywords) != 2 or not call.args:
            return
        weight = argument(call, 1, "n")
        loop = _loop_around(call) if isinstance(weight, ast.Attribute) and weight.attr == "batch_size" else None
        if weight is None or loop is None or not _is_number(call.args[0], unit.semantics):
            return
        if _is_nominal_size(weight, loop, unit.semantics):
            yield self._nominal(weight)

    def _unweighted(self, total: ast.expr, divisor: ast.expr, add: ast.expr, batches: str) -> Diagnosis:
        shown, samples = ast.unparse(total), ast.unparse(divisor)
        message = f"`{shown}` adds up means of batches, but `{samples}` counts samples: the mean is far too small."
        related = [(add, "the mean of a batch is added here")]
        fix = FixPlan(f"Divide by `{batches}`", "unsafe", _dividing_by(divisor, batches))
        return self.found(divisor, message, related=related, fixes=[fix] if batches else [])

    def _part(self, divisor: ast.expr, add: ast.expr, loader: ast.expr, semantics: Semantics) -> Iterator[Diagnosis]:
        build = loader_build(loader, semantics)
        sampler = subset_sampler(build, semantics) if build is not None else None
        if build is None or sampler is None:
            return
        samples, given = ast.unparse(divisor), f"len({ast.unparse(loader)}.sampler)"
        message = (
            f"`{samples}` counts the whole dataset, but `{shortened(sampler, 40)}` gives a part of it: the mean is too"
            " small."
        )
        related = [(add, "only the samples of the loader are added here"), (build, "the loader is made here")]
        fix = FixPlan(f"Divide by `{given}`", "unsafe", _dividing_by(divisor, given))
        yield self.found(divisor, message, related=related, fixes=[fix])

    def _nominal(self, weight: ast.expr) -> Diagnosis:
        message = f"`{ast.unparse(weight)}` weights the last batch like a whole one, though it may hold fewer samples."
        return self.found(weight, message, severity=Severity.HINT)


def _counted_in_loops(divisor: ast.expr, unit: Unit) -> Iterator[SampleCount]:
    """The loops that count their samples in a divisor: ``total += labels.size(0)``."""
    if not isinstance(divisor, ast.Name):
        return
    found = list(_additions(divisor, unit))
    if all(is_batch_size(added) for added, _ in found):
        yield from (SampleCount(loader_of(loop.iter, unit.semantics), loop) for _, loop in found)


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


def _source_of(loop: ast.For) -> ast.expr:
    """What a loop goes over, inside all calls around it."""
    source = loop.iter
    while isinstance(source, ast.Call) and source.args:
        source = source.args[0]
    return source


def _is_mean_of_many(added: ast.expr, loop: ast.For, semantics: Semantics) -> bool:
    """Whether what is added is the mean of a batch that holds more than one sample."""
    if not is_batch_mean(semantics, added):
        return False
    build = loader_build(_source_of(loop), semantics)
    return build is None or not gives_single_samples(build, semantics)


def _weight(added: ast.expr, semantics: Semantics) -> ast.expr | None:
    """What the loss of a batch is multiplied by where it is added."""
    match added:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return next((b for a, b in ((left, right), (right, left)) if _is_number(a, semantics)), None)
        case _:
            return None


def _is_nominal_size(weight: ast.expr, loop: ast.For, semantics: Semantics) -> bool:
    """Whether a weight is the batch size that the loader of a loop was built with, which its last batch may not
    have."""
    match weight:
        case ast.Attribute(value=loader, attr="batch_size"):
            written = ast.unparse(loader)
            return written == loader_of(loop.iter, semantics) and not drops_last(loader, semantics)
        case _:
            return False


def _is_number(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is the number of a tensor: ``loss.item()``, ``float(loss)``, or the mean of a batch."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item"), args=[]) | ast.Call(func=ast.Name(id="float"), args=[_]):
            return True
        case _:
            return is_batch_mean(semantics, value)


def _dividing_by(divisor: ast.expr, text: str) -> Callable[[Editor], None]:
    return lambda edit: edit.replace(divisor, text)
