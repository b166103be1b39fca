"""IPython's syntax in notebook cells, masked by Python that takes exactly its place.

Masked text has as many characters as the magic it stands for, so that every position in a cell stays what it is. The
syntax is that of IPython's manual, "Built-in magic commands" and "IPython reference: System shell access, Dynamic
object information", and of ``IPython.core.inputtransformer2``.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from torchlint.regex import regex
from torchlint.text.logical import logical_line_end


class Replacement(NamedTuple):
    """Characters of a cell from offset ``start``, and the Python of the same length that masks them."""

    start: int
    original: str
    masked: str


#: Cell magics whose body is Python of the notebook's own process. The body of any other is no code of ours.
_PYTHON_BODIED = {"capture", "debug", "memit", "prun", "time", "timeit", "wandb"}

#: First words of rows that IPython runs as a magic or a shell command without `%` or `!` ("automagic").
_AUTOMAGIC = (
    r"(?:autoreload|cat|cd|conda|cp|env|less|ll|load_ext|ls|mamba|man|matplotlib|micromamba|mkdir|more|mv|pip|prun|pylab"
    r"|reload_ext|rm|rmdir|run|time|timeit|uv|who|whos)"
)

_POSSIBLE = regex(rf"[%!?]|^[ \t]*(?:[/,;]|{_AUTOMAGIC}[ \t])", re.MULTILINE)
_ROW = regex(r"[^\r\n]*")
_TERMINATOR = regex(r"\r\n|\r|\n")
_INDENT = regex(r"[ \t\f]*")

_CELL_MAGIC = regex(r"\s*%%[ \t]*(\w*)")
_ESCAPED = regex(r"[%!?/,;]")
_HELP = regex(r"[^#'\"?]+\?\??[ \t]*")
_COMMAND = regex(rf"{_AUTOMAGIC}[ \t]+(?!(?:in|is|if|and|or|not|for|else|as)\b)[-\w./~$'\"*]")
_ASSIGNED = regex(r"[^=#!%?(]*=[ \t]*(?=!|%[^\W\d])")
#: `%time` before an expression or a simple statement, which binds its names in the notebook like any other.
_TIMED = regex(r"%time[ \t]+(?=[^\s-])(?!(?:async|class|def|for|if|try|while|with)\b)")


def replacements(cell: str) -> list[Replacement]:
    """What to mask in the text of a cell so that the rest is Python; in order, offsets in characters of the cell."""
    magic = _CELL_MAGIC.match(cell)
    if magic and magic[1] not in _PYTHON_BODIED:
        return opaque(cell)
    masks: list[Replacement] = []
    if _POSSIBLE.search(cell):
        end = _mask_line(cell, 0, masks)
        while terminator := _TERMINATOR.match(cell, end):
            end = _mask_line(cell, terminator.end(), masks)
    return masks


def opaque(cell: str) -> list[Replacement]:
    """Masks for a cell that is not Python: every row becomes a comment."""
    masks: list[Replacement] = []
    end = _mask_row(cell, 0, masks, "#")
    while terminator := _TERMINATOR.match(cell, end):
        end = _mask_row(cell, terminator.end(), masks, "#")
    return masks


def _mask_line(cell: str, start: int, masks: list[Replacement]) -> int:
    """Mask the magic in the logical line that begins at ``start``, and say where that line ends."""
    first, row_end = _end(_INDENT, cell, start), _end(_ROW, cell, start)
    assigned = _ASSIGNED.match(cell, first, row_end)
    timed = _TIMED.match(cell, assigned.end() if assigned else first, row_end)
    if timed:
        masked = ("" if assigned else "0;").ljust(len(timed[0]))
        masks.append(Replacement(timed.start(), timed[0], masked))
        return logical_line_end(cell, timed.end())
    if assigned:
        row_end = _mask_row(cell, assigned.end(), masks, "__#")
    elif _is_magic(cell[first:row_end]):
        # A suite needs a statement; a comment would leave it empty.
        row_end = _mask_row(cell, first, masks, "0#" if first > start else "#")
    else:
        return logical_line_end(cell, start)
    while cell.endswith("\\", 0, row_end) and (terminator := _TERMINATOR.match(cell, row_end)):
        row_end = _mask_row(cell, terminator.end(), masks, "#")
    return row_end


def _is_magic(row: str) -> bool:
    if _ESCAPED.match(row) or _HELP.fullmatch(row):
        return True
    if not _COMMAND.match(row):
        return False
    try:
        ast.parse(row)
    except (SyntaxError, ValueError):
        return True
    return False


def _mask_row(cell: str, start: int, masks: list[Replacement], masked: str) -> int:
    """Put ``masked``, or as much of it as there is room for, over the first characters of the rest of a row."""
    first, end = _end(_INDENT, cell, start), _end(_ROW, cell, start)
    original = cell[first : min(first + len(masked), end)]
    if original and not original.startswith("#"):
        masks.append(Replacement(first, original, masked[: len(original)]))
    return end


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
