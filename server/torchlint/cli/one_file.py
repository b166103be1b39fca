"""One file, from its bytes to what is said about it. Nothing that happens here may end the run."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.cli.configuration import Configuration, Options
from torchlint.cli.rewrite import difference, write_document
from torchlint.linter import Linter, fix_all
from torchlint.reports import FORMATS, LintedFile, Look, Tally, one_line, place
from torchlint.settings import SettingsError
from torchlint.text import DocumentError, decode_document, encode_document, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchlint.cli.configuration import FileSettings
    from torchlint.finding import Finding, Fix, Problem
    from torchlint.text import Document


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


class FileLinter:
    """Lints one file after another for a job. Never raises: a failure is an outcome with a message."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.configuration = Configuration(job.options)

    def lint_file(self, path: Path) -> Outcome:
        """Lint a file, and fix it if the job says so."""

        def save(before: Document, after: Document) -> None:
            write_document(path, before, after)

        return self._guarded(path, lambda: read_document(path), save)

    def lint_bytes(self, data: bytes, path: Path) -> Outcome:
        """As ``lint_file``, for bytes from stdin that stand for the file ``path``; nothing is written."""
        rewritten = data

        def save(_before: Document, after: Document) -> None:
            nonlocal rewritten
            rewritten = encode_document(after)

        outcome = self._guarded(path, lambda: decode_document(data, str(path)), save)
        return replace(outcome, rewritten=rewritten) if self.job.action is Action.FIX else outcome

    def _guarded(self, path: Path, read: Callable[[], Document], save: Callable[[Document, Document], None]) -> Outcome:
        try:
            return _Linted(path, read(), self.job, self.configuration.settings_for(path), save).outcome()
        except (DocumentError, SettingsError) as error:
            return Outcome(messages=(one_line(str(error)),), failed=True)
        except Exception as error:  # a fault of ours costs one file
            return Outcome(messages=(_internal_error(path, error),), failed=True)


def _internal_error(path: Path, error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    what = one_line(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
    return f"{one_line(str(path))}: internal error, please report it: {what}"


class _Linted:
    """One document under a job; ``save`` takes the changed document where the job is to fix."""

    def __init__(
        self,
        path: Path,
        document: Document,
        job: Job,
        file_settings: FileSettings,
        save: Callable[[Document, Document], None],
    ) -> None:
        self.path = path
        self.job = job
        self.save = save
        self.shows = file_settings.shows
        self.settings = file_settings.settings
        self.document = document
        self.analysis = Linter().analyze(document, self.settings)
        self.messages: list[str] = []
        self.failed = False

    def outcome(self) -> Outcome:
        job = self.job
        fixed: Counter[tuple[str, str]] = Counter()
        diff = ""
        for problem in self.analysis.problems:
            self._say_problem(problem)
        if job.action is not Action.REPORT and any(finding.applicability for finding in self._findings()):
            fixed, diff = self._fix()
        file = LintedFile(
            display=str(self.path),
            filename="-" if str(self.path) == "-" else os.path.abspath(self.path),  # noqa: PTH100 - links stay as named
            document=self.analysis.document,
            findings=self._findings(),
            fixes=self._fixes,
            unsafe_fixes=self.settings.unsafe_fixes,
        )
        tally = Tally.of(file)
        tally.fixed = fixed
        pieces = () if job.action is Action.DIFF else tuple(FORMATS[job.output_format].pieces(file, job.look))
        return Outcome(tally, pieces, tuple(self.messages), self.failed, diff)

    def _findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.analysis.findings if self.shows(finding))

    def _fixes(self, finding: Finding) -> tuple[Fix, ...]:
        try:
            return self.analysis.fixes(finding)
        except Exception as error:  # the finding itself is not lost with its fix
            self._fail(_internal_error(self.path, error))
            return ()

    def _fix(self) -> tuple[Counter[tuple[str, str]], str]:
        """Apply the fixes; what they mended, and the diff where only that is asked for."""
        before = _rules(self._findings())
        try:
            result = fix_all(self.document, self.settings, unsafe=self.settings.unsafe_fixes, wanted=self.shows)
            if result.document.text == self.document.text:
                return Counter(), ""
            diff = ""
            if self.job.action is Action.FIX:
                self.save(self.document, result.document)
            else:
                diff = difference(str(self.path), self.document, result.document, self.job.look)
        except DocumentError as error:
            self._fail(one_line(str(error)))
        except Exception as error:  # the findings are still worth having
            self._fail(_internal_error(self.path, error))
        else:
            self.analysis = result.analysis
            return before - _rules(self._findings()), diff
        return Counter(), ""

    def _say_problem(self, problem: Problem) -> None:
        row = ""
        if problem.row > 0:
            where = place(self.document, problem.row, 1)
            row = f"{where.row}: " if where.cell is None else f"cell {where.cell}:{where.row}: "
        message = f"{one_line(str(self.path))}:{row or ' '}{one_line(problem.message)}"
        if problem.kind == "rule":
            self._fail(message)
        else:
            self.messages.append(message)

    def _fail(self, message: str) -> None:
        self.failed = True
        self.messages.append(message)


def _rules(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.code, finding.name) for finding in findings)
