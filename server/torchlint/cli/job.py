"""What a run asks of every file, and what a file gives back."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from torchlint.cli.configuration import Options
from torchlint.frozen import dataclass
from torchlint.reports import Look, Tally

if TYPE_CHECKING:
    from torchlint.cli.record import Record


class Action(Enum):
    """What to do with fixes."""

    REPORT = "report"
    FIX = "fix"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all files of a run. Values only: it travels to each process."""

    options: Options = field(default_factory=Options)
    output_format: str = "full"
    look: Look = field(default_factory=Look)
    action: Action = Action.REPORT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file gave. Values only: it travels between processes."""

    tally: Tally = field(default_factory=Tally)
    #: The report's pieces, one for each finding.
    pieces: tuple[str, ...] = ()
    #: Lines for stderr.
    messages: tuple[str, ...] = ()
    #: Something could not be run: the exit status is 2.
    failed: bool = False
    #: What the fixes would change, as a unified diff.
    diff: str = ""
    #: The file after its fixes, where it came from stdin and is to be fixed.
    rewritten: bytes | None = None
    #: What the next run may take for a lint of the same file; None where it has to look again.
    record: Record | None = None
