"""Where the batches of a loader go: the loops that move them to a GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.idioms.data.loader_use import iterated_loaders
from torchlint.idioms.data.loaders import all_loaders
from torchlint.idioms.values.cuda import is_certainly_gpu, moves_to_cuda
from torchlint.semantics.nodes import argument, enclosing_function, position_of_parameter, scope_at, targets_of
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 3


def loaders_moved_to_cuda(semantics: Semantics) -> dict[ast.Call, ast.Call]:
    """The loaders of this file whose batches a loop moves to a GPU in any case, with the call that moves them."""
    return semantics.module.memo.get(("loaders moved to cuda",), lambda: _find(semantics), {})


def _find(semantics: Semantics) -> dict[ast.Call, ast.Call]:
    found: dict[ast.Call, ast.Call] = {}
    if next(all_loaders(semantics), None) is None:
        return found
    for call in (*semantics.module.calls_of("cuda"), *semantics.module.calls_of("to")):
        if isinstance(call.func, ast.Attribute) and _is_certainly_cuda(semantics, call):
            for loader in _loaders_behind(semantics, call, call.func.value, 0):
                found.setdefault(loader, call)
    return found


def _is_certainly_cuda(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call moves to a GPU, whatever machine it runs on and whatever it is told."""
    if getattr(call.func, "attr", "") == "cuda":
        return moves_to_cuda(semantics, call) and not _is_conditional(call)
    device = argument(call, 0, "device")
    return device is not None and not _is_conditional(call) and is_certainly_gpu(semantics, device)


def _is_conditional(call: ast.Call) -> bool:
    """Whether a call runs only under a test that asks for more than the type of what is moved."""
    child: ast.AST = call
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.Try) and holder.handlers:
            return True
        if isinstance(holder, ast.If | ast.IfExp) and child is not holder.test and not _asks_for_type(holder.test):
            return True
        child, holder = holder, parent_of(holder)
    return False


def _asks_for_type(test: ast.expr) -> bool:
    match test:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ("isinstance", "is_tensor", "hasattr")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _asks_for_type(operand)
        case _:
            return False


def _loaders_behind(semantics: Semantics, place: ast.AST, moved: ast.expr, depth: int) -> Iterator[ast.Call]:
    """The loaders whose batch, or a part of it, is moved: in a loop over them, taken with ``next``, or given to the
    function that moves it."""
    if depth > _DEEPEST:
        return
    loop, names = _loop_over_batches(place, moved)
    if loop is not None:
        loaders = list(iterated_loaders(semantics, loop.iter))
        # `for part in batch: part.cuda()` goes over a batch.
        yield from loaders or _loaders_behind(semantics, loop, loop.iter, depth + 1)
        return
    function = enclosing_function(place)
    for name in names - {""}:
        if function is None:
            definitions = semantics.module.definitions(name)
        else:
            definitions = tuple(scope_at(function.body[0]).definitions.get(name, ()))
        for definition in definitions:
            if isinstance(definition.value, ast.Call) and definition.kind is Binding.ASSIGNMENT:
                yield from _taken_from(semantics, definition.value)
            elif isinstance(definition.node, ast.arg) and function is not None:
                for call, given in _given(semantics, definition.node, function):
                    yield from _loaders_behind(semantics, call, given, depth + 1)


def _given(semantics: Semantics, parameter: ast.arg, function: FunctionNode) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of a function that run in any case, with what they give for a parameter."""
    for call in semantics.callers(function):
        given = argument(call, position_of_parameter(parameter, function), parameter.arg)
        if given is not None and not _is_conditional(call):
            yield call, given


def _taken_from(semantics: Semantics, taken: ast.Call) -> Iterator[ast.Call]:
    """The loaders of ``next(batches)`` and ``batches.next()``."""
    match taken:
        case ast.Call(func=ast.Name(id="next"), args=[source, *_]):
            yield from iterated_loaders(semantics, source)
        case ast.Call(func=ast.Attribute(value=source, attr="next" | "__next__"), args=[]):
            yield from iterated_loaders(semantics, source)


def _loop_over_batches(place: ast.AST, moved: ast.expr) -> tuple[ast.For | None, set[str]]:
    """The loop whose batch, or a part of it, is moved; and the names that what is moved may come from."""
    names = {_base(moved)}
    holder = parent_of(place)
    while holder is not None:
        body: list[ast.stmt] = []
        if isinstance(holder, ast.comprehension | ast.DictComp | ast.ListComp | ast.GeneratorExp | ast.SetComp):
            for generator in getattr(holder, "generators", ()):
                if names & _names(generator.target):
                    names.add(_base(generator.iter))
        elif isinstance(holder, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef):
            body = holder.body
        for _ in range(_DEEPEST if body else 0):
            names |= {name for statement in _straight(body) for name in _source(statement, names)}
        if isinstance(holder, ast.For) and names & _names(holder.target):
            return holder, names
        if isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
            return None, names
        holder = parent_of(holder)
    return None, names


def _straight(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and those inside its `with` and `try`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With | ast.Try):
            yield from _straight(statement.body)


def _source(statement: ast.stmt, names: set[str]) -> set[str]:
    """The name from whose value a statement takes what it binds to ``names`` (``x, y = batch``)."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return set()
    if any(names & _names(target) for target in targets_of(statement)):
        if isinstance(statement.value, ast.Tuple):
            return {_base(item) for item in statement.value.elts}
        return {_base(statement.value)}
    return set()


def _base(expression: ast.expr) -> str:
    """The name that an expression begins with (``batch["x"].float()`` gives ``batch``)."""
    current: ast.expr = expression
    while True:
        match current:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                current = inner
            case ast.Call(func=ast.Name(), args=[first, *_]):
                current = first
            case ast.Name(id=name):
                return name
            case _:
                return ""


def _names(target: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
