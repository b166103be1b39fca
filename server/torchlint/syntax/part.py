"""A part: the smallest piece of text that is parsed by itself, a top-level statement or a member of a class.

A part is kept as long as its text is the same, wherever it moves. So no node knows where in the file it stands: rows
of nodes are relative to their part, and the version of the module that is looked at (``SyntaxModule``) knows where
each of its parts starts.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Literal

from torchlint.frozen import dataclass
from torchlint.syntax.lexing import count_rows
from torchlint.syntax.recovery import Recovered, parse_with_recovery

#: What a member of a class is parsed behind, so that its indentation is right.
_MEMBER_PREFIX = "class _:\n"
#: What stands before the ``pass`` that a class has in place of its members, whatever stands before them: the header is
#: kept over edits, and the members may have been indented anew.
HEADER_MARGIN = "    "


PartKind = Literal["statement", "header", "member"]
#: How many rows a part of each kind is parsed behind when it is parsed by itself.
PARSED_BEHIND: dict[PartKind, int] = {"statement": 0, "header": 0, "member": 1}


@dataclass(frozen=True, eq=False)
class Part:
    """The statements of one piece of text.

    ``lead`` is the number of rows before the part's first row in what was parsed, so that ``node.lineno - 1 - lead``
    is the row of a node in the part, from 0. It is made ``PARSED_BEHIND`` when the part is indexed, so that a node has
    the same place whether the part was parsed with the rest or by itself. ``problems`` are (row in the part from 0,
    message).
    """

    text: str
    kind: PartKind
    lead: int
    body: tuple[ast.stmt, ...]
    problems: tuple[tuple[int, str], ...]
    #: Rows of the part (from 0) whose text was blanked because it does not parse: no fix touches them.
    broken_rows: frozenset[int]


def parse_statement(text: str) -> Part:
    """Parse a top-level statement."""
    return _part(text, "statement", parse_with_recovery(text))


def parse_member(text: str) -> Part:
    """Parse a member of a class, given with its indentation."""
    recovered = parse_with_recovery(_MEMBER_PREFIX + text)
    body = recovered.body
    if len(body) == 1 and isinstance(body[0], ast.ClassDef) and body[0].name == "_":
        return _part(text, "member", replace(recovered, body=tuple(body[0].body)))
    # What follows an unclosed string came out of the class: nothing of it can be placed.
    every_row = frozenset(range(1, count_rows(text, 0, len(text)) + 2))
    return _part(text, "member", replace(recovered, body=(), broken_rows=every_row))


def parse_class_header(text: str) -> Part:
    """Parse decorators and ``class X(...):`` without the members; the class gets its members afterwards."""
    return _part(text, "header", parse_with_recovery(f"{text}{HEADER_MARGIN}pass\n"))


def _part(text: str, kind: PartKind, recovered: Recovered) -> Part:
    lead = PARSED_BEHIND[kind]
    problems = tuple((row - lead, message) for row, message in recovered.problems)
    broken = frozenset(row - lead for row in recovered.broken_rows)
    part = Part(text, kind, lead, recovered.body, problems, broken)
    for statement in recovered.body:
        statement._part = part  # type: ignore[attr-defined]
    return part


def parent_of(node: ast.AST) -> ast.AST | None:
    """The node that holds ``node``; None at the top of a part (set when a part is indexed)."""
    parent: ast.AST | None = node.__dict__.get("_parent")
    return parent


def part_of(node: ast.AST) -> Part:
    """The part in which a node stands: one at its top, or any node once the part is indexed."""
    # Of an indexed node its scope knows: one entry less, and the dicts of most nodes stay small.
    scope = node.__dict__.get("_scope")
    part: Part | None = scope.part if scope is not None else node.__dict__.get("_part")
    if part is None:
        raise LookupError(f"{node!r} belongs to no part")
    return part
