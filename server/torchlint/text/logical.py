"""Comments and logical lines of a text, found without parsing it, so that broken syntax elsewhere does no harm."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.text.lines import LineIndex
from torchlint.text.strings import string_end

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT_OR_QUOTE = regex(r"[#\"']")
_ROW = regex(r"[^\r\n]*")
_TERMINATOR = regex(r"\r\n|\r|\n")
_LAST_TERMINATOR = regex(r"(?:\r\n|\r|\n)\Z")

_PLAIN = r"[^\r\n#\"'()\[\]{}\\]*"
_SHORT_STRING = r"""(?<![fFtTrR])"(?!"")[^"\\\r\n]*"|(?<![fFtTrR])'(?!'')[^'\\\r\n]*'"""
#: Code with brackets and strings of the plain kind, all closed: nothing to look at one by one.
_CLOSED = regex(rf"{_PLAIN}(?:(?:\({_PLAIN}\)|\[{_PLAIN}\]|\{{{_PLAIN}\}}|{_SHORT_STRING}){_PLAIN})*")
#: Words that begin a statement and cannot stand at the start of a row inside brackets: a bracket before them is
#: unfinished, and must not swallow the rest of the text.
_STATEMENT = regex(
    r"[ \t\f]*(?:def|class|import|return|try|while|with|raise|del|pass|break|continue|global|nonlocal|assert|finally"
    r"|except|elif|async[ \t]+def|from[ \t]+[\w.]+[ \t]+import)\b"
)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: offsets in characters, the end exclusive; ``row`` from 0; ``text`` with its `#`."""

    start: int
    end: int
    row: int
    text: str


def comments(document_text: str, mentioning: re.Pattern[str] | None = None) -> list[Comment]:
    """The comments of a text, in order; with ``mentioning``, only those in which that pattern is found.

    A `#` in a string is no comment; one in the replacement field of an f-string is (Python 3.12).
    """
    if "#" not in document_text or (mentioning is not None and not mentioning.search(document_text)):
        return []
    spans = sorted(_comment_spans(document_text))
    if mentioning is not None:
        spans = [(start, end) for start, end in spans if mentioning.search(document_text, start, end)]
    if not spans:
        return []
    lines = LineIndex(document_text)
    return [Comment(start, end, lines.row_of(start), document_text[start:end]) for start, end in spans]


def _comment_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = 0
    while stop := _COMMENT_OR_QUOTE.search(text, position):
        start = stop.start()
        if text[start] == "#":
            row = _ROW.match(text, start)
            position = row.end() if row else start + 1
            spans.append((start, position))
        else:
            position = string_end(text, start, spans)
    return spans


class LogicalLines:
    """The logical lines of a text: its rows, joined where a bracket, a backslash or a string runs on.

    Offsets are characters of the text. An unfinished bracket ends before the next row that begins a statement.
    """

    __slots__ = ("_ends", "_starts", "_strings")

    def __init__(self, text: str, cell_starts: tuple[int, ...] = ()) -> None:
        """``cell_starts``: offsets at which notebook cells begin, where no logical line runs on."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._strings: list[tuple[int, int]] = []
        bounds = [0, *(start for start in cell_starts if start > 0), len(text)]
        for begin, end in pairwise(bounds):
            part = text
            if cell_starts:
                part = _LAST_TERMINATOR.sub("", text[begin:end])
            for line_start, line_end in logical_lines(part, self._strings, begin):
                self._starts.append(begin + line_start)
                self._ends.append(begin + line_end)

    def containing(self, offset: int) -> tuple[int, int]:
        """Start and end of the logical line that holds an offset: from the first character of its first row to behind
        the last character, comment included, of its last."""
        number = max(bisect_right(self._starts, offset) - 1, 0)
        return self._starts[number], self._ends[number]

    def string_around(self, offset: int) -> tuple[int, int] | None:
        """Start and end of the string of several rows that holds an offset."""
        number = bisect_right(self._strings, (offset, offset)) - 1
        if number >= 0 and self._strings[number][0] <= offset < self._strings[number][1]:
            return self._strings[number]
        return None


def logical_lines(text: str, strings: list[tuple[int, int]] | None = None, shift: int = 0) -> Iterator[tuple[int, int]]:
    """Start and end of each logical line (blank rows and comments are lines of their own); at least one.

    The spans of strings of several rows, moved by ``shift``, are added to ``strings``.
    """
    start = 0
    while True:
        end = logical_line_end(text, start, strings, shift)
        yield start, end
        if text.startswith("\n", end):  # nearly always
            start = end + 1
            continue
        terminator = _TERMINATOR.match(text, end)
        if terminator is None:
            return
        start = terminator.end()


def logical_line_end(text: str, start: int, strings: list[tuple[int, int]] | None = None, shift: int = 0) -> int:
    """Where the logical line that begins at ``start`` ends, before its terminator."""
    position, brackets = start, 0
    ignored: list[tuple[int, int]] = []
    while closed := _CLOSED.match(text, position):
        position = closed.end()
        if position == len(text):
            break
        character = text[position]
        if character == "\n" and brackets == 0:
            return position
        if character in "\"'":
            end = string_end(text, position, ignored)
            if strings is not None and _TERMINATOR.search(text, position, end):
                strings.append((shift + position, shift + end))
            position = end
        elif character == "#":
            row = _ROW.match(text, position)
            position = row.end() if row else position + 1
        elif character in "\r\n":
            terminator = _TERMINATOR.match(text, position)
            following = terminator.end() if terminator else position + 1
            if brackets == 0 or _STATEMENT.match(text, following):
                return position
            position = following
        elif character == "\\":
            terminator = _TERMINATOR.match(text, position + 1)
            position = terminator.end() if terminator else position + 1
        else:
            brackets = brackets + 1 if character in "([{" else max(brackets - 1, 0)
            position += 1
    return len(text)
