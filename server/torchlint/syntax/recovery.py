"""Parsing that never fails: the smallest statement that does not parse is blanked, the rest keeps its tree.

CPython's parser stops at the first error. The error names a place that is often one line late, or the bracket or
string that was left open. So a few statements around that place are tried, smallest first, and the first whose
absence moves the error on is given up.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from torchlint.frozen import dataclass
from torchlint.regex import regex

#: A part with more broken statements than this is given up as a whole.
_MOST_ATTEMPTS = 12
_INDENT = regex(r"[ \t\f]*")
_AFTER_STATEMENT = regex(r"on line (\d+)")
_OPENS_SUITE = regex(r"[ \t]*(?:async[ \t]+)?(?:if|for|while|with|try|else|elif|except|finally|match|case)\b")
_OPENS_DEFINITION = regex(r"[ \t]*(?:(?:async[ \t]+)?def|class)\b")
_BRACKET = regex(r"[()\[\]{}]")
_NO_CODE = regex(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|#.*")
_BODIES = ("body", "orelse", "finalbody")
_CLAUSES = ("handlers", "cases")
#: Statements that hold statements.
_HOLDERS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With),
    *(ast.AsyncWith, ast.Try, getattr(ast, "TryStar", ast.Try), ast.Match),
)
_LINES = regex(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


#: Gives what is known already of a text without what stood on some rows (from 0); None: it is to be parsed.
_Known = Callable[[str, frozenset[int]], object]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What could be parsed of a text, which is what is left of it. Rows count from 0 in the text that was given."""

    text: str
    body: tuple[ast.stmt, ...] = ()
    problems: tuple[tuple[int, str], ...] = ()
    broken_rows: frozenset[int] = frozenset()
    #: What was known of it, if that was something: then it was not parsed.
    known: Any = None


def parse_with_recovery(text: str, known: _Known = lambda text, rows: None) -> Recovered:
    """Parse ``text``; statements that do not parse are left out and told. Never raises."""
    tree, error = _parse(text)
    if tree is not None:
        return Recovered(text, tuple(tree.body))
    lines = [line for line in _LINES.findall(text) if line]
    problems: list[tuple[int, str]] = []
    broken: set[int] = set()
    for _ in range(_MOST_ATTEMPTS):
        attempt = _without_smallest(lines, _row_of(error, len(lines)), error, broken, known)
        if attempt is None:
            break
        lines = attempt.lines
        problems.append((min(attempt.blanked), _message(error)))
        broken |= attempt.blanked
        if attempt.known is not None or attempt.tree is not None:
            body = () if attempt.tree is None else _without_placeholders(attempt.tree, broken)
            return Recovered("".join(lines), body, tuple(problems), frozenset(broken), attempt.known)
        error = attempt.error
    problems.append((_row_of(error, len(lines)), _message(error)))
    return Recovered("", (), tuple(problems), frozenset(range(len(lines))))


def _message(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _without_placeholders(tree: ast.Module, broken: set[int]) -> tuple[ast.stmt, ...]:
    """The statements of a tree after taking out each ``pass`` that stands for a broken statement (rows from 0), except
    where it is all of a body."""
    holders: list[ast.AST] = [tree]
    while holders:
        node = holders.pop()
        for field in _BODIES:
            body = getattr(node, field, None)
            if not body:
                continue
            if len(body) > 1:
                kept = [one for one in body if not (isinstance(one, ast.Pass) and one.lineno - 1 in broken)]
                body[:] = kept or body[:1]
            holders += [one for one in body if isinstance(one, _HOLDERS)]
        for field in _CLAUSES:
            holders += getattr(node, field, ())
    return tuple(tree.body)


def tree_of(text: str) -> ast.Module | None:
    """The tree of a text; None where it does not parse."""
    return _parse(text)[0]


def _parse(text: str) -> tuple[ast.Module | None, Exception]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), SyntaxError("")
    # MemoryError and RecursionError: nesting beyond what the parser's stack takes. ValueError: a null byte.
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return None, error


