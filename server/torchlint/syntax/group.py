"""A group: a top-level statement as one part, or a class as its header and a part for each member."""

from __future__ import annotations

import ast
from typing import TypeVar

from torchlint.frozen import dataclass
from torchlint.syntax.part import Part, Source

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Trees:
    """What a group says: kept as long as all of its parts are, whatever does not parse between them."""

    parts: tuple[Part, ...]
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """A top-level statement: one part, or, for a class, its header and a part for each member.

    ``rows`` tell where each part starts, relative to the group (from 0).
    """

    text: str
    sources: tuple[Source, ...]
    rows: tuple[int, ...]
    trees: Trees
    #: Rows of the group, counted by its line ends.
    row_count: int

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.trees.parts

    @property
    def body(self) -> tuple[ast.stmt, ...]:
        return self.trees.body


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The groups of a text in order; ``starts`` are their character offsets, ``rows`` their first rows from 0."""

    groups: tuple[Group, ...]
    starts: tuple[int, ...]
    rows: tuple[int, ...]


def differing(before: tuple[_T, ...], after: tuple[_T, ...]) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
    """Two sequences without the objects that they share at the start and at the end."""
    shortest = min(len(before), len(after))
    start = 0
    while start < shortest and before[start] is after[start]:
        start += 1
    end = 0
    while end < shortest - start and before[-1 - end] is after[-1 - end]:
        end += 1
    return before[start : len(before) - end], after[start : len(after) - end]


def trees_of(parts: tuple[Part, ...]) -> Trees:
    """The trees of a statement, or of a class whose header is the first of several parts."""
    if parts[0].kind == "statement":
        return Trees(parts, parts[0].body)
    header = parts[0].body[0]
    assert isinstance(header, ast.ClassDef)
    return Trees(parts, (_assembled(header, [statement for part in parts[1:] for statement in part.body]),))


def _assembled(header: ast.ClassDef, body: list[ast.stmt]) -> ast.ClassDef:
    """A new class node (so that its identity tells that a member changed) with the header's own expressions."""
    fields = {name: getattr(header, name) for name in header._fields if hasattr(header, name)}
    fields["body"] = body or header.body
    node = ast.ClassDef(**fields)
    ast.copy_location(node, header)
    node._part = header._part  # type: ignore[attr-defined]
    return node
