"""Where the places of one text are in another that differs in one stretch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchlint.finding import Finding
    from torchlint.lsp.analyses import Analysed
    from torchlint.lsp.documents import Snapshot


def moved_findings(analysed: Analysed, now: Snapshot) -> Iterator[tuple[Finding, tuple[int, int]]]:
    """The findings with their offsets in the present text; without those in text that changed since."""
    lines = analysed.snapshot.document.lines
    difference = Difference(analysed.snapshot.document.text, now.document.text)
    for finding in analysed.analysis.findings:
        start = lines.offset(finding.row - 1, finding.column - 1)
        end = lines.offset(finding.end_row - 1, finding.end_column - 1)
        if place := difference.moved(start, end):
            yield finding, place


class Difference:
    """The stretch in which two texts differ."""

    def __init__(self, before: str, after: str) -> None:
        shorter = min(len(before), len(after))
        #: How many characters at the start, and at the end, are the same; the two may overlap.
        self._prefix = _count(shorter, lambda count: before[:count] == after[:count])
        suffix = _count(shorter, lambda count: before[len(before) - count :] == after[len(after) - count :])
        self._suffix_start = len(before) - suffix
        self._moved = len(after) - len(before)

    def moved(self, start: int, end: int) -> tuple[int, int] | None:
        """The range in the text after that was ``start`` to ``end`` in the one before, all in characters.

        None if something in it changed.
        """
        if end <= self._prefix:
            return start, end
        if start >= self._suffix_start:
            return start + self._moved, end + self._moved
        return None


def _count(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest count up to a limit for which something holds that holds for all smaller ones too.

    Halving keeps the comparison in C: comparing 200 KB character by character would take a hover's whole time.
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
