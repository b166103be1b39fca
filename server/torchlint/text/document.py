"""A document: the text that is analysed, and where its rows and notebook cells are."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from torchlint.frozen import dataclass
from torchlint.text.lines import LineIndex
from torchlint.text.logical import LogicalLines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.finding import TextEdit
    from torchlint.text.notebooks import NotebookFile


class DocumentError(Exception):
    """A file that cannot be read or written as a document; the text says which and why."""

    def __init__(self, filename: str, reason: str) -> None:
        super().__init__(f"{filename}: {reason}")
        self.filename = filename
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell of a notebook.

    ``index`` counts all cells of the notebook (text cells too) from 1, as in ruff's JSON. ``first_row`` counts from 0
    in the joined text; the cell has ``row_count`` rows there, at least 1.
    """

    index: int
    first_row: int
    row_count: int


@dataclass(frozen=True, slots=True)
class Mask:
    """Characters of a notebook that are not Python (a magic) and were replaced by as many that are."""

    start: int
    original: str

    @property
    def end(self) -> int:
        return self.start + len(self.original)


@dataclass(frozen=True)
class Document:
    """A text to analyse. ``text`` has the file's own line terminators and no byte order mark.

    ``newline`` is the terminator for lines that a fix adds. For a notebook ``text`` is the program that its Python
    cells make, one after the other, with magics masked by harmless Python of the same length.
    """

    text: str
    filename: str = "<string>"
    cells: tuple[Cell, ...] = ()
    newline: str = "\n"
    encoding: str = "utf-8"
    bom: bool = False
    masks: tuple[Mask, ...] = ()
    #: The notebook's JSON, to write a change back.
    notebook: NotebookFile | None = None
    #: The bytes that were read are not what encoding the text gives: it can be analysed but not written.
    read_only: bool = False

    @cached_property
    def lines(self) -> LineIndex:
        """Rows, columns and offsets of the text."""
        return LineIndex(self.text)

    @cached_property
    def logical_lines(self) -> LogicalLines:
        """The logical lines of the text; in a notebook they end with their cell."""
        return LogicalLines(self.text, tuple(self.lines.line_start(cell.first_row) for cell in self.cells))

    @cached_property
    def _first_rows(self) -> list[int]:
        return [cell.first_row for cell in self.cells]

    def cell_at(self, row: int) -> Cell | None:
        """The cell that holds a row (from 0) of the joined text; None outside every cell, or if not a notebook."""
        number = bisect_right(self._first_rows, row) - 1
        if number < 0:
            return None
        cell = self.cells[number]
        return cell if row < cell.first_row + cell.row_count else None

    def cell_text(self, cell: Cell) -> str:
        """The cell's own text, magics as the user wrote them, without the line end that joins it to the next."""
        start = self.lines.line_start(cell.first_row)
        end = self.lines.line_end(cell.first_row + cell.row_count - 1)
        pieces, position = [], start
        for mask in self.masks:
            if start <= mask.start and mask.end <= end:
                pieces += [self.text[position : mask.start], mask.original]
                position = mask.end
        return "".join([*pieces, self.text[position:end]])

    def with_edits(self, edits: Iterable[TextEdit]) -> Document:
        """The document after edits that do not overlap: cells and masked magics move with their text.

        An edit stays inside one cell. Raises ValueError for edits that overlap or lie outside the text.
        """
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
        pieces, position = [], 0
        for edit in ordered:
            if not position <= edit.start <= edit.end <= len(self.text):
                raise ValueError(f"edit {edit.start}-{edit.end} overlaps another or lies outside the text")
            pieces += [self.text[position : edit.start], edit.content]
            position = edit.end
        text = "".join([*pieces, self.text[position:]])
        if not self.cells:
            return replace(self, text=text)
        return replace(self, text=text, cells=self._moved_cells(text, ordered), masks=self._moved_masks(ordered))

    def _moved_cells(self, text: str, edits: list[TextEdit]) -> tuple[Cell, ...]:
        lines, cells, next_edit, moved, first_row = LineIndex(text), [], 0, 0, 0
        for cell in self.cells:
            end = self.lines.line_end(cell.first_row + cell.row_count - 1)
            while next_edit < len(edits) and edits[next_edit].start <= end:
                edit = edits[next_edit]
                if edit.end > end:
                    raise ValueError(f"edit {edit.start}-{edit.end} crosses the end of notebook cell {cell.index}")
                moved += len(edit.content) - (edit.end - edit.start)
                next_edit += 1
            row_count = lines.row_of(end + moved) + 1 - first_row
            cells.append(Cell(cell.index, first_row, row_count))
            first_row += row_count
        return tuple(cells)

    def _moved_masks(self, edits: list[TextEdit]) -> tuple[Mask, ...]:
        masks, next_edit, moved = [], 0, 0
        for mask in self.masks:
            while next_edit < len(edits) and edits[next_edit].end <= mask.start:
                moved += len(edits[next_edit].content) - (edits[next_edit].end - edits[next_edit].start)
                next_edit += 1
            untouched = next_edit == len(edits) or edits[next_edit].start >= mask.end
            if untouched:
                masks.append(Mask(mask.start + moved, mask.original))
        return tuple(masks)
