"""Half-typed lines: what somebody is typing must not change what is found elsewhere."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from torchlint.finding import Finding

#: Kind -> the line as far as it was typed.
LINES = {
    "attribute": "x = model.",
    "call": "foo(",
    "string": 'name = "half a',
    "if": "if ready:",
}


@dataclass(frozen=True)
class Typed:
    """A text with a half-typed line; ``row`` (from 1) is where that line stands."""

    kind: str
    row: int
    text: str


def statement_rows(text: str) -> list[tuple[int, str]]:
    """Rows (from 1) and indentation of statements inside functions before which a line can be typed.

    Not before a docstring (it would no longer be one), not behind a semicolon or on the row of a ``def``.
    """
    lines = text.split("\n")
    rows: dict[int, str] = {}
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in _statements(function):
                row = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
                line = lines[row - 1]
                indent = line[: len(line) - len(line.lstrip())]
                first = statement.lineno > row or len(indent) == statement.col_offset
                if first and indent.strip(" \t") == "":
                    rows[row] = indent
    return sorted(rows.items())


def _statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    docstring = function.body[0] if ast.get_docstring(function, clean=False) is not None else None
    nodes = list(ast.walk(function))
    # An `elif` is an `If` in the tree, and no statement that a line can be put before.
    elifs = [node.orelse[0] for node in nodes if isinstance(node, ast.If) and len(node.orelse) == 1]
    skipped = {id(function), id(docstring), *(id(branch) for branch in elifs if isinstance(branch, ast.If))}
    yield from (node for node in nodes if isinstance(node, ast.stmt) and id(node) not in skipped)


def half_typed(text: str, seed: str, positions: int = 1) -> Iterator[Typed]:
    """The text with each kind of half-typed line at some positions; the same seed gives the same ones."""
    rows = statement_rows(text)
    if not rows:
        return
    chooser = random.Random(seed)
    lines = text.split("\n")
    for kind, code in LINES.items():
        for row, indent in chooser.sample(rows, min(positions, len(rows))):
            yield Typed(kind, row, "\n".join([*lines[: row - 1], indent + code, *lines[row - 1 :]]))


def expected_findings(findings: Iterable[Finding], row: int) -> list[Finding]:
    """The findings as they are with one more line at ``row`` (from 1)."""

    def moved(place: int) -> int:
        return place + 1 if place >= row else place

    return [
        replace(
            finding,
            row=moved(finding.row),
            end_row=moved(finding.end_row),
            related=tuple(
                replace(related, row=moved(related.row), end_row=moved(related.end_row)) for related in finding.related
            ),
        )
        for finding in findings
    ]


def difference(expected: Iterable[Finding], got: Iterable[Finding], typed_row: int) -> list[str]:
    """What changed outside the typed line, one line of text each."""
    wanted, found = set(expected), {finding for finding in got if finding.row != typed_row}
    return [
        *(f"lost row {one.row}: [{one.name}] {one.message}" for one in sorted(wanted - found, key=_place)),
        *(f"new row {one.row}: [{one.name}] {one.message}" for one in sorted(found - wanted, key=_place)),
    ]


def _place(finding: Finding) -> tuple[int, int, str]:
    return finding.row, finding.column, finding.code
