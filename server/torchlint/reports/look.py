"""How a report for people is drawn: with colour or not, and how wide."""

from __future__ import annotations

import unicodedata

from click import style

from torchlint.finding import Severity
from torchlint.frozen import dataclass

_TAB_STOP = 4
_SEVERITY_COLOURS = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.INFORMATION: "blue",
    Severity.HINT: "cyan",
}


@dataclass(frozen=True, slots=True)
class Look:
    """The place a report is written to: may it have colour, and how many columns has a line."""

    color: bool = False
    width: int = 140

    def paint(self, text: str, color: str | None = None, *, bold: bool = False) -> str:
        """``text`` in an ANSI colour name of click, or as it is where there is no colour."""
        return style(text, fg=color, bold=bold or None) if self.color and text else text

    def severity(self, severity: Severity, text: str) -> str:
        """``text`` in the colour of a severity."""
        return self.paint(text, _SEVERITY_COLOURS[severity], bold=True)


def displayed(text: str) -> tuple[str, list[int]]:
    """A source line as a terminal may show it, and the display column (from 0) of each of its characters.

    The list has one item more than ``text`` has characters: the width of the whole line. Tabs become spaces, control
    and bidirectional characters become visible (text of a stranger's file must not steer the terminal), wide characters
    (East Asian Width W and F, which includes emoji) take two columns and combining ones none.
    """
    if text.isascii() and text.isprintable():
        return text, list(range(len(text) + 1))
    shown: list[str] = []
    columns: list[int] = []
    column = 0
    for character in text:
        columns.append(column)
        piece, width = _displayed_character(character, column)
        shown.append(piece)
        column += width
    columns.append(column)
    return "".join(shown), columns


def _displayed_character(character: str, column: int) -> tuple[str, int]:
    if character == "\t":
        width = _TAB_STOP - column % _TAB_STOP
        return " " * width, width
    if character < " ":
        return chr(0x2400 + ord(character)), 1
    if character == "\x7f":
        return "\u2421", 1
    category = unicodedata.category(character)
    if category in {"Mn", "Me"} or character in "\u200c\u200d":
        return character, 0
    if category in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return "\ufffd", 1
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


def one_line(text: str) -> str:
    """``text`` without anything that would break a line or steer a terminal."""
    return displayed(" ".join(text.split()))[0]
