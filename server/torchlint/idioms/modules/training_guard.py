"""Code that runs only in training mode: below ``if self.training``, behind an early return, or called so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.semantics.nodes import enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_BLOCKS = ("body", "orelse", "finalbody")
#: Dropout in evaluation that is meant: autoregressive pre-nets and Monte Carlo dropout.
_DELIBERATE = regex(
    r"pre_?net|mc[_ -]?drop|monte[ _-]?carlo|bayes|uncertain|always[ -]on|also (?:at|in|during) (?:test|infer|eval)",
    re.IGNORECASE,
)


def depends_on_mode(node: ast.AST, semantics: Semantics, depth: int = 3) -> bool:
    """Whether a node runs or not by a test of the training mode (``self.training``, a flag with "train" in its name).

    Methods whose calls in the class all, or some, stand below such a test count too.
    """
    function = enclosing_function(node)
    current: ast.AST | None = node
    while current is not None and current is not function:
        parent = parent_of(current)
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and current is not parent.test and _asks(parent.test):
            return True
        if isinstance(parent, ast.BoolOp) and any(_asks(value) for value in parent.values if value is not current):
            return True
        if isinstance(current, ast.stmt) and parent is not None and _left_before(current, parent):
            return True
        current = parent
    return function is not None and depth > 0 and _called_by_mode(function, semantics, depth)


def _asks(test: ast.expr) -> bool:
    """Whether a test looks at the mode."""
    return any(
        "train" in last_name(node).lower() for node in ast.walk(test) if isinstance(node, ast.Attribute | ast.Name)
    )


def _left_before(statement: ast.stmt, holder: ast.AST) -> bool:
    """Whether a statement before this one in its block leaves the function by the mode (``if not self.training``)."""
    for name in _BLOCKS:
        block = getattr(holder, name, None)
        if isinstance(block, list) and statement in block:
            return any(
                isinstance(earlier, ast.If)
                and _asks(earlier.test)
                and isinstance(earlier.body[-1], ast.Return | ast.Raise)
                for earlier in block[: block.index(statement)]
            )
    return False


def _called_by_mode(function: FunctionNode, semantics: Semantics, depth: int) -> bool:
    owner = enclosing_class(function)
    if owner is None or function.name == "forward":
        return False
    return any(depends_on_mode(call, semantics, depth - 1) for call in _calls(function, owner, semantics))


def _calls(function: FunctionNode, owner: ast.ClassDef, semantics: Semantics) -> Iterator[ast.AST]:
    """The calls of a method on ``self`` in the class, and of a nested function in the method that holds it."""
    outer = enclosing_function(function)
    methods = (outer,) if outer is not None else semantics.module.methods(owner)
    for method in methods:
        if method is function:
            continue
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            called = call.func
            name = last_name(called)
            if name == function.name:
                yield call


def is_deliberate_noise(node: ast.AST, method: FunctionNode) -> bool:
    """Whether names or comments say that dropout outside of training is meant."""
    owner = enclosing_class(method)
    return is_stated(node, _DELIBERATE) or (owner is not None and _DELIBERATE.search(owner.name) is not None)
