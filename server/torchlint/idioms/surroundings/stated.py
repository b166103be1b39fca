"""What the author says about the code in comments and docstrings: "shared on purpose", "kept out of the state dict"."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from torchlint.syntax import Part, parent_of, part_of
from torchlint.text import comments


def comments_at(node: ast.AST) -> tuple[str, ...]:
    """The comments on the rows of a node and those that stand alone on the rows right above it, in order."""
    part = part_of(node)
    by_row = _comments_of(part)
    if not by_row:
        return ()
    first = node.lineno - 1 - part.lead  # type: ignore[attr-defined]
    last = node.end_lineno - 1 - part.lead  # type: ignore[attr-defined]
    above = first - 1
    # A line that is being typed under a comment, and does not parse yet, does not take the comment away.
    while above in part.broken_rows or (above in by_row and by_row[above][1]):
        above -= 1
    return tuple(by_row[row][0] for row in range(above + 1, last + 1) if row in by_row)


def comments_around(statement: ast.stmt) -> tuple[tuple[str, ...], str]:
    """The comments that stand alone right above a statement, in order, and the one behind its end, if there is one."""
    part = part_of(statement)
    by_row = _comments_of(part)
    first = statement.lineno - 1 - part.lead
    last = (statement.end_lineno or statement.lineno) - 1 - part.lead
    above = first
    while above - 1 in by_row and by_row[above - 1][1]:
        above -= 1
    behind = by_row[last][0] if last in by_row else ""
    return tuple(by_row[row][0] for row in range(above, first)), behind


def count_of_comments(first: ast.stmt, last: ast.stmt) -> int:
    """How many comments stand on the rows from one statement to another, with those right above the first."""
    part = part_of(first)
    above, _ = comments_around(first)
    begin = first.lineno - 1 - part.lead
    end = (last.end_lineno or last.lineno) - 1 - part.lead
    return len(above) + sum(begin <= row <= end for row in _comments_of(part))


def is_stated(node: ast.AST, pattern: re.Pattern[str]) -> bool:
    """Whether a comment at a node, or at a block that it stands in, or the docstring or name of the function that
    holds it says what ``pattern`` looks for."""
    current: ast.AST | None = node
    while current is not None:
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
            return bool(pattern.search(f"{current.name} {ast.get_docstring(current) or ''}"))
        if isinstance(current, ast.If) and pattern.search(ast.unparse(current.test)):
            return True
        place = _header(current)
        if place is not None and any(pattern.search(text) for text in comments_at(place)):
            return True
        current = parent_of(current)
    return False


def _header(node: ast.AST) -> ast.AST | None:
    """What of a statement is read for comments: all of a simple one, the first row of a compound one."""
    match node:
        case ast.For(iter=header) | ast.While(test=header) | ast.If(test=header):
            return header
        case ast.With(items=items):
            return items[0].context_expr
        case ast.stmt() if not hasattr(node, "body"):
            return node
        case _:
            return None


@lru_cache(maxsize=64)
def _comments_of(part: Part) -> dict[int, tuple[str, bool]]:
    """The comments of a part by row (from 0), and whether each stands alone on its row."""
    found = {}
    rows = part.text.split("\n") if "#" in part.text else []
    for comment in comments(part.text) if rows else ():
        alone = comment.row < len(rows) and rows[comment.row].lstrip().startswith("#")
        found[comment.row] = (comment.text, alone)
    return found
