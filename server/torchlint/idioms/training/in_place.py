"""What writes into the value that a name holds, or makes it require gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.semantics import Semantics


def changes_in_place(semantics: Semantics, name: ast.Name) -> tuple[ast.AST, ...]:
    """What in the function of a name writes into what it holds, or makes it require gradients: ``x[i] = v``,
    ``x.add_(v)``, ``x.requires_grad = True``, ``out=x``."""
    function = enclosing_function(name)
    known: dict[str, list[ast.AST]]
    if function is None:
        parts = semantics.module.own_code()

        def compute() -> dict[str, list[ast.AST]]:
            return _changes(
                node for part in parts for node in index_of(part).all(ast.Subscript, ast.Attribute, ast.Call)
            )

        known = semantics.module.memo.get(("changed in place", *parts), compute, {})
    else:
        held = function.__dict__.get("_changed_in_place")
        if held is None:
            held = function.__dict__["_changed_in_place"] = _changes(
                nodes_within(function, ast.Subscript, ast.Attribute, ast.Call)
            )
        known = held
    return tuple(known.get(name.id, ()))


def _changes(nodes: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for name, node in _changed_names(nodes):
        found.setdefault(name, []).append(node)
    return found


def _changed_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for node in nodes:
        match node:
            case ast.Subscript(value=value, ctx=ast.Store()):
                base = _base(value)
                if base is not None:
                    yield base.id, node
            case ast.Attribute(value=ast.Name(id=name), attr="requires_grad", ctx=ast.Store()):
                yield name, node
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method.endswith("_") and method != "detach_":
                base = _base(value)
                if base is not None and not method.endswith("__"):
                    yield base.id, node
        if isinstance(node, ast.Call):
            out = argument(node, None, "out")
            if isinstance(out, ast.Name):
                yield out.id, node


def _base(expression: ast.expr) -> ast.Name | None:
    """``x`` of ``x[i]``."""
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    return expression if isinstance(expression, ast.Name) else None
