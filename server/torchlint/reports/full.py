"""The report for a person: every finding with its source lines, its related places and its fix."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from torchlint.reports.excerpt import Excerpt, Mark
from torchlint.reports.linted import place
from torchlint.reports.look import Look, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.finding import Finding
    from torchlint.reports.linted import LintedFile


def full(file: LintedFile, look: Look) -> list[str]:
    """One block of lines for each finding of a file, each ending with a line feed."""
    return ["".join(f"{line}\n" for line in _block(file, finding, look)) for finding in file.findings]


def _block(file: LintedFile, finding: Finding, look: Look) -> Iterator[str]:
    kind = look.severity(finding.severity, f"{finding.severity.value}[{finding.code}]")
    yield f"{kind} {finding.name}: {look.paint(one_line(finding.message), bold=True)}"
    arrow, indent = "-->", ""
    for marks in _pictures(file, finding):
        excerpt = Excerpt(file.document, marks, look)
        indent = " " * excerpt.gutter
        where = f"{one_line(file.display)}:{place(file.document, marks[0].row, marks[0].column)}"
        yield f"{indent}{look.paint(arrow, 'blue', bold=True)} {where}"
        yield from excerpt.lines()
        arrow = ":::"
    for title, text in _remarks(file, finding):
        yield f"{indent} {look.paint('=', 'blue', bold=True)} {look.paint(title, bold=True)}: {text}"


def _pictures(file: LintedFile, finding: Finding) -> list[list[Mark]]:
    """The finding and its related places, one list for each notebook cell (a file is one picture)."""
    own = Mark(finding.row, finding.column, finding.end_row, finding.end_column, severity=finding.severity)
    marks = [own]
    for related in finding.related:
        label = one_line(related.message)
        marks.append(Mark(related.row, related.column, related.end_row, related.end_column, label))

    def cell(mark: Mark) -> int:
        found = file.document.cell_at(mark.row - 1)
        return 0 if found is None else found.index

    home = cell(own)
    # Stable: inside a cell the finding stays first, and its cell is the first picture.
    ordered = sorted(marks, key=lambda mark: (cell(mark) != home, cell(mark)))
    return [list(group) for _, group in groupby(ordered, key=cell)]


def _remarks(file: LintedFile, finding: Finding) -> Iterator[tuple[str, str]]:
    summary = file.summary(finding)
    if summary:
        yield "note", one_line(summary)
    if finding.fix_title is not None and finding.applicability is not None:
        options = "`--fix`" if file.fixable(finding) else "`--fix --unsafe-fixes`"
        yield "help", f"{one_line(finding.fix_title)} ({finding.applicability} fix: {options})"
