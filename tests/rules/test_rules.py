"""Every Markdown file beside this one is the test of the rule that it is named after (docs/rule-tests.md)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.cases import Case, read_cases
from tests.harness.checking import check_case, open_program
from tests.harness.markdown import MarkdownTestError, read_sections
from tests.harness.properties import broken_properties

FOLDER = Path(__file__).parent


def _cases() -> list[tuple[str, Case | MarkdownTestError]]:
    found: list[tuple[str, Case | MarkdownTestError]] = []
    for path in sorted(FOLDER.glob("*.md")):
        try:
            found += [(path.stem, case) for case in read_cases(read_sections(path))]
        except MarkdownTestError as error:
            found.append((path.stem, error))
    return found


CASES = _cases()
IDS = [f"{rule}: {case.id if isinstance(case, Case) else 'malformed'}" for rule, case in CASES]


@pytest.mark.parametrize(("rule", "case"), CASES, ids=IDS)
def test_findings_and_fixes_are_as_written(rule: str, case: Case | MarkdownTestError) -> None:
    path = f"tests/rules/{rule}.md"
    if isinstance(case, MarkdownTestError):
        pytest.fail(f"{path}: {case}", pytrace=False)
    if sys.version_info < case.minimum_python:
        pytest.skip(f"needs the syntax of Python {'.'.join(map(str, case.minimum_python))}")
    failures = check_case(case, rule)
    if failures:
        pytest.fail(f"{path}:{case.row}: {case.id}\n\n" + "\n\n".join(failures), pytrace=False)


@pytest.mark.parametrize(("rule", "case"), CASES, ids=IDS)
def test_each_fix_keeps_its_promises(rule: str, case: Case | MarkdownTestError) -> None:
    """The text parses, the finding is gone, nothing new appears with all rules on, the rest is untouched."""
    if isinstance(case, MarkdownTestError) or sys.version_info < case.minimum_python:
        return
    program = open_program(case, rule, everything=True)
    broken = [
        f"row {finding.row}, {fix.title!r}: {sentence}"
        for finding in program.analysis.findings
        if finding.name == rule
        for fix in program.fixes(finding)
        for sentence in broken_properties(program, finding, fix)
    ]
    if broken:
        pytest.fail(f"tests/rules/{rule}.md:{case.row}: {case.id}\n" + "\n".join(broken), pytrace=False)
