"""The loops around a piece of code, and whether it runs in each of their iterations."""

from __future__ import annotations

import ast

from torchlint.syntax import parent_of

LoopNode = ast.For | ast.AsyncFor | ast.While
_TRAINING = frozenset(("train", "training", "is_train", "is_training", "use_amp", "amp", "fp16"))


def loops_around(node: ast.AST) -> list[LoopNode]:
    """The loops of the same function in whose bodies a node stands, innermost first."""
    found: list[LoopNode] = []
    child, current = node, parent_of(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if isinstance(current, LoopNode) and child in current.body:
            found.append(current)
        child, current = current, parent_of(current)
    return found


def runs_each_time(node: ast.AST, holder: ast.AST | None) -> bool:
    """Whether a node runs in each iteration of a loop after which there is another, or whenever a function runs: no
    condition stands around it but a plain ``if training``, and the loop is not left behind it."""
    child, current = node, parent_of(node)
    while current is not None:
        blocks = (getattr(current, name, None) for name in ("body", "orelse"))
        block = next((block for block in blocks if isinstance(block, list) and child in block), [])
        if isinstance(holder, LoopNode) and any(isinstance(later, ast.Break | ast.Return) for later in block):
            return False
        if current is holder:
            return True
        if isinstance(current, ast.If) and not _is_mode(current.test):
            return False
        if isinstance(current, ast.IfExp | ast.Try | ast.Lambda | ast.FunctionDef):
            return False
        child, current = current, parent_of(current)
    return False


def _is_mode(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_mode(operand)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lower() in _TRAINING
        case _:
            return False
