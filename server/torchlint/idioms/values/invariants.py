"""What stays the same while a loop runs: names and attributes that nothing in the loop binds or changes in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.nodes import enclosing_class, nodes_within
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

LoopNode = ast.For | ast.AsyncFor | ast.While
#: Functions that only look at what they are given.
_LOOKING = frozenset(
    "print len range enumerate zip isinstance float int str repr list tuple id type max min sum".split()
)


def loops_around(node: ast.AST) -> Iterator[LoopNode]:
    """The loops whose body runs ``node`` in every iteration, innermost first, up to the function around it.

    Stops at a condition, a handler, a comprehension or a nested function: what is behind it may not run each time.
    """
    current, holder = node, parent_of(node)
    while holder is not None:
        match holder:
            case ast.For() | ast.AsyncFor() | ast.While():
                if current not in holder.body or _ends_at_once(holder):
                    return
                yield holder
            case ast.With() | ast.AsyncWith() | ast.expr() | ast.keyword() | ast.withitem():
                if isinstance(holder, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                    return
                if isinstance(holder, ast.IfExp | ast.BoolOp):
                    return
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr():
                pass
            case _:
                return
        current, holder = holder, parent_of(holder)


def _ends_at_once(loop: LoopNode) -> bool:
    """Whether the body leaves the loop at its end, so that it runs once."""
    return isinstance(loop.body[-1], ast.Break | ast.Return | ast.Raise)


def stays_the_same(semantics: Semantics, expression: ast.expr, loop: LoopNode) -> bool:
    """Whether an expression of names, attributes and constants means the same in each iteration."""
    match expression:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return not any(_binds(node, name) for node in nodes_within(loop, ast.Name))
        case ast.Attribute(value=base, attr=attribute):
            written = any(
                isinstance(node, ast.Attribute) and node.attr == attribute and not isinstance(node.ctx, ast.Load)
                for node in nodes_within(loop, ast.Attribute)
            )
            return not written and stays_the_same(semantics, base, loop) and _is_set_once(semantics, base, attribute)
        case ast.Call() if semantics.is_named(expression.func, "torch.device"):
            return all(stays_the_same(semantics, item, loop) for item in expression.args)
        case _:
            return False


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _is_set_once(semantics: Semantics, base: ast.expr, attribute: str) -> bool:
    """Whether an attribute of ``self`` is written by the constructor alone; others are taken to be constant."""
    owner = semantics.class_of_self(base)
    if owner is None:
        return True
    writes = semantics.module.attribute_writes(owner, attribute)
    return bool(writes) and all(_method_name(write.statement) == "__init__" for write in writes)


def _method_name(node: ast.AST) -> str:
    holder: ast.AST | None = node
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        holder = parent_of(holder)
    return holder.name if holder is not None and enclosing_class(holder) is not None else ""


def may_be_changed(semantics: Semantics, path: str, loop: LoopNode, *, by_calls: bool) -> bool:
    """Whether a statement of a loop may change what a dotted name stands for: writes into it, a method with an
    underscore at its end, ``out=``; with ``by_calls`` also a function that it is given to, except those of torch."""
    for node in nodes_within(loop, ast.Subscript, ast.AugAssign, ast.Call):
        match node:
            case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()) if dotted(base) == path:
                return True
            case ast.AugAssign(target=target) if dotted(target) == path:
                return True
            case ast.Call(func=function):
                if isinstance(function, ast.Attribute) and dotted(function.value) == path and _is_in_place(function):
                    return True
                if any(item.arg == "out" and dotted(item.value) == path for item in node.keywords):
                    return True
                given = (*node.args, *(item.value for item in node.keywords))
                if by_calls and any(dotted(item) == path for item in given) and not _only_looks(semantics, node):
                    return True
    return False


def _is_in_place(method: ast.Attribute) -> bool:
    return method.attr.endswith("_") and not method.attr.endswith("__")


def _only_looks(semantics: Semantics, call: ast.Call) -> bool:
    name = semantics.name(call.func)
    if name.startswith("torch."):
        return not name.endswith("_")
    if isinstance(call.func, ast.Name) and call.func.id in _LOOKING and not semantics.definitions(call.func):
        return True
    kind = semantics.kind(call.func)
    if kind is not None and kind.is_module:
        return True
    receiver = semantics.kind(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return receiver is not None and receiver.is_tensor and not ast.unparse(call.func).endswith("_")
