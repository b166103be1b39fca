"""Where a string literal ends, also in a text that does not parse."""

from __future__ import annotations

import re

from torchlint.regex import regex

_Spans = list[tuple[int, int]]

#: The rest of a literal behind its opening quote, with the closing quote.
_REST = {
    '"""': regex(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""', re.DOTALL),
    "'''": regex(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''", re.DOTALL),
    '"': regex(r'[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"', re.DOTALL),
    "'": regex(r"[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'", re.DOTALL),
}
#: A literal that is never closed: one with a single quote ends with its row, a triple-quoted one with the text.
_UNCLOSED_ROW = regex(r"(?:\\(?:\r\n|.)|[^\\\r\n])*", re.DOTALL)
_ROW = regex(r"[^\r\n]*")

_FORMAT_PREFIXES = {"f", "t", "rf", "fr", "rt", "tr"}
#: What matters in the literal part of a format string, and in one of its replacement fields.
_LITERAL_STOP = regex(r"[\\{}\"'\r\n]")
_FIELD_STOP = regex(r"[\"'#(){}\[\]:\r\n]")
_NAMED_ESCAPE = regex(r"\\N\{[^}\r\n]*\}")
#: CPython allows 150 nested format strings; nobody writes six.
_MAXIMUM_NESTING = 20
#: In characters: how far to look for the end of a format string in single quotes before taking it for unfinished.
_MAXIMUM_FIELD = 4000


def string_end(text: str, quote: int, comments: _Spans) -> int:
    """Offset behind the literal whose opening quote is at offset ``quote``.

    Spans of comments inside replacement fields of an f-string (Python 3.12) are added to ``comments``. An unfinished
    literal ends with its row, or with the text if it is triple-quoted.
    """
    kind = _quote_at(text, quote)
    prefix = _prefix(text, quote)
    if prefix.lower() in _FORMAT_PREFIXES:
        inner: _Spans = []
        end = _format_string_end(text, quote, kind, "r" in prefix.lower(), inner, 0)
        if end is not None:
            comments.extend(inner)
            return end
    closed = _REST[kind].match(text, quote + len(kind))
    if closed:
        return closed.end()
    if len(kind) == 3:
        return len(text)
    unclosed = _UNCLOSED_ROW.match(text, quote + 1)
    return unclosed.end() if unclosed else quote + 1


def _quote_at(text: str, quote: int) -> str:
    kind = text[quote] * 3
    return kind if text.startswith(kind, quote) else text[quote]


def _prefix(text: str, quote: int) -> str:
    """The letters directly before a quote if they can be a prefix: at most two, and not the end of a longer word."""
    start = quote
    while start > 0 and quote - start < 3 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:quote]


def _format_string_end(text: str, quote: int, kind: str, raw: bool, comments: _Spans, depth: int) -> int | None:
    if depth > _MAXIMUM_NESTING:
        return None
    position = quote + len(kind)
    limit = len(text) if len(kind) == 3 else min(len(text), position + _MAXIMUM_FIELD)
    while True:
        stop = _LITERAL_STOP.search(text, position, limit)
        if stop is None:
            return None
        position = stop.start()
        character = text[position]
        if text.startswith(kind, position):
            return position + len(kind)
        if character == "{" and not text.startswith("{{", position):
            end = _field_end(text, position + 1, kind, comments, depth, limit)
            if end is None:
                return None
            position = end
        elif character == "{":
            position += 2
        elif character == "\\":
            position = _escape_end(text, position, raw)
        elif character in "\r\n" and len(kind) == 1:
            return None
        else:
            position += 1


def _escape_end(text: str, backslash: int, raw: bool) -> int:
    named = None if raw else _NAMED_ESCAPE.match(text, backslash)
    if named:
        return named.end()
    if text.startswith("\\\r\n", backslash):
        return backslash + 3
    return backslash + (1 if text.startswith(("\\{", "\\}"), backslash) else 2)


def _field_end(text: str, start: int, kind: str, comments: _Spans, depth: int, limit: int) -> int | None:
    """Offset behind the brace that closes the replacement field whose expression begins at ``start``."""
    position, brackets = start, 0
    while True:
        stop = _FIELD_STOP.search(text, position, limit)
        if stop is None:
            return None
        position = stop.start()
        character = text[position]
        if character in "\"'":
            end = _nested_end(text, position, comments, depth)
            if end is None:
                return None
            position = end
            continue
        if character == "#":
            row = _ROW.match(text, position)
            end = row.end() if row else position
            comments.append((position, end))
            position = end
            continue
        position += 1
        if character in "([{":
            brackets += 1
        elif character == "}" and brackets == 0:
            return position
        elif character in ")]}":
            brackets -= 1
            if brackets < 0:
                return None
        elif character == ":" and brackets == 0:
            return _format_spec_end(text, position, kind, comments, depth, limit)


def _nested_end(text: str, quote: int, comments: _Spans, depth: int) -> int | None:
    kind, prefix = _quote_at(text, quote), _prefix(text, quote)
    if prefix.lower() in _FORMAT_PREFIXES:
        return _format_string_end(text, quote, kind, "r" in prefix.lower(), comments, depth + 1)
    closed = _REST[kind].match(text, quote + len(kind))
    return closed.end() if closed else None


def _format_spec_end(text: str, start: int, kind: str, comments: _Spans, depth: int, limit: int) -> int | None:
    position = start
    while True:
        stop = _LITERAL_STOP.search(text, position, limit)
        if stop is None:
            return None
        position = stop.start()
        character = text[position]
        if character == "}":
            return position + 1
        if character == "{":
            if depth > _MAXIMUM_NESTING:
                return None
            end = _field_end(text, position + 1, kind, comments, depth + 1, limit)
            if end is None:
                return None
            position = end
        elif text.startswith(kind, position) or (character in "\r\n" and len(kind) == 1):
            return None
        else:
            position += 1
