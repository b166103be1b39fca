"""One run of ``torchlint check``: what is written where, and the exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from torchlint.cli import CLEAN, FAILED, FOUND
from torchlint.cli.job import Action, Job, Outcome
from torchlint.cli.terminal import write
from torchlint.reports import FORMATS, Format, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torchlint.cli.progress import Progress


class Run:
    """Takes the outcomes as they come, writes what they say, and knows the exit status at the end."""

    def __init__(self, job: Job, stream: TextIO, *, statistics: bool, quiet: bool) -> None:
        self.job = job
        self.stream = stream
        self.statistics = statistics
        self.quiet = quiet
        self.tally = Tally()
        self.failed = False
        self.format: Format = FORMATS[job.output_format]
        self._said: set[str] = set()
        self._pieces = 0

    @property
    def _lists_findings(self) -> bool:
        return not self.statistics and self.job.action is not Action.DIFF

    def say(self, message: str) -> None:
        """A line for stderr, each only once (a bad settings file concerns many files)."""
        if message not in self._said:
            self._said.add(message)
            write(message + "\n", self.job.look, sys.stderr)

    def fail(self, messages: Sequence[str]) -> None:
        """Something could not be run."""
        for message in messages:
            self.failed = True
            self.say(message)

    def fail_folder(self, folder: Path, error: Exception) -> None:
        """A folder is left out: it cannot be read, or its settings are wrong."""
        self.fail(
            [f"{folder}: cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)]
        )

    def consume(self, outcomes: Iterable[Outcome], progress: Progress) -> None:
        """Write the outcomes; whatever happens on the way, what was begun is well formed at the end."""
        if self._lists_findings:
            self._write(self.format.head)
        try:
            for outcome in outcomes:
                progress.advance()
                self._take(outcome, progress)
        finally:
            progress.clear()
            if self._lists_findings:
                self._write(self.format.tail)

    def _take(self, outcome: Outcome, progress: Progress) -> None:
        self.tally.add(outcome.tally)
        self.failed = self.failed or outcome.failed
        if outcome.messages or outcome.pieces or outcome.diff:
            progress.clear()
        for message in outcome.messages:
            self.say(message)
        if self.job.action is Action.DIFF:
            write(outcome.diff, self.job.look)
        elif self._lists_findings:
            for piece in outcome.pieces:
                self._write(self.format.between + piece if self._pieces else piece)
                self._pieces += 1
        if outcome.rewritten is not None:
            sys.stdout.buffer.write(outcome.rewritten)

    def close(self) -> None:
        """The closing lines, for people only."""
        if self.job.action is Action.DIFF:
            if self.tally.fixed and not self.quiet:
                self.say(self.tally.fixed_lines("Would fix"))
            return
        if self.statistics:
            people = self.format.for_people
            self._write(self.tally.statistics(self.job.look) if people else self.tally.statistics_json())
        if self.quiet or not self.format.for_people:
            return
        if self._pieces:
            self._write(self.format.between)
        if self.tally.fixed:
            self._write(self.tally.fixed_lines("Fixed") + "\n")
        if self.tally.files:
            self._write(self.tally.closing_line() + "\n")

    def _write(self, text: str) -> None:
        write(text, self.job.look, self.stream)

    def status(self, *, exit_zero: bool) -> int:
        """The exit status; a failure counts also with ``--exit-zero``, which is about findings."""
        if self.failed:
            return FAILED
        found = self.tally.fixed if self.job.action is Action.DIFF else self.tally.failing
        return FOUND if found and not exit_zero else CLEAN
