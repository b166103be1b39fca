"""Where logical lines start: the only thing that must be known of a text before it is parsed.

A logical line is a physical line or several that brackets, backslashes or triple quotes join. Finding their starts
needs no tree, so it works on text that does not parse, and a wrong guess costs speed, never a wrong finding: the
parser has the last word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.regex import regex

_PLAIN = r"""[^"'#()\[\]{}\\\r\n]*"""
_STRING = r'"(?!"")[^"\\\r\n]*"|' + r"'(?!'')[^'\\\r\n]*'"


def _bracketed(inner: str) -> str:
    body = rf"{_PLAIN}(?:(?:{inner}){_PLAIN})*"
    return rf"\({body}\)|\[{body}\]|\{{{body}\}}"


_END = r"(?:\r\n|\r|\n|\Z)"
# The usual logical line, in one match: brackets nested at most twice, closed on the same line, no backslash and no
# triple quote. Alternatives start with different characters, so that a failing match costs linear time.
_SIMPLE_LINE = regex(
    rf"{_PLAIN}(?:(?:{_STRING}|{_bracketed(f'{_STRING}|{_bracketed(_STRING)}')}){_PLAIN})*(?:\#[^\r\n]*)?{_END}"
)
_BLANK_LINES = regex(r"(?:[ \t\f]*(?:\#[^\r\n]*)?(?:\r\n|\r|\n))*(?:[ \t\f]*(?:\#[^\r\n]*)?\Z)?")
#: Words that continue a compound statement at the same indentation.
CLAUSES = frozenset({"else", "elif", "except", "finally"})
_MARGIN = regex(r"[ \t]*")
_INDENT_AND_WORD = regex(r"([ \t\f]*)(\w+|@|)")
# What the line ends that backslashes take away leave of a line that begins with one: the first margin that is not empty
# counts, and where nothing but a comment follows the line is blank.
_CONTINUED_MARGIN = regex(
    r"(?:\\(?:\r\n|\r|\n))*([ \t\f]*)(?:\\(?:\r\n|\r|\n)[ \t\f]*)*(?:((?:\#[^\r\n]*)?(?:\r\n|\r|\n|\Z))|(\w+|@|))"
)
_TOKEN = regex(r"""\"{3}|'{3}|["'#()\[\]{}]|\\(?:\r\n|[\s\S])|\r\n|\r|\n""")
_REST_OF_STRING = {
    '"': regex(r'(?:[^"\\\r\n]|\\(?:\r\n|[\s\S]))*'),
    "'": regex(r"(?:[^'\\\r\n]|\\(?:\r\n|[\s\S]))*"),
}
_LINE_END = regex(r"\r\n|\r|\n")
# Words that begin a statement and can never begin a line inside brackets: where one stands, a bracket was left open.
_STATEMENT_START = regex(
    r"([ \t]*)(?:(?:async[ \t]+)?def[ \t]+\w+[ \t]*[(\[]|class[ \t]+\w+[ \t]*[(:\[]|@\w[\w.]*(?:\(.*\))?[ \t]*[\r\n]"
    r"|import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|(?:return|raise|del|global|nonlocal|assert)\b"
    r"|(?:pass|break|continue|try:|finally:|else:)[ \t]*[\r\n]|(?:while|with|elif|except)\b.*:[ \t]*[\r\n])"
)
# At the left margin, while the line that opened the bracket is indented, these begin a statement too.
_MARGIN_START = regex(r"[A-Za-z_][\w.]* (?:[-+*/|&]|//)?= |(?:if|for)\b.*:[ \t]*[\r\n]")


@dataclass(frozen=True, slots=True)
class LogicalLine:
    """``start`` and ``end`` are character offsets (end: start of the next physical line), ``row`` counts from 0."""

    start: int
    end: int
    row: int
    indent: int
    word: str


def logical_lines(
    text: str, start: int = 0, row: int = 0, closed: int = -1, ends: tuple[int, ...] = ()
) -> Iterator[LogicalLine]:
    """The logical lines from ``start`` (the start of physical line ``row``) on, without blank and comment lines.

    Triple quotes that open at the offset ``closed`` are taken to end with their line. No logical line goes on over one
    of the offsets ``ends`` (in order): the cells of a notebook are separate programs to the parser.
    """
    length = len(text)
    skip, look, match = _BLANK_LINES.match, _INDENT_AND_WORD.match, _SIMPLE_LINE.match
    position = start
    while position < length:
        blank = skip(text, position)
        if blank is not None and blank.end() > position:
            row += count_rows(text, position, blank.end())
            position = blank.end()
            if position >= length:
                return
        begin = look(text, position)
        indent, word = begin.groups() if begin is not None else ("", "")
        first = position + len(indent)
        if not word and text.startswith("\\", first):
            margin = _CONTINUED_MARGIN.match(text, position)
            assert margin is not None
            if margin.group(2) is not None:
                row += count_rows(text, position, margin.end())
                position = margin.end()
                continue
            indent, word, first = margin.group(1), margin.group(3), margin.end(1)
        simple = match(text, position)
        end = simple.end() if simple is not None else _end_of_logical_line(text, first, len(indent), closed)
        if ends:
            next_end = bisect_right(ends, position)
            if next_end < len(ends):
                end = min(end, ends[next_end])
        # A form feed resets Python's indentation count.
        width = len(indent) - (indent.rfind("\f") + 1)
        yield LogicalLine(position, end, row, width, word)
        row += 1 if simple is not None else count_rows(text, position, end)
        position = end


def count_rows(text: str, start: int, end: int) -> int:
    """How many lines end between two offsets (LF, CRLF and CR)."""
    rows = text.count("\n", start, end)
    if text.find("\r", start, end) >= 0:
        rows += text.count("\r", start, end) - text.count("\r\n", start, end)
    return rows


def suspicious_strings(text: str) -> Iterator[int]:
    """The offsets at which triple-quoted strings open that hold lines which look like statements, in order.

    Where one was opened and never closed, all later strings are taken inside out, and it is the first of these.
    """
    position = 0
    while (token := _TOKEN.search(text, position)) is not None:
        position = token.end()
        found = token.group()
        if found in ('"""', "'''"):
            position = _end_of_triple_quoted(text, position, found)
            if any(
                _STATEMENT_START.match(text, line.end()) for line in _LINE_END.finditer(text, token.end(), position)
            ):
                yield token.start()
        elif found in "\"'":
            rest = _REST_OF_STRING[found].match(text, position)
            position = rest.end() if rest is not None else position
            position += text.startswith(found, position)
        elif found == "#":
            line_end = _LINE_END.search(text, position)
            position = line_end.start() if line_end is not None else len(text)


def _end_of_logical_line(text: str, position: int, indent: int, closed: int) -> int:
    """The offset after the line end that closes the logical line whose first character stands at ``position``."""
    depth = 0
    while True:
        token = _TOKEN.search(text, position)
        if token is None:
            return len(text)
        position = token.end()
        found = token.group()
        if found in "([{":
            depth += 1
        elif found in ")]}":
            depth = max(0, depth - 1)
        elif found in ('"""', "'''"):
            if token.start() == closed:
                line_end = _LINE_END.search(text, position)
                return line_end.end() if line_end is not None else len(text)
            position = _end_of_triple_quoted(text, position, found)
        elif found in "\"'":
            rest = _REST_OF_STRING[found].match(text, position)
            position = rest.end() if rest is not None else position
            position += text.startswith(found, position)
        elif found == "#":
            line_end = _LINE_END.search(text, position)
            position = line_end.start() if line_end is not None else len(text)
        elif found in ("\n", "\r", "\r\n"):
            if depth == 0:
                return position
            # Lines on which all brackets close, as in a long table, are passed in one match each.
            simple: re.Match[str] | None
            while True:
                statement = _STATEMENT_START.match(text, position)
                if statement is not None and len(statement.group(1)) <= indent:
                    return position
                if indent and _MARGIN_START.match(text, position):
                    return position
                simple = _SIMPLE_LINE.match(text, position)
                if simple is None or simple.end() == position:
                    break
                position = simple.end()


def _end_of_triple_quoted(text: str, position: int, quotes: str) -> int:
    while True:
        end = text.find(quotes, position)
        if end < 0:
            return len(text)
        backslashes = 0
        while end - backslashes > position and text[end - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2 == 0:
            return end + 3
        position = end + 1


def with_comments_above(text: str, start: int, row: int, floor: int, ends: tuple[int, ...] = ()) -> tuple[int, int]:
    """Offset and row at which the statement at ``start`` begins with the comments right above it: not before the
    offset ``floor``, nor in another cell of a notebook."""
    if ends:
        earlier = bisect_right(ends, start)
        floor = max(floor, ends[earlier - 1]) if earlier else floor
    comment = text[start : start + margin_width(text, start)] + "#"
    while start > floor:
        above = max(text.rfind("\n", floor, start - 1) + 1, floor)
        if not text.startswith(comment, above):
            break
        row -= count_rows(text, above, start)
        start = above
    return start, row


def margin_width(text: str, start: int) -> int:
    match = _MARGIN.match(text, start)
    return match.end() - start if match is not None else 0
