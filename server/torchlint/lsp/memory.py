"""When cyclic garbage is collected: while nobody waits, not between a keystroke and its findings.

Trees are full of cycles (each node knows its parent), so that an edit leaves garbage that only the collector frees.
Left to itself it runs in the middle of an analysis, and once in a while for a tenth of a second, for it walks all trees
of all files to find the few that an edit has replaced. So it is off; in a pause it is made to walk what came since the
trees of whole files were made, which is little.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In seconds without work: an answer has been written; somebody looks for the next key; nobody is there.
_MOMENT, _SHORT_PAUSE, _LONG_PAUSE = 0.002, 0.1, 10.0
#: So few new objects are not worth a collection; so many (some 80 keystrokes in a file of 500 rows) do not wait for a
#: pause, but for a moment between two calls, and not long for that.
_FEW_NEW, _MANY_NEW = 10_000, 40_000
_MOMENTS_MISSED = 10
#: So many analyses may leave garbage in what was kept of whole files before that is walked too.
_MANY_ANALYSES = 200


def loaded() -> None:
    """All modules are loaded: the collector need not look at them again, and is used by `Memory` only from now on."""
    gc.collect()
    keep()
    gc.disable()


def keep() -> None:
    """What there is now stays for long: the collector need not look at it again."""
    gc.freeze()


class Memory:
    """Owned by the analysis thread, which makes nearly all of the garbage."""

    def __init__(self) -> None:
        self._missed = 0
        #: Analyses since all was walked; one of a whole file counts as many.
        self._analyses = 0

    def analysed(self, *, whole: bool) -> None:
        """An analysis has ended; ``whole``: it made all trees of a file, which stay for long."""
        self._analyses += _MANY_ANALYSES if whole else 1
        if whole:
            keep()

    def pauses(self) -> Iterator[float]:
        """How long to wait for work, in seconds, again and again; garbage is collected when a wait has passed."""
        if gc.get_count()[0] > _MANY_NEW:
            if self._missed < _MOMENTS_MISSED:
                self._missed += 1
                yield _MOMENT
            self._collect_new()
        yield _SHORT_PAUSE
        if gc.get_count()[0] > _FEW_NEW:
            self._collect_new()
        yield _LONG_PAUSE
        if self._analyses >= _MANY_ANALYSES:
            self.collect_all()

    def collect_all(self) -> None:
        """Walk everything that was ever kept."""
        self._analyses = 0
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def _collect_new(self) -> None:
        self._missed = 0
        gc.collect()
