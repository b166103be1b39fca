"""The outcomes of many files: from what an earlier run found where that is still true, else by linting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.cli.job import Action, Job, Outcome
from torchlint.cli.pool import lint_files
from torchlint.cli.telling import Teller
from torchlint.reports import FORMATS
from torchlint.text import Document, decode_document, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchlint.cli.cache import Cache
    from torchlint.cli.configuration import Configuration
    from torchlint.cli.one_file import FileLinter
    from torchlint.cli.record import Record


class Linting:
    """The files of a run. The rules and all that they need are loaded when the first file has to be linted."""

    def __init__(self, job: Job, configuration: Configuration, cache: Cache | None) -> None:
        self.job = job
        self.configuration = configuration
        self._cache = cache
        self._linter: FileLinter | None = None

    @property
    def linter(self) -> FileLinter:
        """What lints a file. The first time it raises SettingsError if the options name a rule that there is not."""
        if self._linter is None:
            from torchlint.cli.one_file import FileLinter

            self.configuration.check_rules()
            self._linter = FileLinter(self.job, self.configuration)
        return self._linter

    def outcomes(self, files: Sequence[Path], jobs: int) -> Iterator[Outcome]:
        """An outcome for each file, in their order, as soon as it can be given. Raises SettingsError at once."""
        known = self._recall(files)
        rest = [file for file in files if file not in known]
        if not rest:
            if not files:
                self.configuration.check_rules()
            return self._in_order(files, known, iter(()))
        return self._in_order(files, known, lint_files(rest, self.linter, jobs))

    def _recall(self, files: Sequence[Path]) -> dict[Path, Record]:
        if self._cache is None:
            return {}
        found = ((file, self._cache.recall(file)) for file in files)
        return {file: record for file, record in found if record is not None and _suffices(record, self.job)}

    def _in_order(
        self, files: Sequence[Path], known: dict[Path, Record], fresh: Iterator[Outcome]
    ) -> Iterator[Outcome]:
        for file in files:
            outcome = self._tell(file, known[file]) if file in known else next(fresh)
            if outcome is None:  # the file has changed since it was looked up
                outcome = self.linter.lint_file(file)
            if self._cache is not None and outcome.record is not None:
                self._cache.keep(file, outcome.record)
            yield outcome

    def _tell(self, path: Path, record: Record) -> Outcome | None:
        """What a record says of a file; None where it cannot be trusted."""
        document = Document("", str(path))
        try:
            if record.findings or record.problems:
                data = read_bytes(path)
                if not record.stamp.is_of(data):
                    return None
                document = decode_document(data, str(path))
            settings = self.configuration.resolver.settings_for(path)
            teller = Teller(path, self.job, self.configuration.unsafe_fixes(settings))
            for problem in record.problems:
                teller.problem(document, problem)
            return teller.outcome(document, record.findings, record.fixes_of, record.summary_of)
        except Exception:  # whoever wrote such a record: linting the file makes a better one
            return None


def _suffices(record: Record, job: Job) -> bool:
    """Whether a record has all that a job asks of a file."""
    if job.action is not Action.REPORT and any(finding.applicability for finding in record.findings):
        return False
    return record.knows_fixes or not FORMATS[job.output_format].shows_edits
