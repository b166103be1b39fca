"""A part: the smallest piece of text that is parsed by itself, a top-level statement or a member of a class.

A part is kept as long as what could be parsed of its text is the same, wherever it moves. So no node knows where in
the file it stands: rows of nodes are relative to their part, and the version of the module that is looked at
(``SyntaxModule``) knows where each of its parts starts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Literal

from torchlint.frozen import dataclass
from torchlint.syntax.lexing import count_rows
from torchlint.syntax.recovery import parse_with_recovery

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

    ``text`` is what they were parsed from: without the statements that do not parse, which stood on ``broken_rows``
    (from 0; no fix touches them). ``lead`` is the number of rows before the part's first row in what was parsed, so
    that ``node.lineno - 1 - lead`` is the row of a node in the part, from 0. It is made ``PARSED_BEHIND`` when the part
    is indexed, so that a node has the same place whether the part was parsed with the rest or by itself.
    """

    text: str
    kind: PartKind
    lead: int
    body: tuple[ast.stmt, ...]
    broken_rows: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """The text of a part as it stands in the file; ``problems`` are (row in the part from 0, message)."""

    text: str
    part: Part
    problems: tuple[tuple[int, str], ...] = ()


#: Gives a part that was parsed from a text without what stood on some rows, if there is one that can be used again.
KnownPart = Callable[[str, frozenset[int]], "Part | None"]


def parse_part(text: str, kind: PartKind, known: KnownPart) -> Source:
    """Parse a part: a top-level statement, a member of a class (given with its indentation), or the decorators and
    ``class X(...):`` of a class, which gets its members afterwards."""
    lead = PARSED_BEHIND[kind]
    before = _MEMBER_PREFIX if kind == "member" else ""
    behind = f"{HEADER_MARGIN}pass\n" if kind == "header" else ""

    def parsed_before(whole: str, rows: frozenset[int]) -> Part | None:
        return None if behind else known(whole[len(before) :], frozenset(row - lead for row in rows))

    recovered = parse_with_recovery(f"{before}{text}{behind}", parsed_before)
    problems = tuple((row - lead, message) for row, message in recovered.problems)
    if recovered.known is not None:
        return Source(text, recovered.known, problems)
    body = recovered.body
    parsed = recovered.text[len(before) :].removesuffix(behind)
    broken = frozenset(row - lead for row in recovered.broken_rows)
    if kind == "member":
        if len(body) == 1 and isinstance(body[0], ast.ClassDef) and body[0].name == "_":
            body = tuple(body[0].body)
        else:  # what follows an unclosed string came out of the class: nothing of it can be placed
            body, parsed, broken = (), "", frozenset(range(count_rows(text, 0, len(text)) + 1))
    part = Part(parsed, kind, lead, body, broken)
    for statement in body:
        statement._part = part  # type: ignore[attr-defined]
    return Source(text, part, problems)


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
