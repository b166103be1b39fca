"""All rules over the files of a package, on all cores."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.corpus.packages import Package
from tests.corpus.reviews import Review
from torchlint.finding import Finding, Severity
from torchlint.linter import Analysis, Linter
from torchlint.settings import Settings
from torchlint.text import Document, DocumentError, read_document

EVERYTHING = Settings(select=("ALL",))
GRAVE = frozenset({Severity.ERROR, Severity.WARNING})


@dataclass
class Linted:
    """``grave``: findings of warning or error; ``quiet``: how many others each rule has; ``failures``: crashes."""

    files: int = 0
    lines: int = 0
    grave: list[Review] = field(default_factory=list)
    quiet: Counter[str] = field(default_factory=Counter)
    messages: dict[tuple[str, str, int], str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Linted) -> None:
        self.files += other.files
        self.lines += other.lines
        self.grave += other.grave
        self.quiet += other.quiet
        self.messages |= other.messages
        self.failures += other.failures


class LinterCrash(Exception):
    """The linter raised; the message has the file and the traceback."""


def analyze(document: Document) -> Analysis:
    """All rules over a document. Raises LinterCrash."""
    try:
        return Linter().analyze(document, EVERYTHING)
    except Exception as error:
        raise LinterCrash(f"{document.filename}: {traceback.format_exc()}") from error


def lint_package(package: Package) -> Linted:
    """Lint every Python file of a package; a crash or the failure of a rule is recorded, not raised."""
    result = Linted()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for linted in pool.map(_lint_file, package.files(), [package.folder] * len(package.files()), chunksize=8):
            result.add(linted)
    return result


def _lint_file(path: Path, folder: Path) -> Linted:
    name = path.relative_to(folder).as_posix()
    try:
        document = read_document(path)
        analysis = analyze(document)
    except (LinterCrash, DocumentError) as error:
        return Linted(1, failures=[str(error)])
    result = Linted(1, document.lines.row_count)
    result.failures = [f"{name}:{p.row}: {p.message}" for p in analysis.problems if p.kind == "rule"]
    for finding in analysis.findings:
        if finding.severity in GRAVE:
            result.grave.append(_review(finding, document, name))
            result.messages[finding.name, name, finding.row] = finding.message
        else:
            result.quiet[finding.name] += 1
    return result


def _review(finding: Finding, document: Document, name: str) -> Review:
    source = " ".join(document.lines.line(finding.row - 1).split())
    return Review(finding.name, name, finding.row, source)
