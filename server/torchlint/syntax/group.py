"""A group: a top-level statement as one part, or a class as its header and a part for each member."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.syntax.part import Part


@dataclass(frozen=True, eq=False)
class Group:
    """A top-level statement: one part, or, for a class, its header and a part for each member.

    ``rows`` tell where each part starts, relative to the group (from 0).
    """

    text: str
    parts: tuple[Part, ...]
    rows: tuple[int, ...]
    body: tuple[ast.stmt, ...]
    #: Rows of the group, counted by its line ends.
    row_count: int


def assembled(header: ast.ClassDef, body: list[ast.stmt]) -> ast.ClassDef:
    """A new class node (so that its identity tells that a member changed) with the header's own expressions."""
    fields = {name: getattr(header, name) for name in header._fields if hasattr(header, name)}
    fields["body"] = body or header.body
    node = ast.ClassDef(**fields)
    ast.copy_location(node, header)
    node._part = header._part  # type: ignore[attr-defined]
    return node
