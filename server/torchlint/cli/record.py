"""What the cache keeps of one file: which bytes were linted, and everything that a report can say about them.

Written as JSON and read with suspicion: a record that is not exactly what this version writes counts as none.
"""

from __future__ import annotations

import time
from dataclasses import field, replace
from importlib.util import source_hash
from typing import TYPE_CHECKING, Any

from torchlint.finding import Finding, Fix, Problem, Related, Severity, TextEdit
from torchlint.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

#: In nanoseconds. A file that was changed so shortly before it was read may change once more without a new time: the
#: clocks of file systems are coarse (FAT counts in steps of two seconds).
_SETTLED = 3_000_000_000


def digest(data: bytes) -> str:
    """64 bits that tell contents apart, made as Python makes those in its own caches; no defence against an attacker
    (who could as well write the comments that suppress findings)."""
    return source_hash(data).hex()


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which contents of a file are meant. ``times`` and ``size`` spare reading it; the digest decides."""

    #: Of the last change of the contents and of the file, in nanoseconds; (0, 0) if they cannot be trusted.
    times: tuple[int, int]
    size: int
    digest: str = ""

    @classmethod
    def of_file(cls, path: Path) -> Stamp | None:
        """The stamp without a digest, before the file is read; None where there is no such file."""
        try:
            found = path.stat()
        except (OSError, ValueError):
            return None
        times = found.st_mtime_ns, found.st_ctime_ns
        settled = found.st_mtime_ns < time.time_ns() - _SETTLED
        return cls(times if settled else (0, 0), found.st_size)

    def read(self, data: bytes) -> Stamp:
        """The stamp of what was read after this one was made."""
        return Stamp(self.times if len(data) == self.size else (0, 0), len(data), digest(data))

    def is_of(self, data: bytes) -> bool:
        """Whether these are the contents that are meant."""
        return len(data) == self.size and digest(data) == self.digest

    def is_same(self, now: Stamp) -> bool:
        """Whether the file is certainly unchanged, by its times alone."""
        return any(self.times) and (self.times, self.size) == (now.times, now.size)


@dataclass(frozen=True, slots=True)
class Record:
    """The findings of a file that the settings show, the problems on the way, and what of it costs time to find."""

    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    #: The fixes of each finding; None where nobody has asked for them yet.
    fixes: tuple[tuple[Fix, ...] | None, ...] = ()
    #: The summary of each finding's rule.
    summaries: tuple[str, ...] = ()
    stamp: Stamp = field(default=Stamp((0, 0), 0))

    @classmethod
    def of(
        cls,
        findings: tuple[Finding, ...],
        problems: tuple[Problem, ...],
        fixes: Mapping[Finding, tuple[Fix, ...]],
        summary: Callable[[Finding], str],
    ) -> Record:
        """The record of a lint, with those fixes that were computed."""
        known = tuple(fixes.get(finding, () if finding.applicability is None else None) for finding in findings)
        return cls(findings, problems, known, tuple(summary(finding) for finding in findings))

    def with_stamp(self, stamp: Stamp) -> Record:
        """The same, of a file whose contents were found equal."""
        return replace(self, stamp=stamp)

    def fixes_of(self, finding: Finding) -> tuple[Fix, ...]:
        """The fixes of a finding of this record, which knows them (``knows_fixes``)."""
        return self.fixes[self.findings.index(finding)] or ()

    def summary_of(self, finding: Finding) -> str:
        """The summary of the rule of a finding of this record."""
        return self.summaries[self.findings.index(finding)]

    @property
    def knows_fixes(self) -> bool:
        """Whether the fixes of all findings have been computed."""
        return None not in self.fixes

    def to_json(self) -> list[Any]:
        """The record as values that JSON has."""
        stamp = [*self.stamp.times, self.stamp.size, self.stamp.digest]
        if not self.findings and not self.problems:
            return [stamp]
        findings = [
            [_finding_to_json(finding), summary, None if fixes is None else [_fix_to_json(fix) for fix in fixes]]
            for finding, fixes, summary in zip(self.findings, self.fixes, self.summaries, strict=True)
        ]
        return [stamp, findings, [[problem.kind, problem.row, problem.message] for problem in self.problems]]

    @classmethod
    def from_json(cls, value: Any) -> Record | None:
        """What ``to_json`` gave; None for anything else."""
        try:
            match value:
                case [stamp]:
                    return cls(stamp=_stamp(stamp))
                case [stamp, list(findings), list(problems)]:
                    return cls(
                        tuple(_finding(finding) for finding, _, _ in findings),
                        tuple(_problem(problem) for problem in problems),
                        tuple(None if fixes is None else tuple(map(_fix, fixes)) for _, _, fixes in findings),
                        tuple(_text(summary) for _, summary, _ in findings),
                        _stamp(stamp),
                    )
        except (TypeError, ValueError):
            pass
        return None


def _finding_to_json(finding: Finding) -> list[Any]:
    related = [[at.message, at.row, at.column, at.end_row, at.end_column] for at in finding.related]
    return [
        finding.code,
        finding.name,
        finding.severity.value,
        finding.message,
        finding.row,
        finding.column,
        finding.end_row,
        finding.end_column,
        related,
        finding.applicability,
        finding.fix_title,
        finding.deprecated,
    ]


def _fix_to_json(fix: Fix) -> list[Any]:
    return [fix.title, fix.applicability, [[edit.start, edit.end, edit.content] for edit in fix.edits]]


def _finding(value: Any) -> Finding:
    code, name, severity, message, row, column, end_row, end_column, related, applicability, title, deprecated = value
    return Finding(
        _text(code),
        _text(name),
        Severity(severity),
        _text(message),
        _number(row),
        _number(column),
        _number(end_row),
        _number(end_column),
        tuple(Related(_text(text), *map(_number, place)) for text, *place in related),
        None if applicability is None else _applicability(applicability),
        None if title is None else _text(title),
        deprecated is True,
    )


def _fix(value: Any) -> Fix:
    title, applicability, edits = value
    return Fix(
        _text(title),
        _applicability(applicability),
        tuple(TextEdit(_number(start), _number(end), _text(content)) for start, end, content in edits),
    )


def _problem(value: Any) -> Problem:
    kind, row, message = value
    if kind != "syntax":  # after any other the file is linted again
        raise ValueError(kind)
    return Problem("syntax", _number(row), _text(message))


def _stamp(value: Any) -> Stamp:
    changed, moved, size, content = value
    return Stamp((_number(changed), _number(moved)), _number(size), _text(content))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _applicability(value: Any) -> Any:
    if value not in ("safe", "unsafe"):
        raise ValueError(value)
    return value
