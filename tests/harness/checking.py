"""What a case expects, held against what the linter says."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.harness.analysis import Program, fix_until_done, notebook_of, program_of
from tests.harness.cases import Case, FixedText
from tests.harness.markdown import AnnotatedCode, Expectation
from torchlint.finding import Finding


@dataclass(frozen=True)
class Placed:
    """A finding and where it is: cell from 0, row in the cell from 1, and the flagged text of its first row."""

    cell: int
    row: int
    flagged: str
    finding: Finding

    def __str__(self) -> str:
        found = self.finding
        return f'# {found.severity.value}: [{found.name}] `{self.flagged}` "{found.message}"'


def check_case(case: Case, rule: str) -> list[str]:
    """What is wrong with the case, each a text for a person; empty when it passes."""
    program = open_program(case, rule)
    analysis = program.analysis
    failures = [
        f"the linter had a problem: {problem.kind}, row {problem.row}: {problem.message}"
        for problem in analysis.problems
        if problem.kind == "rule"
    ]
    placed = [_place(program, finding) for finding in analysis.findings]
    for number, cell in enumerate(case.cells):
        here = [found for found in placed if found.cell == number]
        failures += _check_cell(cell, case.cell_rows[number], here)
        failures += _check_related(program, cell, number, case.cell_rows[number], analysis.findings)
    for fixed in case.fixed:
        failures += _check_fixed(case, rule, fixed)
    return failures


def open_program(case: Case, rule: str, *, everything: bool = False) -> Program:
    """The case's program with its settings; without a selection of its own, only ``rule`` (or ``everything``) is on."""
    settings = {"select": ["ALL"] if everything else [rule], **case.settings}
    if case.notebook:
        return notebook_of([cell.text for cell in case.cells], case.filename, settings)
    return program_of(case.cells[0].text, case.filename, settings)


def _place(program: Program, finding: Finding) -> Placed:
    cell, row = program.place(finding.row)
    line = program.document.lines.line(finding.row - 1)
    end = finding.end_column - 1 if finding.end_row == finding.row else len(line)
    return Placed(cell, row, line[finding.column - 1 : end].rstrip(), finding)


def _check_cell(code: AnnotatedCode, first_row: int, found: Sequence[Placed]) -> list[str]:
    """Pair expectations and findings row by row; what is left on either side is a failure."""
    left = list(found)
    failures = []
    lines = code.text.split("\n")

    def where(row: int) -> str:
        source = code.source_rows[row - 1] if row <= len(code.source_rows) else row
        line = lines[row - 1].strip() if row <= len(lines) else ""
        return f"row {first_row + source - 1}: {line}"

    for expected in code.expectations:
        match = next((placed for placed in left if _matches(expected, placed)), None)
        if match is not None:
            left.remove(match)
            continue
        near = [str(placed) for placed in left if placed.row == expected.row] or ["no finding"]
        failures.append(f"{where(expected.row)}\n    expected {expected}\n    got      " + "\n             ".join(near))
    answered = {expected.row for expected in code.expectations}
    for placed in left:
        note = "\n    (see also the expectation of this row above)" if placed.row in answered else ""
        failures.append(f"{where(placed.row)}\n    expected no finding\n    got      {placed}{note}")
    return failures


def _matches(expected: Expectation, placed: Placed) -> bool:
    found = placed.finding
    return (
        placed.row == expected.row
        and found.severity.value == expected.severity
        and expected.rule in {found.name, found.code}
        and (expected.message is None or expected.message in found.message)
        and (expected.flagged is None or expected.flagged == placed.flagged)
    )


def _check_related(
    program: Program, code: AnnotatedCode, cell: int, first_row: int, findings: Iterable[Finding]
) -> list[str]:
    places = [(program.place(related.row), related.message) for found in findings for related in found.related]
    failures = []
    for expected in code.related:
        here = [message for place, message in places if place == (cell, expected.row)]
        if not any(expected.message in message for message in here):
            row = first_row + code.source_rows[expected.row - 1] - 1
            got = "; ".join(here) or "none on this row; related rows are " + str(
                sorted({row for (_, row), _ in places})
            )
            failures.append(f'row {row}: expected a related place "{expected.message}"\n    got      {got}')
    return failures


def _check_fixed(case: Case, rule: str, fixed: FixedText) -> list[str]:
    program, failures = fix_until_done(open_program(case, rule), unsafe=fixed.unsafe, title=fixed.title)
    for number, (want, got) in enumerate(zip(fixed.cells, program.cells(), strict=True)):
        if want.rstrip("\n") != got.rstrip("\n"):
            where = f" of cell {number + 1}" if case.notebook else ""
            kind = "all fixes" if fixed.unsafe else "the safe fixes"
            diff = difflib.unified_diff(want.splitlines(), got.splitlines(), "expected", "got", lineterm="", n=2)
            failures.append(f"the text{where} after {kind} differs:\n    " + "\n    ".join(diff))
    return failures
