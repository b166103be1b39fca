"""What was found in one file, written down: the same whether it was found now or by an earlier run."""

from __future__ import annotations

import os
import traceback
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.cli.job import Action, Job, Outcome
from torchlint.frozen import dataclass
from torchlint.reports import FORMATS, LintedFile, Tally, one_line, place

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from torchlint.finding import Finding, Fix, Problem
    from torchlint.text import Document


@dataclass(slots=True)
class Teller:
    """Collects what is to be said about one file on the way to its outcome."""

    path: Path
    job: Job
    unsafe_fixes: bool = False
    messages: list[str] = field(default_factory=list)
    failed: bool = False

    def problem(self, document: Document, problem: Problem) -> None:
        """Tell of something that cost part of the analysis."""
        row = ""
        if problem.row > 0:
            where = place(document, problem.row, 1)
            row = f"{where.row}: " if where.cell is None else f"cell {where.cell}:{where.row}: "
        message = f"{one_line(str(self.path))}:{row or ' '}{one_line(problem.message)}"
        if problem.kind == "rule":
            self.fail(message)
        else:
            self.messages.append(message)

    def fail(self, message: str) -> None:
        """Tell of something that could not be run."""
        self.failed = True
        self.messages.append(message)

    def outcome(
        self,
        document: Document,
        findings: tuple[Finding, ...],
        fixes: Callable[[Finding], tuple[Fix, ...]],
        summary: Callable[[Finding], str],
        *,
        fixed: Counter[tuple[str, str]] | None = None,
        diff: str = "",
    ) -> Outcome:
        """The outcome of the file, with these findings in its report."""
        file = LintedFile(
            display=str(self.path),
            filename="-" if str(self.path) == "-" else os.path.abspath(self.path),  # noqa: PTH100 - links stay as named
            document=document,
            findings=findings,
            fixes=fixes,
            summary=summary,
            unsafe_fixes=self.unsafe_fixes,
        )
        tally = Tally.of(file)
        if fixed:
            tally.fixed = fixed
        pieces: tuple[str, ...] = ()
        if self.job.action is not Action.DIFF:
            pieces = tuple(FORMATS[self.job.output_format].pieces(file, self.job.look))
        return Outcome(tally, pieces, tuple(self.messages), self.failed, diff)


def internal_error(path: Path, error: Exception) -> str:
    """The message about a fault of torchlint's own, with the place in its code."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    what = one_line(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
    return f"{one_line(str(path))}: internal error, please report it: {what}"
