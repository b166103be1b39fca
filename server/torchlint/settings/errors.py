"""Errors in settings, and the place in a TOML file that they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchlint.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PART = r"""(?:[\w-]+|"[^"\r\n]*"|'[^'\r\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = regex(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]")
_KEY = regex(rf"[ \t]*({_DOTTED})[ \t]*=")
_ROW = regex(r"[^\n]*\n?")


class SettingsError(Exception):
    """A setting that cannot be used. The text names the file, row and column (from 1) where they are known."""

    def __init__(self, reason: str, path: Path | None = None, row: int = 0, column: int = 0) -> None:
        place = "" if path is None else f"{path}:{row}:{column}: " if row else f"{path}: "
        super().__init__(place + reason)
        self.reason = reason
        self.path = path
        self.row = row
        self.column = column


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message: ``; did you mean `x`?``, or nothing when no known word is near."""
    import difflib

    choices = {choice.lower(): choice for choice in known}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), choices, n=1, cutoff=0.6)
    return f"; did you mean `{choices[near[0]]}`?" if near else ""


def place_of(text: str, keys: tuple[str, ...], value: str | None = None) -> tuple[int, int]:
    """Row and column, from 1, of a key in a TOML text, or of a string in its value; (0, 0) if it is not found.

    ``keys``: the names of the tables that lead to the key, and the key.
    """
    position = _key_offset(text, keys)
    if position is None:
        return 0, 0
    if value is not None:
        written = regex(rf"""["']{re.escape(value)}["']""").search(text, position)
        position = written.start() if written else position
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _key_offset(text: str, keys: tuple[str, ...]) -> int | None:
    table: tuple[str, ...] = ()
    near: int | None = None
    for row in _ROW.finditer(text):
        header = _HEADER.match(row[0])
        key = None if header else _KEY.match(row[0])
        if header:
            table = _parts(header[1])
            if table == keys:
                return row.start() + header.start(1)
        elif key:
            path = (*table, *_parts(key[1]))
            start = row.start() + key.start(1)
            if path == keys:
                return start
            if keys[: len(path)] == path:
                near = _inline(text, start, keys[-1])
    return near


def _inline(text: str, start: int, key: str) -> int:
    """Offset of a key of an inline table whose own key is at ``start``; ``start`` if it is not found."""
    found = regex(rf"""["']?(?<![\w-]){re.escape(key)}["']?[ \t]*=""").search(text, start)
    return found.start() if found else start


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
