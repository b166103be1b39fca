"""Source lines with the spans in question underlined, as compilers show them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from torchlint.frozen import dataclass
from torchlint.reports.look import Look, displayed
from torchlint.text import LineIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.finding import Severity
    from torchlint.text import Document

_CONTEXT = 2
#: A span of more rows than this shows its first and last rows only.
_LONGEST_SPAN = 7
_SPAN_HEAD, _SPAN_TAIL = 3, 2
_NARROWEST = 40
#: What is kept in view to the left of a span when a long line is cropped, in characters.
_LEAD = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A span to underline. Rows and columns of the whole document from 1, columns in characters, end exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int
    label: str = ""
    #: The severity of the finding itself; None for a related place.
    severity: Severity | None = None

    @property
    def last_row(self) -> int:
        """The last row that the span really covers."""
        return self.end_row - 1 if self.end_column <= 1 and self.end_row > self.row else self.end_row

    def paint(self, text: str, look: Look) -> str:
        return look.paint(text, "blue", bold=True) if self.severity is None else look.severity(self.severity, text)


class Excerpt:
    """The lines that show some marks in one picture, in the order of their rows.

    In a notebook all marks must stand in one cell; rows are then numbered inside it. Only the finding itself gets lines
    of context, and only it is drawn over several rows; of a related place the first row is enough to find it.
    """

    def __init__(self, document: Document, marks: Sequence[Mark], look: Look) -> None:
        self.look = look
        cell = document.cell_at(marks[0].row - 1)
        self.first = cell.first_row + 1 if cell else 1
        # What is shown of a notebook is what its user wrote, not the text with its magics masked.
        self.source = LineIndex(document.cell_text(cell)) if cell else document.lines
        self.last = self.first + self.source.row_count - 1
        self.marks = [mark for mark in marks if self.first <= mark.row <= self.last]
        self.span = next((m for m in self.marks if m.severity is not None and m.last_row > m.row), None)
        self.rows = self._rows()
        #: Columns that the row numbers take.
        self.gutter = len(str(max(self.rows, default=self.first) - self.first + 1))

    def _line(self, row: int) -> str:
        return self.source.line(row - self.first)

    def _rows(self) -> list[int]:
        rows: set[int] = set()
        for mark in self.marks:
            if mark.severity is None:
                rows.add(mark.row)
            else:
                rows.update(self._rows_of_finding(mark))
        ordered = sorted(rows)
        # A gap of one row is better filled than announced.
        rows.update(row + 1 for row, after in pairwise(ordered) if after == row + 2)
        return sorted(rows)

    def _rows_of_finding(self, mark: Mark) -> Iterator[int]:
        last = min(mark.last_row, self.last)
        if last - mark.row < _LONGEST_SPAN:
            yield from range(mark.row, last + 1)
        else:
            yield from range(mark.row, mark.row + _SPAN_HEAD)
            yield from range(last - _SPAN_TAIL + 1, last + 1)
        yield from self._context(range(max(mark.row - _CONTEXT, self.first), mark.row))
        yield from self._context(range(min(last + _CONTEXT, self.last), last, -1))

    def _context(self, outside_in: range) -> Iterator[int]:
        """The rows beside a finding, without blank ones at the outer edge."""
        kept = False
        for row in outside_in:
            kept = kept or bool(self._line(row).strip())
            if kept:
                yield row

    def lines(self) -> Iterator[str]:
        """The picture, from one ruled empty line to another."""
        yield self._ruled("")
        previous: int | None = None
        for row in self.rows:
            if previous is not None and row > previous + 1:
                inside = self.span is not None and self.span.row <= previous < self.span.last_row
                bar = " " * max(self.gutter - 1, 0) + self._span_bar(" |") if inside else ""
                yield self.look.paint("...", "blue", bold=True) + bar
            yield from self._row(row)
            previous = row
        yield self._ruled("")

    def _ruled(self, content: str, number: str = "") -> str:
        rule = self.look.paint(f"{number:>{self.gutter}} |", "blue", bold=True)
        return f"{rule} {content}" if content else rule

    def _row(self, row: int) -> Iterator[str]:
        text = self._line(row)
        here = [mark for mark in self.marks if mark.row == row]
        focus = min((mark.column - 1 for mark in here), default=0)
        if self.span is not None and row == self.span.last_row:
            focus = min(focus, self.span.end_column - 1)
        shown, columns = _cropped(text, focus, max(self.look.width - self.gutter - 5, _NARROWEST))
        yield self._ruled((self._bar(row, text) + shown).rstrip(), str(row - self.first + 1))
        for mark in sorted(here, key=lambda m: (m.severity is None, m.column)):
            if mark is not self.span:
                yield self._ruled(self._bar(row, text, after=True) + self._underline(mark, text, columns))
        span = self.span
        if span is not None and row == span.row and not self._starts_line(text):
            yield self._ruled(self._span_bar(" " + "_" * (columns[_clamped(span.column - 1, text)] + 1) + "^"))
        if span is not None and row == span.last_row:
            end = _clamped(span.end_column - 1 if span.last_row == span.end_row else len(text), text)
            yield self._ruled(self._span_bar("|" + "_" * max(columns[end], 1) + "^"))

    def _underline(self, mark: Mark, text: str, columns: list[int]) -> str:
        start = columns[_clamped(mark.column - 1, text)]
        end_column = mark.end_column - 1 if mark.end_row == mark.row else len(text.rstrip())
        end = columns[_clamped(end_column, text)]
        line = ("-" if mark.severity is None else "^") * max(end - start, 1)
        return " " * start + mark.paint(f"{line} {mark.label}".rstrip(), self.look)

    def _starts_line(self, text: str) -> bool:
        assert self.span is not None
        return not text[: self.span.column - 1].strip()

    def _bar(self, row: int, text: str, *, after: bool = False) -> str:
        """The margin in which a span of several rows is drawn: two columns where there is one, else none."""
        if self.span is None:
            return ""
        if row == self.span.row:
            opened = self._starts_line(text)
            return self._span_bar("| " if opened and after else "/ ") if opened else "  "
        return self._span_bar("| ") if self.span.row < row <= self.span.last_row else "  "

    def _span_bar(self, drawn: str) -> str:
        assert self.span is not None
        return self.span.paint(drawn, self.look)


def _clamped(index: int, text: str) -> int:
    return min(max(index, 0), len(text))


def _cropped(text: str, focus: int, limit: int) -> tuple[str, list[int]]:
    """``displayed(text)``, cut to ``limit`` columns around the character ``focus``."""
    if len(text) <= limit:
        shown, columns = displayed(text)
        if columns[-1] <= limit:
            return shown, columns
    start = max(focus - _LEAD, 0) if focus > limit * 2 // 3 else 0
    before = "…" if start else ""
    room = limit - len(before) - 1
    piece = text[start : start + room]
    piece = piece[: bisect_right(displayed(piece)[1], room) - 1]
    after = "…" if start + len(piece) < len(text) else ""
    shown, columns = displayed(piece)
    inside = [column + len(before) for column in columns]
    return before + shown + after, [0] * start + inside + [inside[-1]] * (len(text) - start - len(piece))