def _row_of(error: Exception, row_count: int) -> int:
    line = error.lineno if isinstance(error, SyntaxError) else None
    return min(max((line or 1) - 1, 0), max(row_count - 1, 0))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Some lines without what stood on the rows ``blanked``; there is a tree, or what was known, or an error."""

    lines: list[str]
    blanked: set[int]
    tree: ast.Module | None
    error: Exception
    known: object = None


def _without_smallest(lines: list[str], row: int, error: Exception, broken: set[int], known: _Known) -> _Attempt | None:
    """The text without the smallest statement whose absence lets it parse, or at least moves the error on."""
    best: _Attempt | None = None
    best_row = row
    for first, last in _candidates(lines, row, error, broken):
        # One line was to blame if without it the error is further on than the next line: where the fault is an open
        # bracket above, blanking the line of the error only moves the error by one line.
        if last > first and best is not None and best_row > row + 1:
            return best
        blanked = _blank(lines, first, last)
        rows = set(range(first, last + 1))
        text = "".join(blanked)
        found = known(text, frozenset(broken | rows))
        if found is not None:
            return _Attempt(blanked, rows, None, error, found)
        tree, next_error = _parse(text)
        if tree is not None:
            return _Attempt(blanked, rows, tree, next_error)
        next_row = _row_of(next_error, len(lines))
        if next_row > best_row + (best is None and next_row <= last):
            best, best_row = _Attempt(blanked, rows, None, next_error), next_row
    return best


def _candidates(lines: list[str], row: int, error: Exception, broken: set[int]) -> Iterator[tuple[int, int]]:
    """Ranges of rows (from 0, both ends included) that may hold the broken statement, smallest and likeliest first."""
    tried: set[tuple[int, int]] = set()

    def fresh(first: int, last: int) -> Iterator[tuple[int, int]]:
        span = (max(first, 0), min(last, len(lines) - 1))
        if span not in tried and not set(range(span[0], span[1] + 1)) <= broken:
            tried.add(span)
            yield span

    rows = [row]
    message = str(error)
    named = _AFTER_STATEMENT.search(message)
    if named is not None:
        rows.insert(0, int(named.group(1)) - 1)
    before = row - 1
    while before >= 0 and not lines[before].strip():
        before -= 1
    if before >= 0:
        rows.append(before)

    def alone(candidate: int) -> Iterator[tuple[int, int]]:
        if 0 <= candidate < len(lines) and lines[candidate].strip():
            if _OPENS_DEFINITION.match(lines[candidate]):
                yield from fresh(candidate, _end_of_suite(lines, candidate))
            yield from fresh(candidate, candidate)

    never_closed = "never closed" in message
    opened = _open_bracket_row(lines, row) if never_closed else None
    if opened is not None and opened not in rows:
        rows.insert(0, opened)
    for candidate in rows:
        yield from alone(candidate)
    if not never_closed:  # mostly one of these was to blame, and nobody comes to ask for the bracket
        opened = _open_bracket_row(lines, row)
        if opened is not None and opened not in rows:
            rows.append(opened)
            yield from alone(opened)
    for candidate in rows:
        yield from fresh(_start_of_continued(lines, candidate), candidate)
    if opened is not None:
        yield from fresh(opened, row)
    for candidate in (*rows, *((opened,) if opened is not None else ())):
        yield from fresh(candidate, _end_of_suite(lines, candidate))
    # Outwards: the statements that hold the place, without the last (that would be the whole text).
    holder = _holder(lines, row)
    while holder is not None:
        yield from fresh(holder, _end_of_suite(lines, holder))
        holder = _holder(lines, holder)


def _blank(lines: list[str], first: int, last: int) -> list[str]:
    """Replace rows by a statement that holds their place: ``if 1:`` when the next line is deeper, else ``pass``."""
    start = first
    while start < last and not lines[start].strip():
        start += 1
    indent = _indent(lines[start])
    following = last + 1
    while following < len(lines) and _is_blank(lines[following]):
        following += 1
    opens = following < len(lines) and len(_indent(lines[following])) > len(indent)
    result = list(lines)
    for row in range(first, last + 1):
        result[row] = _line_end(lines[row])
    result[start] = indent + ("if 1:" if opens else "pass") + (_line_end(lines[start]) or "\n")
    return result


def _open_bracket_row(lines: list[str], row: int) -> int | None:
    """The row of the innermost bracket that is open at the start of ``row`` (strings of one line are skipped)."""
    stack: list[int] = []
    for current in range(row + 1):
        if _BRACKET.search(lines[current]) is None:
            continue
        code = _NO_CODE.sub("", lines[current])
        for character in code:
            if character in "([{":
                stack.append(current)
            elif character in ")]}" and stack:
                stack.pop()
    return stack[-1] if stack else None


def _start_of_continued(lines: list[str], row: int) -> int:
    """The first row of the lines above ``row`` that end in a backslash, an operator or an opening bracket."""
    while row > 0 and lines[row - 1].rstrip().endswith(
        ("\\", ",", "(", "[", "{", "+", "-", "*", "/", "=", "and", "or")
    ):
        row -= 1
    return row


def _end_of_suite(lines: list[str], row: int) -> int:
    """The last row of the statement that starts at ``row``: all deeper lines below it, and its further clauses."""
    depth = len(_indent(lines[row]))
    last = row
    decorated = lines[row].lstrip().startswith("@")
    for current in range(row + 1, len(lines)):
        line = lines[current]
        if _is_blank(line):
            continue
        same = len(_indent(line)) == depth
        if len(_indent(line)) < depth or (same and not decorated and not re.match(r"\s*[)\]}]", line)):
            break
        if same and not line.lstrip().startswith("@"):
            decorated = False
        last = current
    return last


def _holder(lines: list[str], row: int) -> int | None:
    """The row of the compound statement that holds ``row``; None for a statement at the left margin."""
    depth = len(_indent(lines[row]))
    for current in range(row - 1, -1, -1):
        line = lines[current]
        if _is_blank(line) or len(_indent(line)) >= depth:
            continue
        if _OPENS_SUITE.match(line) or _OPENS_DEFINITION.match(line):
            return current if len(_indent(line)) > 0 or current > 0 else None
        depth = len(_indent(line))
    return None


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match.group() if match is not None else ""


def _is_blank(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith("#")


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
