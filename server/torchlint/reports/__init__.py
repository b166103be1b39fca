"""Reports: how the findings of a run are written down, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.frozen import dataclass
from torchlint.reports.concise import concise
from torchlint.reports.full import full
from torchlint.reports.json_array import json_objects
from torchlint.reports.linted import LintedFile, Place, place, summary_of
from torchlint.reports.look import Look, one_line
from torchlint.reports.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMATS", "Format", "LintedFile", "Look", "Place", "Tally", "one_line", "place", "summary_of"]


@dataclass(frozen=True, slots=True)
class Format:
    """An output format: each finding becomes one piece of text, without knowing of the others.

    So pieces can be made in several processes and written as they come; a file that fails takes nothing else with it.
    """

    pieces: Callable[[LintedFile, Look], list[str]]
    head: str = ""
    between: str = ""
    tail: str = ""
    #: Is it read by people, so that a closing line belongs below it?
    for_people: bool = True
    #: Does it show what the fixes would change, so that they have to be computed?
    shows_edits: bool = False


FORMATS = {
    "full": Format(full, between="\n"),
    "concise": Format(concise),
    "json": Format(json_objects, head="[", between=",", tail="\n]\n", for_people=False, shows_edits=True),
}
