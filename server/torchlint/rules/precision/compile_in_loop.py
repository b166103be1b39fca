from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.values.invariants import loops_around, stays_the_same
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, nodes_within, position_of_parameter
from torchlint.semantics.scopes import FunctionNode, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Methods of a module that run for each batch.
_PER_CALL = frozenset(("forward", "__call__", "training_step", "validation_step", "test_step", "predict_step"))
_MEASURES = regex(r"(^|_)(test|bench|profil|measure|time|warm|autotune|repro)", re.IGNORECASE)
_Loop = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.GeneratorExp
_RESETS = ("reset", "reset_code_caches")


class CompileInLoop(Rule):
    """## What it does

    Reports `torch.compile(...)` of one and the same thing in each iteration of a loop, in methods that run for each
    batch such as `forward`, and in functions that a loop calls and that keep nothing of it.

    ## Why is this bad?

    `torch.compile` makes a wrapper; compilation happens at its first call. Made anew each time, the wrapper costs about
    a millisecond, ten times what a call of a small compiled function takes (torch 2.13 on a CPU), and what it compiled
    before is found again only as long as all settings compare equal: with a backend that is a function made on the
    spot, each wrapper compiles again until the limit of eight is reached, and then nothing is compiled.
    `model = torch.compile(model)` in a loop wraps the wrapper.

    ## Example

    ```python
    import torch

    for x, y in loader:
        compiled = torch.compile(model)
        loss = criterion(compiled(x), y)
    ```

    ## Use instead

    ```python
    import torch

    compiled = torch.compile(model)
    for x, y in loader:
        loss = criterion(compiled(x), y)
    ```

    ## Exceptions

    Something else in each iteration (the blocks of a model, several modes or shapes), a condition such as "not compiled
    yet", tests and benchmarks, and loops that call `torch.compiler.reset()`.

    ## References

    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    """

    code = "TL708"
    name = "compile-in-loop"
    level = Level.WARNING
    summary = "`torch.compile` makes a new wrapper each time: make it once, and call that."

    @on_call("torch.compile")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        subject = argument(call, 0, "model")
        if subject is None or isinstance(parent_of(call), ast.FunctionDef | ast.AsyncFunctionDef):
            return
        function = enclosing_function(call)
        if function is not None and _MEASURES.search(function.name):
            return
        shown = ast.unparse(subject) if len(ast.unparse(subject)) < 40 else "..."
        loop = _loop_around(call)
        if loop is not None:
            if _is_same_each_time(call, loop) and not _resets(loop):
                again = "wraps it once more" if _rewraps(call, subject) else "makes a new wrapper"
                message = f"`torch.compile({shown})` {again} in each iteration of this loop: compile once before it."
                yield self.found(call, message, related=[(loop, "in each iteration of this loop")])
        elif function is not None and _runs_for_each_batch(function, semantics) and not _is_conditional(call, function):
            message = (
                f"`torch.compile({shown})` makes a new wrapper in each call of `{function.name}`: compile once, in "
                "`__init__` or outside."
            )
            yield self.found(call, message)
        elif function is not None and not _is_conditional(call, function):
            calling = _loop_that_calls(function, call, semantics)
            if calling is not None and not _resets(calling):
                message = (
                    f"`torch.compile({shown})` makes a new wrapper in each call of `{function.name}`, which a loop "
                    "calls: compile once, outside."
                )
                yield self.found(call, message, related=[(calling, "calls it in each iteration")])


def _loop_around(call: ast.Call) -> _Loop | None:
    """The innermost loop of which each iteration comes by a call; None where a condition may keep it away."""
    child: ast.AST = call
    holder = parent_of(call)
    while holder is not None and not isinstance(
        holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    ):
        match holder:
            case ast.For(body=body) | ast.While(body=body) if child in body:
                return holder
            case ast.If() | ast.IfExp() | ast.BoolOp() | ast.Match() | ast.ExceptHandler():
                return None
            case ast.ListComp(elt=repeated) | ast.GeneratorExp(elt=repeated) | ast.SetComp(elt=repeated):
                return holder if child is repeated else None
            case ast.DictComp():
                return None
        child, holder = holder, parent_of(holder)
    return None


def _is_same_each_time(call: ast.Call, loop: _Loop) -> bool:
    """Whether nothing that a call is given can differ between two iterations of a loop."""
    inside = [node for item in _given(call) if not isinstance(item, ast.Lambda) for node in ast.walk(item)]
    if any(isinstance(node, ast.Call | ast.Await | ast.Yield | ast.Subscript) for node in inside):
        return False
    if isinstance(loop, ast.For | ast.While) and isinstance(loop.body[-1], ast.Break | ast.Return):
        return False
    bound = _bound_in(loop, call)
    for item in _given(call):
        for node in ast.walk(item):
            path = dotted(node) if isinstance(node, ast.Name | ast.Attribute) else None
            if path is not None and any(path == name or path.startswith(f"{name}.") for name in bound):
                return False
    return True


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


