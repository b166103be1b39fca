"""Where the batches of a loader go: the loops that move them to a GPU."""

from __future__ import annotations

import ast

from torchlint.idioms.data.loader_use import iterated_loaders
from torchlint.idioms.data.loaders import all_loaders
from torchlint.idioms.values.cuda import moves_to_cuda
from torchlint.semantics.nodes import argument
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
        if not isinstance(call.func, ast.Attribute) or not _is_certainly_cuda(semantics, call):
            continue
        loop = _loop_over_batches(call, call.func.value)
        for loader in iterated_loaders(semantics, loop.iter) if loop is not None else ():
            found.setdefault(loader, call)
    return found


def _is_certainly_cuda(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call moves to a GPU, whatever machine it runs on and whatever it is told."""
    if not moves_to_cuda(semantics, call):
        return False
    holder: ast.AST | None = call
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.If | ast.IfExp | ast.Try):
            return False
        holder = parent_of(holder)
    device = argument(call, 0, "device")
    return device is None or not _depends_on_machine(semantics, device)


def _depends_on_machine(semantics: Semantics, device: ast.expr) -> bool:
    value = semantics.value_of(device)
    if isinstance(value, ast.Attribute):
        owner = semantics.class_of_self(value.value)
        writes = semantics.module.attribute_writes(owner, value.attr) if owner is not None else ()
        value = writes[0].value if len(writes) == 1 else None
    return value is None or any(isinstance(part, ast.IfExp | ast.BoolOp) for part in ast.walk(value))


def _loop_over_batches(call: ast.Call, moved: ast.expr) -> ast.For | None:
    """The loop whose batch, or a part of it, is moved."""
    names = {_base(moved)}
    holder = parent_of(call)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.comprehension | ast.DictComp | ast.ListComp | ast.GeneratorExp | ast.SetComp):
            for generator in getattr(holder, "generators", ()):
                if names & _names(generator.target):
                    names.add(_base(generator.iter))
        elif isinstance(holder, ast.For):
            for _ in range(_DEEPEST):
                names |= {name for statement in holder.body for name in _source(statement, names)}
            if names & _names(holder.target):
                return holder
        holder = parent_of(holder)
    return None


def _source(statement: ast.stmt, names: set[str]) -> set[str]:
    """The name from whose value a statement takes what it binds to ``names`` (``x, y = batch``)."""
    if isinstance(statement, ast.Assign) and any(names & _names(target) for target in statement.targets):
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
