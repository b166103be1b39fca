"""Which functions of the file run when something is called: a function, a method, a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics

_MOST_FUNCTIONS = 30


def function_run_by(subject: ast.expr | None, semantics: Semantics) -> FunctionNode | None:
    """The function that runs when something is called: the function or method itself, or the ``forward`` of a module
    whose class is in the file."""
    function = semantics.local_function(subject)
    if function is not None:
        return function
    if isinstance(subject, ast.Attribute):
        owner = semantics.class_of_self(subject.value)
        if owner is None:
            kind = semantics.kind(subject.value)
            owner = kind.class_node if kind is not None and kind.is_module else None
        method = semantics.find_method(owner, subject.attr) if owner is not None else None
        if method is not None:
            return method
    owner = semantics.class_of_self(subject)
    if owner is None:
        kind = semantics.kind(subject)
        owner = kind.class_node if kind is not None and kind.is_module else None
    if owner is None or not semantics.is_module_class(owner):
        return None
    return semantics.find_method(owner, "forward")


def code_run_by(start: FunctionNode, semantics: Semantics, *apart: str) -> Iterator[FunctionNode]:
    """A function and the functions of the file that it calls, directly or through others, but for those that one of
    the decorators ``apart`` (canonical names) sets apart."""
    queue, seen = [start], set[FunctionNode]()
    while queue and len(seen) < _MOST_FUNCTIONS:
        function = queue.pop(0)
        if function in seen or is_decorated(function, semantics, *apart):
            continue
        seen.add(function)
        yield function
        for call in nodes_within(function, ast.Call):
            called = function_run_by(call.func, semantics) if isinstance(call, ast.Call) else None
            if called is not None:
                queue.append(called)


def is_decorated(function: FunctionNode, semantics: Semantics, *names: str) -> bool:
    """Whether a function has a decorator of one of these names, called or not."""
    decorators = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return any(semantics.is_named(item, *names) for item in decorators)
