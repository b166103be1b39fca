"""The report of one line a finding, for terminals, editors' error lists and `grep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.reports.linted import place
from torchlint.reports.look import Look, one_line

if TYPE_CHECKING:
    from torchlint.finding import Finding
    from torchlint.reports.linted import LintedFile


def concise(file: LintedFile, look: Look) -> list[str]:
    """``path:row:column: CODE name message [*]`` for each finding; ``[*]``: ``--fix`` would mend it."""
    return [_line(file, finding, look) for finding in file.findings]


def _line(file: LintedFile, finding: Finding, look: Look) -> str:
    where = f"{look.paint(one_line(file.display), bold=True)}:{place(file.document, finding.row, finding.column)}:"
    star = f" {look.paint('[*]', 'cyan')}" if file.fixable(finding) else ""
    code = look.severity(finding.severity, finding.code)
    return f"{where} {code} {finding.name} {one_line(finding.message)}{star}\n"
