"""Cutting a text into groups along its logical lines, from some statement on, until statements are met that are as in
the version before."""

from __future__ import annotations

import ast
from bisect import bisect_left

from torchlint.frozen import dataclass
from torchlint.syntax.group import Group, Layout
from torchlint.syntax.lexing import CLAUSES, LogicalLine, count_rows, logical_lines, with_comments_above
from torchlint.syntax.reuse import Reusable


@dataclass(frozen=True, eq=False)
class Earlier:
    """The version before. Its text is the same before the group ``first``, and from the offset ``unchanged_from`` on,
    which is ``shift`` further on now."""

    layout: Layout
    first: int
    unchanged_from: int
    shift: int

    @property
    def unchanged(self) -> int:
        """The first group that is where the text is the same again."""
        return max(bisect_left(self.layout.starts, self.unchanged_from), self.first + 1)

    def group_at(self, offset: int) -> int | None:
        """The group that was where the text is the same again and begins at an offset now."""
        number = bisect_left(self.layout.starts, offset - self.shift)
        found = self.unchanged <= number < len(self.layout.starts)
        return number if found and self.layout.starts[number] == offset - self.shift else None


def split(
    text: str,
    reusable: Reusable,
    earlier: Earlier | None = None,
    *,
    closed: int = -1,
    ends: tuple[int, ...] = (),
) -> Layout:
    """The groups of a text. For ``closed`` and ``ends`` see ``logical_lines``."""
    splitter = _Splitter(text, reusable, earlier)
    position, row = splitter.begin
    pending: list[LogicalLine] = []
    for line in logical_lines(text, position, row, closed, ends):
        if _starts_statement(line, pending):
            place = with_comments_above(text, line.start, line.row, pending[-1].end if pending else position, ends)
            if pending:
                splitter.append(pending, place[0])
                pending = []
            splitter.begin = place
            if splitter.is_resumed():
                return splitter.layout()
        pending.append(line)
    if pending:
        splitter.append(pending, len(text))
    return splitter.layout()


class _Splitter:
    """The groups that were found until now; ``begin`` are offset and row of the next."""

    def __init__(self, text: str, reusable: Reusable, earlier: Earlier | None) -> None:
        self._text = text
        self._reusable = reusable
        self._earlier = earlier
        self._groups: list[Group] = []
        self._starts: list[int] = []
        self._rows: list[int] = []
        self._rest_is_added = False
        self.begin = (0, 0)
        if earlier is not None:
            first, old = earlier.first, earlier.layout
            self._groups += old.groups[:first]
            self._starts += old.starts[:first]
            self._rows += old.rows[:first]
            if first:  # else text may have been put before the first statement
                self.begin = (old.starts[first], old.rows[first])

    def layout(self) -> Layout:
        return Layout(tuple(self._groups), tuple(self._starts), tuple(self._rows))

    def is_resumed(self) -> bool:
        """Whether all that follows is as it was: then it has been added."""
        earlier = self._earlier
        number = earlier.group_at(self.begin[0]) if earlier is not None else None
        if earlier is None or number is None or not self._reusable.has_all(earlier.layout.groups[number:]):
            return False
        old = earlier.layout
        row_shift = self.begin[1] - old.rows[number]
        self._groups += old.groups[number:]
        self._starts += [start + earlier.shift for start in old.starts[number:]]
        self._rows += [row + row_shift for row in old.rows[number:]]
        return True

    def append(self, lines: list[LogicalLine], end: int) -> None:
        """Add the group of some logical lines, which ends at an offset."""
        start, row = self.begin
        text = self._text[start:end]
        earlier = self._earlier
        if earlier is not None and not self._rest_is_added and start >= earlier.unchanged_from + earlier.shift:
            self._reusable.add(earlier.layout.groups[earlier.unchanged :])
            self._rest_is_added = True
        group = self._reusable.group(text)
        self._groups.append(group or self._class(text, lines) or self._statement(text))
        self._starts.append(start)
        self._rows.append(row)

    def _statement(self, text: str) -> Group:
        sources = (self._reusable.source(text, "statement"),)
        return Group(text, sources, (0,), self._reusable.trees(sources), count_rows(text, 0, len(text)))

    def _class(self, text: str, lines: list[LogicalLine]) -> Group | None:
        """A class cut into header and members; None where the statement is no class or is not laid out as usual."""
        cuts = self._member_cuts(text, lines)
        if not cuts:
            return None
        head = self._reusable.source(text[: cuts[0][0]], "header")
        if len(head.part.body) != 1 or not isinstance(head.part.body[0], ast.ClassDef):
            return None
        ends = [*(start for start, _ in cuts[1:]), len(text)]
        pieces = (text[start:end] for (start, _), end in zip(cuts, ends, strict=True))
        sources = (head, *(self._reusable.source(piece, "member", head.part) for piece in pieces))
        trees = self._reusable.trees(sources)
        return Group(text, sources, (0, *(row for _, row in cuts)), trees, count_rows(text, 0, len(text)))

    def _member_cuts(self, text: str, lines: list[LogicalLine]) -> list[tuple[int, int]]:
        """Offset and row in the text of a class at which its members begin. None where only an `else:` or the like is
        there, without what it belongs to, and where it is no class with members on lines of their own."""
        header = next((index for index, line in enumerate(lines) if line.word != "@"), None)
        if header is None or lines[header].word != "class" or header + 1 >= len(lines):
            return []
        indent = lines[header + 1].indent
        members = lines[header + 1 :]
        if indent == 0 or any(line.indent < indent for line in members):
            return []
        origin, first_row = self.begin
        cuts: list[tuple[int, int]] = []
        previous = lines[header]
        for line in members:
            starts = line.indent == indent and line.word not in CLAUSES
            if starts and (previous.word != "@" or previous.indent != indent):
                start, row = line.start - origin, line.row - first_row
                cuts.append(with_comments_above(text, start, row, previous.end - origin))
            previous = line
        return cuts


def _starts_statement(line: LogicalLine, pending: list[LogicalLine]) -> bool:
    """A line at the left margin starts a statement, unless it is a further clause or what a decorator decorates."""
    if line.indent:
        return not pending
    if not pending:
        return True
    return line.word not in CLAUSES and pending[-1].word != "@"
