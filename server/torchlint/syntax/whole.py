"""The groups of a text that parses as a whole: cut along its tree, which costs half of looking for logical lines first.

The cuts are those of ``module.py``, and the nodes stand where they do when each part is parsed by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import accumulate

from torchlint.syntax.group import Group, Layout, trees_of
from torchlint.syntax.part import HEADER_MARGIN, Part, PartKind, Source
from torchlint.syntax.recovery import tree_of

#: The row (from 0) at which a statement begins, with the comments right above it, and the statement, with those that
#: share its line.
_Cut = tuple[int, list[ast.stmt]]


def whole_layout(text: str) -> Layout | None:
    """The groups and where they start.

    None where lines must be looked at one by one: the text does not parse, it has line ends or form feeds that Python
    counts in another way than ``str.split``, or a backslash stands above a statement.
    """
    tree = None if "\r" in text or "\f" in text else tree_of(text)
    if tree is None or not tree.body:
        return None
    cutter = _Cutter(text)
    cuts = cutter.cuts(tree.body, 0)
    groups = tuple(cutter.group(cut, end) for cut, end in zip(cuts, cutter.ends(cuts), strict=True))
    rows = tuple(row for row, _ in cuts)
    if cutter.continued:
        return None
    return Layout(groups, tuple(cutter.starts[row] for row in rows), rows)


def _first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min((decorator.lineno for decorator in decorators), default=statement.lineno) - 1


class _Cutter:
    """Cuts one text; ``starts`` are the character offsets of its rows, and of its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.starts = list(accumulate(map((1).__add__, map(len, text.split("\n"))), initial=0))
        self.starts[-1] = len(text)
        #: Whether a line above a statement ends with a backslash: the statement may begin there.
        self.continued = False

    def cuts(self, body: Sequence[ast.stmt], floor: int) -> list[_Cut]:
        """The statements of a block whose lines begin after the row before ``floor``."""
        cuts: list[_Cut] = []
        for statement in body:
            row = _first_row(statement)
            if row >= floor:
                self.continued |= row > 0 and self._text.startswith("\\", self.starts[row] - 2)
                cuts.append((self._with_comments_above(row, floor), [statement]))
            else:
                cuts[-1][1].append(statement)
            floor = statement.end_lineno or 1
        return cuts

    def _with_comments_above(self, row: int, floor: int) -> int:
        comment = self._margin(row) + "#"
        while row > floor and self._text.startswith(comment, self.starts[row - 1]):
            row -= 1
        return row

    def _margin(self, row: int) -> str:
        line = self._between(row, row + 1)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def ends(self, cuts: Sequence[_Cut], end: int = -1) -> Iterator[int]:
        """The row behind each cut: where the next one starts; ``end`` behind the last."""
        yield from (row for row, _ in cuts[1:])
        yield end % len(self.starts)

    def group(self, cut: _Cut, end: int) -> Group:
        row, statements = cut
        text = self._between(row, end)
        members = self._members(statements)
        if members is None:
            part = self._part("statement", row, end, statements)
            return Group(text, (Source(text, part),), (0,), trees_of((part,)), text.count("\n"))
        header = self._header(statements[0], row, members[0][0])
        parts = [Part(self._between(row, members[0][0]), "header", 0, (header,))]
        header._part = parts[0]  # type: ignore[attr-defined]
        for (start, held), stop in zip(members, self.ends(members, end), strict=True):
            parts.append(self._part("member", start, stop, held))
        rows = (0, *(start - row for start, _ in members))
        sources = tuple(Source(part.text, part) for part in parts)
        return Group(text, sources, rows, trees_of(tuple(parts)), text.count("\n"))

    def _between(self, row: int, end: int) -> str:
        return self._text[self.starts[row] : self.starts[end]]

    def _part(self, kind: PartKind, row: int, end: int, statements: Sequence[ast.stmt]) -> Part:
        part = Part(self._between(row, end), kind, row, tuple(statements))
        for statement in statements:
            statement._part = part  # type: ignore[attr-defined]
        return part

    def _members(self, statements: Sequence[ast.stmt]) -> list[_Cut] | None:
        """The cuts of a class whose members have lines of their own; None for anything else."""
        if len(statements) > 1 or not isinstance(statements[0], ast.ClassDef):
            return None
        header, first = statements[0], statements[0].body[0]
        decorated = bool(getattr(first, "decorator_list", ()))
        alone = decorated or len(self._margin(first.lineno - 1)) == first.col_offset
        return self.cuts(header.body, header.lineno) if alone else None

    def _header(self, node: ast.stmt, row: int, end: int) -> ast.ClassDef:
        """The class with ``pass`` in place of its members, which follow from the row ``end`` on."""
        assert isinstance(node, ast.ClassDef)
        margin = len(HEADER_MARGIN)
        last = end - row + 1
        fields = {name: getattr(node, name) for name in node._fields if hasattr(node, name)}
        for value in (*node.decorator_list, *node.bases, *node.keywords, *fields.get("type_params", ())):
            ast.increment_lineno(value, -row)
        place = {"lineno": last, "col_offset": margin, "end_lineno": last, "end_col_offset": margin + len("pass")}
        header = ast.ClassDef(**{**fields, "body": [ast.Pass(**place)]})
        header.lineno, header.col_offset = node.lineno - row, node.col_offset
        header.end_lineno, header.end_col_offset = last, place["end_col_offset"]
        return header
