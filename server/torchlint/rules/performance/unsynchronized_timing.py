from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from torchlint import torch_api
from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.modules.used_as_module import is_treated_as_module
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.idioms.values.gpu_tensors import moved_to_gpu
from torchlint.idioms.values.tensors_made_here import is_made_here
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within, targets_of
from torchlint.semantics.scopes import dotted, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer")
_CLOCKS_IN_NANOSECONDS = ("time.time_ns", "time.perf_counter_ns", "time.monotonic_ns")
#: What waits for the GPU: host reads, and functions whose result has a size that depends on values.
_WAITING = frozenset("item cpu numpy tolist nonzero unique masked_select wait elapsed_time record any all save".split())
#: What waits if the GPU has work to do: copies from ordinary memory.
_COPYING = frozenset("to cuda tensor as_tensor from_numpy copy_".split())
_HARMLESS = frozenset(
    "zero_grad train eval backward parameters range len zip enumerate dict list tuple isinstance".split()
)
_QUIET_CONTEXTS = ("torch.no_grad", "torch.inference_mode", "torch.amp.autocast", "torch.cuda.amp.autocast")


@dataclass(frozen=True, eq=False, slots=True)
class _Measurement:
    """What stands between two readings of a clock: ``work`` is the first call of a module."""

    end: ast.stmt
    clock: ast.Call
    work: ast.expr


class UnsynchronizedTiming(Rule):
    """## What it does

    Reports a time that is measured around a model's run on the GPU without waiting for it: a clock is read, a module is
    called or a backward pass runs, the clock is read again, and nothing in between waits.

    ## Why is this bad?

    A call on CUDA only queues its kernels and returns. What is measured is the time to queue them, often a tenth of
    what they take.

    ## Example

    ```python
    import time

    import torch
    from torchvision.models import resnet50

    model = resnet50().cuda()
    start = time.time()
    output = model(images)
    elapsed = time.time() - start
    ```

    ## Use instead

    ```python
    import time

    import torch
    from torchvision.models import resnet50

    model = resnet50().cuda()
    torch.cuda.synchronize()
    start = time.time()
    output = model(images)
    torch.cuda.synchronize()
    elapsed = time.time() - start
    ```

    ## Exceptions

    Code in which a host read stands before the second reading (`loss.item()`, `output.cpu()`), or something unknown
    that may hold one; times of loops, over which the error spreads; files in which nothing is moved to CUDA.

    ## References

    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [torch.cuda.Event](https://docs.pytorch.org/docs/stable/generated/torch.cuda.Event.html)
    """

    code = "TL605"
    name = "unsynchronized-timing"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The clock is read before the GPU has done its work: what is measured is queueing."

    @on_call(*_CLOCKS, *_CLOCKS_IN_NANOSECONDS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        match parent_of(call):
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) as start:
                pass
            case _:
                return
        found = _measurement(_following(start, semantics), semantics)
        if found is None or not _is_subtracted(name, found, unit):
            return
        if isinstance(found.work, ast.Call) and not _uses_cuda(semantics):
            return
        shown = ast.unparse(found.work.func if isinstance(found.work, ast.Call) else found.work)
        message = f"The clock is read while the GPU may still run `{shown}`: this measures how long queueing takes."
        related = [(found.work, "queues its work and returns"), (call, "the measurement starts")]
        yield self.found(found.clock, message, related=related, fixes=[_fix(start, found.end, semantics)])


def _following(start: ast.stmt, semantics: Semantics) -> Sequence[ast.stmt]:
    """The statements behind one, in its block."""
    block = semantics.block_of(start)
    return block[block.index(start) + 1 :] if start in block else ()


def _measurement(statements: Iterable[ast.stmt], semantics: Semantics) -> _Measurement | None:
    work: ast.expr | None = None
    for statement in statements:
        if _is_for_another_device(statement, semantics):
            continue
        clock = next((call for call in _calls(statement) if _is_clock(call, semantics)), None)
        if clock is not None:
            simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign)
            return _Measurement(statement, clock, work) if simple and work is not None else None
        if not _is_straight(statement, semantics):
            return None
        work = work or _matrix_product(statement, semantics)
        for call in _calls(statement):
            if _is_work(call, semantics):
                work = work or call
            elif not _leaves_queue(call, semantics, work is not None):
                return None
    return None


