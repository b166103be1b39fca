"""Text edits: applying them, and finding few small ones that lead from one text to another."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from torchlint.finding import TextEdit


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """``text`` with edits applied. Raises ValueError if two overlap or one is out of range."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda item: (item.start, item.end)):
        if edit.start < position or edit.end > len(text) or edit.start > edit.end:
            raise ValueError(f"overlapping or impossible edit at {edit.start}")
        pieces += (text[position : edit.start], edit.content)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


def minimal_edits(old: str, new: str) -> tuple[TextEdit, ...]:
    """Edits, a line at least, that turn ``old`` into ``new``."""
    if old == new:
        return ()
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in old_lines:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(a=old_lines, b=new_lines, autojunk=False)
    return tuple(
        TextEdit(starts[first], starts[last], "".join(new_lines[new_first:new_last]))
        for tag, first, last, new_first, new_last in matcher.get_opcodes()
        if tag != "equal"
    )
