"""Counts over a whole run: the closing line and the statistics."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING

from torchlint.finding import Severity
from torchlint.frozen import dataclass

if TYPE_CHECKING:
    from torchlint.reports.linted import LintedFile
    from torchlint.reports.look import Look

_PLURALS = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFORMATION: ("note", "notes"),
    Severity.HINT: ("hint", "hints"),
}


@dataclass(slots=True)
class Tally:
    """What was found, by severity and by rule, and how much of it could be fixed."""

    files: int = 0
    severities: Counter[Severity] = field(default_factory=Counter)
    #: By (code, name).
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By (code, name): those that ``--fix`` with the user's options would fix.
    fixable: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Those that need ``--unsafe-fixes`` besides.
    unsafe: int = 0
    #: Findings that ``--fix`` removed, by (code, name).
    fixed: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, file: LintedFile) -> Tally:
        """The counts of one file."""
        tally = cls(files=1)
        for finding in file.findings:
            rule = (finding.code, finding.name)
            tally.severities[finding.severity] += 1
            tally.rules[rule] += 1
            if file.fixable(finding):
                tally.fixable[rule] += 1
            elif finding.applicability is not None:
                tally.unsafe += 1
        return tally

    def add(self, other: Tally) -> None:
        """Count ``other`` in."""
        self.files += other.files
        self.severities += other.severities
        self.rules += other.rules
        self.fixable += other.fixable
        self.unsafe += other.unsafe
        self.fixed += other.fixed

    @property
    def failing(self) -> bool:
        """Was anything of level warning or error found?"""
        return bool(self.severities[Severity.ERROR] or self.severities[Severity.WARNING])

    def closing_line(self) -> str:
        """``Found 2 errors, 1 warning (1 fixable with `--fix`).``"""
        if not self.rules:
            return f"No findings in {counted(self.files, 'file', 'files')}."
        kinds = ", ".join(counted(self.severities[s], *_PLURALS[s]) for s in Severity if self.severities[s])
        fixable = self.fixable.total()
        notes = [f"{fixable} fixable with `--fix`"] if fixable else []
        if self.unsafe:
            notes.append(f"{self.unsafe} {'more' if notes else 'fixable'} with `--fix --unsafe-fixes`")
        return f"Found {kinds} ({', '.join(notes)})." if notes else f"Found {kinds}."

    def fixed_lines(self, verb: str) -> str:
        """``Fixed 3 findings:`` and, on a line each, ``2 x TL601 create-on-device``."""
        lines = [f"{verb} {counted(self.fixed.total(), 'finding', 'findings')}:"]
        lines += [f"  {count} x {code} {name}" for (code, name), count in _ordered(self.fixed)]
        return "\n".join(lines)

    def statistics(self, look: Look) -> str:
        """A table of the rules that found something, the most frequent first; ``[*]``: all can be fixed."""
        lines = []
        width = max((len(str(count)) for count in self.rules.values()), default=1)
        for rule, count in _ordered(self.rules):
            fixable = self.fixable[rule]
            star = "[*]" if fixable == count else "[-]" if fixable else "[ ]"
            lines.append(f"{count:>{width}}  {look.paint(rule[0], 'red', bold=True)}  {star}  {rule[1]}\n")
        return "".join(lines)

    def statistics_json(self) -> str:
        """The same as a JSON array of ``{code, name, count, fixable}``."""
        rows = [
            {"code": rule[0], "name": rule[1], "count": count, "fixable": self.fixable[rule]}
            for rule, count in _ordered(self.rules)
        ]
        return json.dumps(rows, indent=2) + "\n"


def counted(number: int, one: str, many: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {one if number == 1 else many}"


def _ordered(rules: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    return sorted(rules.items(), key=lambda item: (-item[1], item[0]))