def _is_for_another_device(statement: ast.stmt, semantics: Semantics) -> bool:
    """``if device == "mps": torch.mps.synchronize()``: on CUDA nothing waits there."""
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and all(
            isinstance(inner, ast.Expr)
            and isinstance(inner.value, ast.Call)
            and semantics.is_named(inner.value.func, "torch.mps.synchronize", "torch.xpu.synchronize")
            for inner in statement.body
        )
    )


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """The calls of a statement in the order in which they run: arguments before what is called with them."""
    calls = [node for node in nodes_within(statement, ast.Call) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _is_clock(call: ast.Call, semantics: Semantics) -> bool:
    return semantics.is_named(call.func, *_CLOCKS, *_CLOCKS_IN_NANOSECONDS)


def _is_straight(statement: ast.stmt, semantics: Semantics) -> bool:
    """Whether a statement runs once, and by itself waits for nothing."""
    match statement:
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Pass() | ast.Delete():
            return True
        case ast.With(items=items, body=body):
            contexts = [item.context_expr for item in items]
            quiet = all(isinstance(c, ast.Call) and semantics.is_named(c.func, *_QUIET_CONTEXTS) for c in contexts)
            return quiet and all(_is_straight(inner, semantics) for inner in body)
        case _:
            return False


def _is_work(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call runs a module that does not wait for the GPU itself, as far as the file shows, or a backward
    pass."""
    kind = semantics.kind(call.func)
    if kind is None:
        return is_treated_as_module(call.func, semantics) or _is_backward(call, semantics)
    if kind.what is not What.MODULE or ".detection." in kind.origin:
        return False
    if kind.class_node is None:
        return True
    forward = semantics.find_method(kind.class_node, "forward")
    if forward is None:
        return not semantics.has_unknown_base(kind.class_node)
    return not any(
        isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _WAITING
        for inner in nodes_within(forward, ast.Call)
    )


def _is_backward(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call is a backward pass that may run on the GPU: ``loss.backward()``, not that of an engine, which is
    given the loss."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or call.args:
        return False
    loss = call.func.value
    kind = semantics.kind(loss)
    if not (kind.is_tensor if kind is not None else isinstance(loss, ast.Name)):
        return False
    while isinstance(loss, ast.Call) and isinstance(loss.func, ast.Attribute):
        loss = loss.func.value  # `y.sum()`: where `y` is
    return not is_made_here(loss, semantics)


def _matrix_product(statement: ast.stmt, semantics: Semantics) -> ast.expr | None:
    """The first ``a @ b`` of a statement whose left side is certainly on the GPU."""
    for node in nodes_within(statement, ast.BinOp):
        match node:
            case ast.BinOp(op=ast.MatMult(), left=left) if moved_to_gpu(semantics, left) is not None:
                return node
            case _:
                pass
    return None


def _leaves_queue(call: ast.Call, semantics: Semantics, busy: bool) -> bool:
    """Whether a call certainly does not wait for the GPU; ``busy``: it has work already."""
    function = call.func
    written = last_name(function)
    if written in _WAITING or "sync" in written or (busy and written in _COPYING):
        return False
    if written in _HARMLESS or written in _COPYING:
        return True
    name = semantics.name(function)
    if name.startswith("torch."):
        return True
    kind = semantics.kind(function)
    if kind is not None and kind.is_module:
        return kind.what is What.LOSS
    if not isinstance(function, ast.Attribute):
        return False
    receiver = semantics.kind(function.value)
    if receiver is None:
        return written == "step" and _is_cleared(function.value, call)
    if written == "step":
        return receiver.what is What.OPTIMIZER
    return receiver.is_tensor and torch_api.tensor_method(written) is not None


def _is_cleared(stepped: ast.expr, call: ast.Call) -> bool:
    """Whether the function calls ``zero_grad`` on what is stepped, which then is an optimizer."""
    path, function = dotted(stepped), enclosing_function(call)
    if path is None or function is None:
        return False
    return any(
        isinstance(node, ast.Attribute) and node.attr == "zero_grad" and dotted(node.value) == path
        for node in nodes_within(function, ast.Attribute)
    )


def _is_subtracted(name: str, found: _Measurement, unit: Unit) -> bool:
    """Whether the first reading is taken away from the second."""
    targets = targets_of(found.end)
    end = targets[0] if len(targets) == 1 else None
    ended = end.id if isinstance(end, ast.Name) else ""
    function = enclosing_function(found.end)
    operations: Iterable[ast.AST] = nodes_within(function, ast.BinOp) if function is not None else unit.all(ast.BinOp)
    for operation in operations:
        match operation:
            case ast.BinOp(op=ast.Sub(), left=left, right=ast.Name(id=right)) if right == name:
                if left is found.clock:
                    return True
                if isinstance(left, ast.Name) and left.id == ended:
                    reaching = unit.semantics.definitions(left)
                    if any(definition.node is found.end for definition in reaching):
                        return True
    return False


def _uses_cuda(semantics: Semantics) -> bool:
    return any(moves_to_cuda(semantics, call) for name in ("cuda", "to") for call in semantics.module.calls_of(name))


def _fix(start: ast.stmt, end: ast.stmt, semantics: Semantics) -> FixPlan:
    def apply(edit: Editor) -> None:
        cuda = edit.spell("torch.cuda.synchronize").rpartition(".")[0]
        text = f"{cuda}.synchronize()"
        if semantics.module.calls_of("is_available"):
            text = f"if {cuda}.is_available():\n    {text}"
        edit.insert_statement_before(start, text)
        edit.insert_statement_before(end, text)

    return FixPlan("Insert `torch.cuda.synchronize()` before both readings", "unsafe", apply)
