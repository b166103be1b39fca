"""Half-typed lines in the examples and the rules' tests; ``make corpus`` does the same in 200 real files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.analysis import Program, program_of
from tests.harness.cases import read_cases
from tests.harness.half_typed import LINES, difference, expected_findings, half_typed
from tests.harness.markdown import read_sections

ROOT = Path(__file__).parents[2]


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield f"examples/{path.name}", path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests" / "rules").glob("*.md")):
        cases = [
            case for case in read_cases(read_sections(path)) if not case.notebook and case.minimum_python <= (3, 10)
        ]
        # One program with all cases: each has its findings while a line of another one is typed.
        yield f"tests/rules/{path.name}", "\n\n".join(case.text for case in cases if _parses(case.text))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


TEXTS = dict(_texts())


def _program(text: str) -> Program:
    return program_of(text, "typed.py", {"select": ["ALL"]})


@pytest.mark.parametrize("name", TEXTS)
def test_findings_elsewhere_stay_the_same(name: str) -> None:
    before = _program(TEXTS[name]).analysis.findings
    changed = []
    for typed in half_typed(TEXTS[name], seed=name, positions=5):
        assert not _parses(typed.text)
        after = _program(typed.text).analysis.findings
        changed += [
            f"{LINES[typed.kind]!r} typed at row {typed.row}: {change}"
            for change in difference(expected_findings(before, typed.row), after, typed.row)
        ]
    if changed:
        pytest.fail(f"{name}\n" + "\n".join(changed), pytrace=False)
