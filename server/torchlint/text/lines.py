"""Rows, columns and offsets of a text, in the units of Python, of its `ast` and of the Language Server Protocol."""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from itertools import accumulate

from torchlint.regex import regex

_LF = regex("\n")
_TERMINATOR = regex(r"\r\n|\r|\n")


class Encoding(Enum):
    """The unit in which a column counts: UTF-8 bytes, UTF-16 units, or characters (Unicode code points)."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"
    #: One UTF-32 unit is one character.
    CHARACTERS = "utf-32"  # noqa: PIE796 - an alias on purpose


class LineIndex:
    """Where the rows of a text begin.

    A row ends at LF, CRLF or CR and nowhere else, as in Python's tokenizer and in the Language Server Protocol: form
    feed, vertical tab, NEL and U+2028 are ordinary characters (``str.splitlines`` disagrees). Rows and columns count
    from 0, offsets are characters of the text.
    """

    __slots__ = ("_ascii", "_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._starts = _starts(text)

    @property
    def row_count(self) -> int:
        """The number of rows, at least 1: a text that ends with a terminator has an empty last row."""
        return len(self._starts)

    def line_start(self, row: int) -> int:
        """Offset of the first character of a row; a row outside the text is clamped to its start or its end."""
        if row < 0:
            return 0
        return self._starts[row] if row < len(self._starts) else len(self._text)

    def line_end(self, row: int) -> int:
        """Offset behind the last character of a row, before its terminator; clamped like ``line_start``."""
        if row < 0:
            return 0
        if row + 1 >= len(self._starts):
            return len(self._text)
        start, end = self._starts[row], self._starts[row + 1] - 1
        if end > start and self._text[end] == "\n" and self._text[end - 1] == "\r":
            return end - 1
        return end

    def line(self, row: int) -> str:
        """The text of a row without its terminator; empty for a row outside the text."""
        return self._text[self.line_start(row) : self.line_end(row)]

    def row_of(self, offset: int) -> int:
        """The row, from 0, that holds an offset; a terminator belongs to the row that it ends."""
        return max(bisect_right(self._starts, offset) - 1, 0)

    def offset(self, row: int, column: int, encoding: Encoding = Encoding.UTF32) -> int:
        """Offset of a position. Clamps to the row and to the text, never raises.

        A column inside a character (between the halves of a surrogate pair, or inside a UTF-8 sequence) is that
        character's start.
        """
        start, end = self.line_start(row), self.line_end(row)
        if row < 0 or column <= 0:
            return start
        if not self._ascii and encoding is not Encoding.UTF32:
            line = self._text[start:end]
            if not line.isascii():
                return start + _characters(line, column, encoding)
        return min(start + column, end)

    def position(self, offset: int, encoding: Encoding = Encoding.UTF32) -> tuple[int, int]:
        """Row and column, from 0, of an offset. An offset outside the text, or inside a CRLF, is clamped."""
        offset = min(max(offset, 0), len(self._text))
        row = bisect_right(self._starts, offset) - 1
        start = self._starts[row]
        offset = min(offset, self.line_end(row))
        if not self._ascii and encoding is not Encoding.UTF32:
            return row, _units(self._text[start:offset], encoding)
        return row, offset - start

    def offset_of_ast(self, lineno: int, col_offset: int) -> int:
        """Offset of a place as `ast` writes it: ``lineno`` from 1, ``col_offset`` from 0 in UTF-8 bytes."""
        if self._ascii and 0 < lineno < len(self._starts):
            return min(self._starts[lineno - 1] + col_offset, self._starts[lineno])
        return self.offset(lineno - 1, col_offset, Encoding.UTF8)

    def ast_of_offset(self, offset: int) -> tuple[int, int]:
        """The place as `ast` writes it: row from 1, column from 0 in UTF-8 bytes."""
        row, column = self.position(offset, Encoding.UTF8)
        return row + 1, column


def _starts(text: str) -> list[int]:
    # Measured on 5,300 rows: 0.25 ms for the usual text; 0.4 ms where other characters split lines too, form feeds
    # mostly; 3 ms with the expression that knows CR.
    rows = text.splitlines(keepends=True)
    ends_open = not text.endswith(("\n", "\r"))
    if len(rows) == text.count("\n") + (ends_open and text != ""):
        starts = list(accumulate(map(len, rows), initial=0))
        return starts[: len(rows)] if ends_open and rows else starts
    terminator = _TERMINATOR if "\r" in text else _LF
    return [0, *(match.end() for match in terminator.finditer(text))]


def _units(text: str, encoding: Encoding) -> int:
    """How many units of an encoding a text has. Lone surrogates, which JSON can carry, count like any character."""
    if text.isascii():
        return len(text)
    if encoding is Encoding.UTF8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _characters(line: str, column: int, encoding: Encoding) -> int:
    """How many whole characters of a line lie before a column of UTF-8 bytes or UTF-16 units."""
    if encoding is Encoding.UTF8:
        data = line.encode("utf-8", "surrogatepass")
        if column >= len(data):
            return len(line)
        while column > 0 and data[column] & 0xC0 == 0x80:
            column -= 1
        return len(data[:column].decode("utf-8", "surrogatepass"))
    data = line.encode("utf-16-le", "surrogatepass")
    if 2 * column >= len(data):
        return len(line)
    low, high = data[2 * column + 1] & 0xFC == 0xDC, data[2 * column - 1] & 0xFC == 0xD8
    if low and high:
        column -= 1
    return len(data[: 2 * column].decode("utf-16-le", "surrogatepass"))
