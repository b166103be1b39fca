from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.surroundings.called_code import function_run_by
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import training_of
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.host_reads import (
    is_certainly_tensor,
    is_computed,
    is_decided,
    is_for_environment,
    is_read_by_test,
    reads_computed_value,
)
from torchlint.idioms.values.invariants import loops_around
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Attempt, Branch, Flow, Loop, children, walk
from torchlint.semantics.nodes import (
    argument,
    begins_before,
    contains,
    enclosing_function,
    nodes_within,
    position_of,
    statement_of,
)
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of, part_of

_READS = frozenset(("item", "cpu", "tolist"))
#: Builtins that read the value of a tensor.
_READING = frozenset(("float", "int", "bool", "print"))
#: A condition that ends the step is a guard, against NaN for instance.
_JUMPS = (ast.Break, ast.Continue, ast.Return, ast.Raise)
#: What runs in each call of the function that it is in.
_STRAIGHT = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.With, ast.Try, ast.expr, ast.keyword)
_BATCHES = regex(r"load|batch|dataset|\bdl\b|_dl\b", re.IGNORECASE)
_MEASURES_IN_NAME = regex(r"bench|profil|latency|throughput|eval|valid|test", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class _Read:
    """A place at which the CPU waits for a value. ``early``: more of the step is queued after it."""

    node: ast.expr
    early: bool

    @property
    def shown(self) -> str:
        text = ast.unparse(self.node).replace("'", '"')
        return text if len(text) <= 60 else f"{text[:56]}..."


class SyncInLoop(Rule):
    """## What it does

    Points out values that are read from the GPU in each training step: `.item()`, `.cpu()`, `.tolist()`, `float(t)`,
    `print(t)`, `if t > 0`. Once a loop: where one is read before the backward pass, or where several are.

    ## Why is this bad?

    CUDA works through a queue that the CPU fills. A read makes the CPU wait until the queue is empty, and the GPU then
    waits for the CPU to fill it again. In real projects that was up to half of the time of a step.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs.cuda()), targets.cuda())
            total += loss.item()
            loss.backward()
            optimizer.step()
        return total / len(loader)
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion, optimizer):
        total = torch.zeros((), device="cuda")
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs.cuda()), targets.cuda())
            total += loss.detach()
            loss.backward()
            optimizer.step()
        return total.item() / len(loader)
    ```

    ## Exceptions

    One read behind the backward pass, for a log or a decision; what is read under a condition (`if step % 100 == 0:`);
    guards (`if loss > limit: break`) and `assert`; values for the `step` of an environment; loops that do not run over
    batches; files in which nothing goes to a GPU.

    ## References

    - [Performance Tuning Guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization)
    - [torch.cuda.set_sync_debug_mode](https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html)
    """

    code = "TL604"
    name = "sync-in-loop"
    level = Level.HINT
    summary = "The CPU waits for the GPU in each training step, and then the GPU for the CPU."

    @on_flow("backward")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        if _MEASURES_IN_NAME.search(root.name) or not _may_use_gpu(unit.semantics):
            return
        if not training_of(unit.semantics, root).trains:
            return
        for loop in (flow for flow in walk(root.flow) if isinstance(flow, Loop)):
            if not isinstance(loop.node, ast.For) or not _is_over_batches(loop.node.iter, unit.semantics):
                continue
            reads = list(_reads(loop, unit.semantics))
            early = [read for read in reads if read.early]
            if early:
                message = (
                    f"`{early[0].shown}` is read before the backward pass in each step: the CPU waits for the GPU "
                    "before it can queue the rest."
                )
                place = early[0]
            elif len({statement_of(read.node) for read in reads}) > 1:
                message = f"{len(reads)} values are read in each step, each of which makes the CPU wait for the GPU."
                place = reads[0]
            else:
                continue
            related = [(read.node, "read here") for read in reads if read is not place]
            yield self.found(place.node, message, related=[*related, (loop.node, "in each iteration of this loop")])


def _is_over_batches(iterable: ast.expr, semantics: Semantics) -> bool:
    """Whether a loop goes over the batches of a loader, by what is written or by what a name stands for."""
    names = [node for node in ast.walk(iterable) if isinstance(node, ast.Name)]
    found = [iterable, *(semantics.value_of(name) for name in names)]
    return any(_BATCHES.search(ast.unparse(item)) for item in found if item is not None)


def _may_use_gpu(semantics: Semantics) -> bool:
    """Whether the file moves something to CUDA, or to a device that is chosen elsewhere."""
    for name in ("cuda", "to"):
        for call in semantics.module.calls_of(name):
            if moves_to_cuda(semantics, call):
                return True
            device = argument(call, 0, "device")
            known = semantics.value_of(device)
            if device is None or device_evidence(semantics, device) is None or semantics.literal(known) == "cpu":
                continue
            if not (isinstance(known, ast.Call) and known.args and semantics.literal(known.args[0]) == "cpu"):
                return True
    return False


def _reads(loop: Loop, semantics: Semantics) -> Iterator[_Read]:
    """The reads of each iteration, in their order; none where no backward pass belongs to the loop itself."""
    steps = list(_each_iteration(loop.body))
    last = max((place for place, action in enumerate(steps) if is_backward(action)), default=None)
    if last is None:
        return
    found: list[ast.expr] = []
    places: list[_Read] = []
    for place, action in enumerate(steps):
        node = action.node
        if action.verb not in _READS or not isinstance(node, ast.Call) or not reads_computed_value(node, semantics):
            continue
        if any(contains(other, node) for other in found) or is_for_environment(node):
            continue
        if not any(node is other for other in found):
            found.append(node)
            places.append(_Read(node, place < last))
    for node, site in _read_otherwise(loop.node, semantics):
        if not any(contains(node, other) for other in found if part_of(other) is part_of(node)):
            places.append(_Read(node, _runs_before(node, site, steps[last].node, loop.node)))
    beside = part_of(loop.node)
    yield from sorted(
        places, key=lambda read: (not read.early, part_of(read.node) is not beside, position_of(read.node))
    )


def _runs_before(node: ast.expr, site: ast.AST, backward: ast.AST, loop: ast.AST) -> bool:
    """Whether a read (``site``: where the loop comes to it) stands before the backward pass."""
    if part_of(backward) is part_of(node) and (
        node is site or enclosing_function(backward) is enclosing_function(node)
    ):
        return begins_before(node, backward) and (node is not site or contains(loop, backward))
    return part_of(backward) is part_of(site) and contains(loop, backward) and begins_before(site, backward)


def _read_otherwise(loop: ast.AST, semantics: Semantics) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What the loop, or a function that it calls, reads each time by a builtin or condition, and where."""
    for node in nodes_within(loop, ast.Call, ast.If):
        if next(loops_around(node), None) is not loop:
            continue
        read = _read_in(node, semantics)
        if read is not None:
            yield read, read
        function = function_run_by(node.func, semantics) if isinstance(node, ast.Call) else None
        if function is None or function.decorator_list:
            continue
        for inner in nodes_within(function, ast.Call, ast.If):
            read = _read_in(inner, semantics) if _runs_once(inner, function) else None
            if read is not None:
                yield read, node


def _runs_once(node: ast.AST, function: ast.AST) -> bool:
    """Whether nothing in a function decides about a node, so that it runs in each call."""
    holder = parent_of(node)
    while holder is not function:
        if not isinstance(holder, _STRAIGHT) or (isinstance(holder, ast.Try) and holder.handlers):
            return False
        holder = parent_of(holder)
    return True


def _read_in(node: ast.AST, semantics: Semantics) -> ast.expr | None:
    """The call or condition that reads a tensor itself."""
    match node:
        case ast.Call() if _reads_by_builtin(node, semantics):
            return node
        case ast.If(test=test, body=body) if not isinstance(body[-1], _JUMPS) and is_read_by_test(test, semantics):
            return test
        case _:
            return None


def _each_iteration(flow: Flow) -> Iterator[Action]:
    """The actions of every iteration: not behind a condition or in a handler, nor of inner loops that train."""
    match flow:
        case Action():
            yield flow
        case Branch():
            return
        case Loop(body=body):
            inner = list(_each_iteration(body))
            if not any(map(is_backward, inner)):
                yield from inner
        case Attempt(body=body, orelse=orelse, final=final):
            for part in (body, orelse, final):
                yield from _each_iteration(part)
        case _:
            for part in children(flow):
                yield from _each_iteration(part)


def _reads_by_builtin(call: ast.Call, semantics: Semantics) -> bool:
    """``float(loss)``, ``print(loss)`` of what is certainly a tensor."""
    if not isinstance(call.func, ast.Name) or call.func.id not in _READING or semantics.definitions(call.func):
        return False
    if is_decided(call) or is_for_environment(call):
        return False
    for given in call.args:
        values = (
            [item.value for item in given.values if isinstance(item, ast.FormattedValue)]
            if isinstance(given, ast.JoinedStr)
            else [given]
        )
        for value in values:
            if is_certainly_tensor(value, semantics) and is_computed(value, semantics):
                return True
    return False
