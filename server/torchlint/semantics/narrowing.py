"""What a test that stands around a use of a name says of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.syntax import parent_of

if TYPE_CHECKING:
    from torchlint.semantics.semantics import Semantics


def class_tested_around(semantics: Semantics, name: ast.Name) -> ast.expr | None:
    """The class of the innermost ``isinstance(name, Class)`` that holds where ``name`` stands, if the name has the same
    definitions in the test; None also where the test names several classes."""
    child: ast.AST = name
    holder = parent_of(name)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        match holder:
            case ast.If(test=test, body=body) if child in body:
                tested = _class_in(semantics, test, name)
            case ast.IfExp(test=test, body=body) if child is body:
                tested = _class_in(semantics, test, name)
            case _:
                tested = None
        if tested is not None:
            return tested
        child, holder = holder, parent_of(holder)
    return None


def _class_in(semantics: Semantics, test: ast.expr, name: ast.Name) -> ast.expr | None:
    for condition in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        match condition:
            case ast.Call(
                func=ast.Name(id="isinstance"),
                args=[ast.Name(id=tested) as subject, ast.Name() | ast.Attribute() as of],
            ) if tested == name.id and semantics.definitions(subject) == semantics.definitions(name):
                return of
    return None
