"""What holds after any fix: the text parses, the finding is gone, nothing new appeared, the rest is untouched.

The functions take text and edits, not rules, so that they serve the Markdown tests, the examples and the corpus.
"""

from __future__ import annotations

import ast
import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.harness.analysis import Program
from torchlint.finding import Finding, Fix, TextEdit
from torchlint.text import LineIndex


def broken_properties(program: Program, finding: Finding, fix: Fix) -> list[str]:
    """What a fix broke, each a sentence; empty when it kept every promise."""
    before = program.document.text
    broken = _malformed(before, fix.edits)
    if broken:
        return broken
    fixed = program.edited(fix.edits)
    after = fixed.document.text
    if before == after:
        return ["the fix changes nothing"]
    if _parses(before) and not _parses(after):
        return ["the text no longer parses"]
    broken = [
        f"a rule failed after the fix: {problem.message}"
        for problem in fixed.analysis.problems
        if problem.kind == "rule"
    ]
    broken += _new_findings(program, fixed, finding, fix.edits)
    if _parses(before):
        broken += changed_statements(before, after, fix.edits)
    return broken


def _malformed(text: str, edits: Sequence[TextEdit]) -> list[str]:
    position = 0
    for edit in edits:
        if not 0 <= edit.start <= edit.end <= len(text):
            return [f"the edit {edit.start}..{edit.end} leaves the text of {len(text)} characters"]
        if edit.start < position:
            return ["the edits overlap or are not sorted"]
        position = edit.end
    return [] if edits else ["the fix has no edits"]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _new_findings(program: Program, fixed: Program, finding: Finding, edits: Sequence[TextEdit]) -> list[str]:
    shift = Shift(edits)
    old_text, new_text = program.document, fixed.document
    gone = shift.forward(old_text.lines.offset(finding.row - 1, finding.column - 1))
    old, new = program.analysis.findings, fixed.analysis.findings
    broken = [
        f"the finding is still there: row {left.row}: {left.message}"
        for left in new
        if (left.code, left.message) == (finding.code, finding.message)
        and new_text.lines.offset(left.row - 1, left.column - 1) == gone
    ]
    more = Counter(found.code for found in new)
    more.subtract(Counter(found.code for found in old))
    more[finding.code] += 1
    for code, count in more.items():
        if count > 0 and not (broken and code == finding.code):
            known = {found.message for found in old}
            texts = [f"row {found.row}: {found.message}" for found in new if found.code == code]
            texts = [text for text in texts if text.split(": ", 1)[1] not in known] or texts
            broken.append(f"{count} new finding(s) of {code} appeared: {'; '.join(texts[:3])}")
    return broken


class Shift:
    """Where a place of the old text is in the new one, and which ranges of both were touched."""

    def __init__(self, edits: Iterable[TextEdit]) -> None:
        self.old: list[tuple[int, int]] = []
        self.new: list[tuple[int, int]] = []
        moved = 0
        for edit in edits:
            self.old.append((edit.start, edit.end))
            self.new.append((edit.start + moved, edit.start + moved + len(edit.content)))
            moved += len(edit.content) - (edit.end - edit.start)

    def forward(self, offset: int) -> int:
        """The new offset of an old one; inside a replaced range, the start of what replaced it."""
        index = bisect.bisect_right([start for start, _ in self.old], offset) - 1
        if index < 0:
            return offset
        (_, old_end), (new_start, new_end) = self.old[index], self.new[index]
        return new_start if offset < old_end else offset - old_end + new_end


@dataclass(frozen=True)
class _Statement:
    """A simple statement, or the head of a compound one; offsets in characters, end exclusive."""

    start: int
    end: int
    dump: str

    def near(self, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether a range reaches the statement, be it only its border."""
        return any(start <= self.end and end >= self.start for start, end in ranges)


def changed_statements(before: str, after: str, edits: Sequence[TextEdit]) -> list[str]:
    """Statements away from the edits that were lost, changed or put in another order. Both texts must parse."""
    shift = Shift(edits)
    old, new = _statements(before), _statements(after)
    lost = _missing([statement for statement in old if not statement.near(shift.old)], new)
    gained = _missing([statement for statement in new if not statement.near(shift.new)], old)
    broken = []
    if lost is not None:
        broken.append(f"a statement that the fix does not touch changed or moved: {before[lost.start : lost.end]}")
    if gained is not None:
        broken.append(f"a statement away from the fix was not there before: {after[gained.start : gained.end]}")
    return broken


def _missing(part: Sequence[_Statement], whole: Sequence[_Statement]) -> _Statement | None:
    """The first statement at which ``part`` stops being a subsequence of ``whole``."""
    rest = iter(whole)
    return next((one for one in part if not any(one.dump == other.dump for other in rest)), None)


def _statements(text: str) -> list[_Statement]:
    lines = LineIndex(text)
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue
        dump, end = _head(node)
        found.append(_Statement(lines.offset_of_ast(*_start(node)), lines.offset_of_ast(*end), dump))
    return sorted(found, key=lambda statement: (statement.start, -statement.end))


def _start(node: ast.stmt | ast.excepthandler | ast.match_case) -> tuple[int, int]:
    """Where a statement starts, decorators included (row from 1, UTF-8 column from 0)."""
    place = node.pattern if isinstance(node, ast.match_case) else node
    decorators = [(one.lineno, one.col_offset) for one in getattr(node, "decorator_list", [])]
    return min([(place.lineno, place.col_offset), *decorators])


_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def _head(node: ast.stmt | ast.excepthandler | ast.match_case) -> tuple[str, tuple[int, int]]:
    """The dump of a statement without the statements inside it, and where it ends (row from 1, UTF-8 column from 0)."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    fields = {
        name: value for name, value in ast.iter_fields(node) if name not in _BODIES or not isinstance(value, list)
    }
    dump = type(node).__name__ + repr(sorted((name, _dump(value)) for name, value in fields.items()))
    if isinstance(body, list) and body:
        return dump, _start(body[0])
    assert not isinstance(node, ast.match_case)
    return dump, (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def _dump(value: object) -> str:
    if isinstance(value, ast.AST):
        return ast.dump(value)
    if isinstance(value, list):
        return "[" + ", ".join(_dump(item) for item in value) + "]"
    return repr(value)