def _bound_in(loop: _Loop, call: ast.Call) -> set[str]:
    """The names and attributes that a loop binds, but by the call itself."""
    own = parent_of(call)
    found: set[str] = set()
    for node in nodes_within(loop, ast.Name, ast.Attribute, ast.FunctionDef, ast.ClassDef, ast.alias):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                if parent_of(node) is not own:
                    found.add(dotted(node) or "")
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
    return found


def _rewraps(call: ast.Call, subject: ast.expr) -> bool:
    match parent_of(call):
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return dotted(target) is not None and dotted(target) == dotted(subject)
        case _:
            return False


def _resets(loop: ast.AST) -> bool:
    """Whether a loop empties the cache of compiled code on purpose."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RESETS
        for node in nodes_within(loop, ast.Call)
    )


def _runs_for_each_batch(function: FunctionNode, semantics: Semantics) -> bool:
    owner = enclosing_class(function)
    if owner is None or parent_of(function) is not owner:
        return False
    if function.name in _PER_CALL:
        return semantics.is_module_class(owner)
    return function.name == "step" and "torch.optim.Optimizer" in semantics.ancestors(owner)


def _loop_that_calls(function: FunctionNode, call: ast.Call, semantics: Semantics) -> ast.AST | None:
    """The loop of the file in each iteration of which a function compiles the same thing, and drops the wrapper."""
    if not _is_dropped(call, function) or _MEASURES.search(function.name):
        return None
    parameters = {item.arg: item for item in (*function.args.posonlyargs, *function.args.args)}
    names = [node for item in _given(call) for node in ast.walk(item) if isinstance(node, ast.Name)]
    calls = any(isinstance(node, ast.Call) for item in _given(call) for node in _outside_lambdas(item))
    if calls or any(name.id not in parameters and _is_local(name, function) for name in names):
        return None
    for caller in semantics.callers(function):
        loop = next((loop for loop in loops_around(caller)), None)
        around = enclosing_function(caller)
        if loop is None or (around is not None and _MEASURES.search(around.name)):
            continue
        used = [parameters[name.id] for name in names if name.id in parameters]
        own = first_parameter(function) if enclosing_class(function) is not None else None
        given = [argument(caller, position_of_parameter(item, function), item.arg) for item in used if item.arg != own]
        if all(value is not None and stays_the_same(semantics, value, loop) for value in given):
            return loop
    return None


def _outside_lambdas(item: ast.expr) -> Iterator[ast.AST]:
    return iter(()) if isinstance(item, ast.Lambda) else ast.walk(item)


def _is_local(name: ast.Name, function: FunctionNode) -> bool:
    """Whether a function (but for the lambdas in it) binds a name that it reads here."""
    return any(
        isinstance(node, ast.Name) and node.id == name.id and not isinstance(node.ctx, ast.Load)
        for node in nodes_within(function, ast.Name)
    ) or any(
        isinstance(node, ast.FunctionDef) and node.name == name.id for node in nodes_within(function, ast.FunctionDef)
    )


def _is_dropped(call: ast.Call, function: FunctionNode) -> bool:
    """Whether a function only calls what it has compiled: it is not given to anybody else."""
    match parent_of(call):
        case ast.Call(func=called) if called is call:
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            uses = [node for node in nodes_within(function, ast.Name) if isinstance(node, ast.Name) and node.id == name]
            read = [use for use in uses if isinstance(use.ctx, ast.Load)]
            return len(read) < len(uses) and bool(read) and all(_is_called(use) for use in read)
        case _:
            return False


def _is_called(use: ast.Name) -> bool:
    holder = parent_of(use)
    return isinstance(holder, ast.Call) and holder.func is use


def _is_conditional(call: ast.Call, function: FunctionNode) -> bool:
    """Whether a condition in a function may keep a call away (``if self.compiled is None``)."""
    holder = parent_of(call)
    while holder is not None and holder is not function:
        if isinstance(holder, ast.If | ast.IfExp | ast.BoolOp | ast.Match | ast.ExceptHandler | ast.Lambda):
            return True
        holder = parent_of(holder)
    first = next((statement for statement in function.body if _leaves(statement)), None)
    return first is not None and first.lineno < call.lineno


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return | ast.Raise)
