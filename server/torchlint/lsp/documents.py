"""The editor's open documents, and the programs that they make.

A *buffer* is one text document of the protocol. A *program* is what is analysed as one: a file's buffer, or all Python
cells of a notebook. A *snapshot* is the immutable state of a program that an analysis works on.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.frozen import dataclass
from torchlint.text import Document, Encoding, LineIndex, document_from_cells
from torchlint.text.decoding import newline_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Buffer:
    """One text document as the editor shows it."""

    def __init__(self, item: types.TextDocumentItem) -> None:
        self.uri = item.uri
        self.language = item.language_id
        self.version = item.version
        self.text = item.text
        self._lines: LineIndex | None = None

    @property
    def lines(self) -> LineIndex:
        """Rows of the text as it is now."""
        if self._lines is None:
            self._lines = LineIndex(self.text)
        return self._lines

    def apply(self, changes: Iterable[types.TextDocumentContentChangeEvent], version: int, encoding: Encoding) -> None:
        """Apply the changes of one notification, each to the text that the one before it left."""
        text, lines = self.text, self._lines
        #: Rows before this one are the same in ``lines`` and in ``text``: many changes from the bottom to the top,
        #: which is how editors send them, need one line index.
        known_rows = 0 if lines is None else lines.row_count
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangeWholeDocument):
                text, lines, known_rows = change.text, None, 0
                continue
            first, last = change.range.start, change.range.end
            if lines is None or last.line >= known_rows:
                lines = LineIndex(text)
                known_rows = lines.row_count
            start = lines.offset(first.line, first.character, encoding)
            end = max(start, lines.offset(last.line, last.character, encoding))
            text = f"{text[:start]}{change.text}{text[end:]}"
            known_rows = first.line
        self.text, self.version, self._lines = text, version, None


@dataclass(frozen=True, slots=True)
class Part:
    """The text of one buffer inside a snapshot; its first row there counts from 0."""

    uri: str
    version: int
    lines: LineIndex
    first_row: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A program at one moment."""

    document: Document
    parts: tuple[Part, ...]
    #: Grows with every change of the program.
    generation: int
    encoding: Encoding

    @cached_property
    def _first_rows(self) -> list[int]:
        return [part.first_row for part in self.parts]

    def part_of_row(self, row: int) -> Part:
        """The part that holds a row (from 0) of the document."""
        return self.parts[max(bisect_right(self._first_rows, row) - 1, 0)]

    def part(self, uri: str) -> Part | None:
        """The part that a URI names; None for one that is not in the program."""
        return next((part for part in self.parts if part.uri == uri), None)

    def range(self, row: int, column: int, end_row: int, end_column: int) -> tuple[Part, types.Range]:
        """A range of the document (rows and columns in characters, all from 0) as the client counts it.

        A range that would leave its part ends where the part ends.
        """
        part = self.part_of_row(row)
        end_part = self.part_of_row(end_row)
        start = self._position(part, row, column)
        if end_part is part:
            return part, types.Range(start, self._position(part, end_row, end_column))
        last = part.lines.row_count - 1
        return part, types.Range(start, self._position(part, part.first_row + last, len(part.lines.line(last))))

    def offset_range(self, start: int, end: int) -> tuple[Part, types.Range]:
        """A range of the document in character offsets, as the client counts it."""
        lines = self.document.lines
        return self.range(*lines.position(start), *lines.position(end))

    def offset(self, part: Part, position: types.Position) -> int:
        """The character offset in the document of a position in a part."""
        lines = part.lines
        row, column = lines.position(lines.offset(position.line, position.character, self.encoding))
        return self.document.lines.offset(part.first_row + row, column)

    def _position(self, part: Part, row: int, column: int) -> types.Position:
        if self.encoding is Encoding.UTF32:
            return types.Position(row - part.first_row, column)
        lines = part.lines
        return types.Position(*lines.position(lines.offset(row - part.first_row, column), self.encoding))


class File:
    """A program in one buffer."""

    is_notebook = False

    def __init__(self, buffer: Buffer, filename: str) -> None:
        self.uri = buffer.uri
        self.filename = filename
        self.buffer = buffer
        self.generation = 0

    @property
    def uris(self) -> tuple[str, ...]:
        """The documents that findings are shown in."""
        return (self.uri,)

    def snapshot(self, encoding: Encoding) -> Snapshot:
        """The program as it is now."""
        buffer = self.buffer
        text = _without_mark(buffer.text)
        document = Document(text, self.filename, newline=newline_of(text))
        if text is buffer.text:
            buffer._lines = document.lines  # built once for both
        part = Part(self.uri, buffer.version, buffer.lines)
        return Snapshot(document, (part,), self.generation, encoding)


class Notebook:
    """A program in the Python cells of a notebook, in their order."""

    is_notebook = True

    def __init__(self, notebook: types.NotebookDocument, texts: Iterable[types.TextDocumentItem], filename: str):
        self.uri = notebook.uri
        self.filename = filename
        self.cells = list(notebook.cells)
        self.buffers = {item.uri: Buffer(item) for item in texts}
        self.generation = 0

    @property
    def uris(self) -> tuple[str, ...]:
        """The documents that findings are shown in: the Python cells."""
        return tuple(buffer.uri for _, buffer in self._python_cells())

    def change(self, cells: types.NotebookDocumentCellChanges, encoding: Encoding) -> None:
        """Apply one notification: first the structure, then the kinds of cells, then texts."""
        if cells.structure:
            array = cells.structure.array
            # A cell that is closed and opened again under its own URI in one message stays: close before opening.
            for closed in cells.structure.did_close or ():
                self.buffers.pop(closed.uri, None)
            for opened in cells.structure.did_open or ():
                self.buffers[opened.uri] = Buffer(opened)
            self.cells[array.start : array.start + array.delete_count] = array.cells or ()
        changed = {cell.document: cell for cell in cells.data or ()}
        self.cells = [changed.get(cell.document, cell) for cell in self.cells]
        for content in cells.text_content or ():
            if buffer := self.buffers.get(content.document.uri):
                buffer.apply(content.changes, content.document.version, encoding)

    def snapshot(self, encoding: Encoding) -> Snapshot:
        """The program as it is now."""
        cells = self._python_cells()
        document = document_from_cells([(index, _without_mark(buffer.text)) for index, buffer in cells], self.filename)
        parts = tuple(
            Part(buffer.uri, buffer.version, buffer.lines, cell.first_row)
            for (_, buffer), cell in zip(cells, document.cells, strict=True)
        )
        return Snapshot(document, parts, self.generation, encoding)

    def _python_cells(self) -> Sequence[tuple[int, Buffer]]:
        """The Python cells with their place among all cells, from 1."""
        found = []
        for index, cell in enumerate(self.cells, 1):
            buffer = self.buffers.get(cell.document)
            if buffer and cell.kind == types.NotebookCellKind.Code and buffer.language == "python":
                found.append((index, buffer))
        return found


Program = File | Notebook


def _without_mark(text: str) -> str:
    """The text with a byte order mark, which is no Python, replaced by one character that means nothing there."""
    return f"\f{text[1:]}" if text.startswith("\ufeff") else text
