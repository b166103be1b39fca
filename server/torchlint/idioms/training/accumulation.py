"""Gradient accumulation written by hand: which actions of a loop run only in every k-th iteration."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.idioms.training.vocabulary import Training
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """A condition under which an action runs within a loop. ``every`` is ``k`` where it is that an iteration is a
    k-th one (None for any other condition); ``holds`` is False in an ``else``."""

    node: ast.stmt
    test: ast.expr
    holds: bool
    every: ast.expr | None

    @property
    def key(self) -> tuple[str, bool]:
        """Two guards of one key are the same condition."""
        return ast.unparse(self.test), self.holds


def guards_of(training: Training, action: Action, loop: Loop) -> tuple[Guard, ...] | None:
    """The conditions between an action and a loop around it, innermost first; None if the loop is not around it.

    A test that leaves the iteration early (``if i % k: continue``) guards what stands below it.
    """
    place = training.places[action]
    if loop.node not in [item.node for item in place.loops]:
        return None
    found: list[Guard] = []
    for node in (action.node, *(call.node for call in reversed(place.calls))):
        reached = _climb(training.semantics, node, loop.node, found)
        if reached:
            return tuple(found)
    return tuple(found)


def _climb(semantics: Semantics, node: ast.AST, loop: ast.AST, found: list[Guard]) -> bool:
    """Add the conditions around a node in its own function; whether the loop was reached."""
    child, holder = node, parent_of(node)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for field in ("body", "orelse"):
            block = getattr(holder, field, None)
            if not isinstance(block, list) or child not in block:
                continue
            found.extend(
                _guard(semantics, earlier, False)
                for earlier in reversed(block[: block.index(child)])
                if isinstance(earlier, ast.If) and isinstance(earlier.body[-1], ast.Continue | ast.Return)
            )
            if isinstance(holder, ast.If):
                found.append(_guard(semantics, holder, field == "body"))
        if holder is loop:
            return True
        child, holder = holder, parent_of(holder)
    return False


def _guard(semantics: Semantics, statement: ast.If, holds: bool) -> Guard:
    every = _modulus(semantics, statement.test) or (_counted(statement) if holds else None)
    return Guard(statement, statement.test, holds, every)


def _modulus(semantics: Semantics, test: ast.expr) -> ast.expr | None:
    """``k`` of ``(i + 1) % k == 0``, of ``not i % k`` and of names for such a test."""
    value = semantics.value_of(test)
    if value is None:
        return None
    for node in nodes_within(value, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not _is_text(node.left):
            return node.right
    return None


def _counted(statement: ast.If) -> ast.expr | None:
    """``k`` of a counter that begins again: ``if n >= k: ...; n = 0`` and ``if i - last >= k: ...; last = i``."""
    match statement.test:
        case ast.Compare(left=counter, ops=[ast.GtE() | ast.Gt() | ast.Eq()], comparators=[every]):
            pass
        case _:
            return None
    for inner in statement.body:
        match inner, counter:
            case ast.Assign(targets=[target], value=ast.Constant(value=int())), ast.Name() | ast.Attribute():
                if ast.unparse(target) == ast.unparse(counter):
                    return every
            case ast.Assign(targets=[target], value=value), ast.BinOp(left=now, op=ast.Sub(), right=last):
                if ast.unparse(target) == ast.unparse(last) and ast.unparse(value) == ast.unparse(now):
                    return every
            case _:
                pass
    return None


def _is_text(expression: ast.expr) -> bool:
    return isinstance(expression, ast.JoinedStr) or (
        isinstance(expression, ast.Constant) and isinstance(expression.value, str)
    )
