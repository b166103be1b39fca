"""Where the parts of a JSON text stand, so that one can be replaced and the rest left as it was written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchlint.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

_DECODER = json.JSONDecoder()
_SPACE = regex(r"[ \t\r\n]*")
Span = tuple[int, int]


def members(text: str, start: int) -> Iterator[tuple[str, Span]]:
    """Key and span of the value of each member of the object that begins at ``start`` in a valid JSON text."""
    position = _skip(text, _skip(text, start) + 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, position) + 1)
        _, end = _DECODER.raw_decode(text, value)
        yield key, (value, end)
        position = _after_comma(text, end)


def elements(text: str, start: int) -> Iterator[Span]:
    """Span of each element of the array that begins at ``start`` in a valid JSON text."""
    position = _skip(text, _skip(text, start) + 1)
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        yield position, end
        position = _after_comma(text, end)


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _after_comma(text: str, end: int) -> int:
    position = _skip(text, end)
    return _skip(text, position + 1) if text[position] == "," else position
