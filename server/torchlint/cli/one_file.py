"""One file, from its bytes to what is said about it. Nothing that happens here may end the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.cli.configuration import Configuration
from torchlint.cli.job import Action, Job, Outcome
from torchlint.cli.record import Record, Stamp
from torchlint.cli.rewrite import difference, write_document
from torchlint.cli.telling import Teller, internal_error
from torchlint.linter import Linter, fix_all
from torchlint.reports import one_line, summary_of
from torchlint.settings import SettingsError
from torchlint.text import DocumentError, decode_document, encode_document, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from torchlint.cli.configuration import FileSettings
    from torchlint.finding import Finding, Fix
    from torchlint.text import Document


class FileLinter:
    """Lints one file after another for a job. Never raises: a failure is an outcome with a message."""

    def __init__(self, job: Job, configuration: Configuration | None = None) -> None:
        self.job = job
        self.configuration = configuration or Configuration(job.options)

    def lint_file(self, path: Path) -> Outcome:
        """Lint a file, and fix it if the job says so."""
        stamp: Stamp | None = None

        def read() -> Document:
            nonlocal stamp
            before = Stamp.of_file(path)
            data = read_bytes(path)
            stamp = before.read(data) if before is not None else None
            return decode_document(data, str(path))

        def save(before: Document, after: Document) -> None:
            nonlocal stamp
            stamp = None
            write_document(path, before, after)

        outcome = self._guarded(path, read, save)
        if outcome.record is None or stamp is None:
            return replace(outcome, record=None)
        return replace(outcome, record=outcome.record.with_stamp(stamp))

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
            return Outcome(messages=(internal_error(path, error),), failed=True)


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
        self.teller = Teller(path, job, self.settings.unsafe_fixes)
        self.computed: dict[Finding, tuple[Fix, ...]] = {}

    def outcome(self) -> Outcome:
        fixed: Counter[tuple[str, str]] = Counter()
        diff = ""
        problems = self.analysis.problems
        for problem in problems:
            self.teller.problem(self.document, problem)
        if self.job.action is not Action.REPORT and any(finding.applicability for finding in self._findings()):
            fixed, diff = self._fix()
        findings = self._findings()
        outcome = self.teller.outcome(self.analysis.document, findings, self._fixes, summary_of, fixed=fixed, diff=diff)
        if outcome.failed or self.analysis.document is not self.document:
            return outcome
        return replace(outcome, record=Record.of(findings, problems, self.computed, summary_of))

    def _findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.analysis.findings if self.shows(finding))

    def _fixes(self, finding: Finding) -> tuple[Fix, ...]:
        try:
            fixes = self.analysis.fixes(finding)
        except Exception as error:  # the finding itself is not lost with its fix
            self.teller.fail(internal_error(self.path, error))
            return ()
        self.computed[finding] = fixes
        return fixes

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
            self.teller.fail(one_line(str(error)))
        except Exception as error:  # the findings are still worth having
            self.teller.fail(internal_error(self.path, error))
        else:
            self.analysis = result.analysis
            return before - _rules(self._findings()), diff
        return Counter(), ""


def _rules(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((finding.code, finding.name) for finding in findings)
