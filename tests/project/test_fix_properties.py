"""The promises of fixes are really checked: each kind of broken fix is noticed, and an honest one is not."""

from __future__ import annotations

import pytest

from tests.harness.analysis import Program, program_of
from tests.harness.properties import broken_properties, changed_statements
from torchlint.finding import Finding, Fix, TextEdit

CODE = """\
import torch


def move(x: torch.Tensor) -> torch.Tensor:
    x.cuda()  # lost
    if x.sum() > 0:
        return x
    return -x
"""


@pytest.fixture
def program() -> Program:
    return program_of(CODE, "move.py", {"select": ["ALL"]})


@pytest.fixture
def finding(program: Program) -> Finding:
    (found,) = (finding for finding in program.analysis.findings if finding.name == "discarded-result")
    return found


def fix(*replacements: tuple[str, str]) -> Fix:
    """A fix that replaces pieces of the code, each of which is in it once."""
    edits = []
    for old, new in replacements:
        assert CODE.count(old) == 1
        start = CODE.index(old)
        edits.append(TextEdit(start, start + len(old), new))
    return Fix("Assign the result", "unsafe", tuple(edits))


@pytest.mark.parametrize(
    "old_and_new", [("x.cuda()", "x = x.cuda()"), ("    x.cuda()  # lost\n", ""), ("x.cuda()", "pass")]
)
def test_honest_fix_breaks_nothing(program: Program, finding: Finding, old_and_new: tuple[str, str]) -> None:
    assert broken_properties(program, finding, fix(old_and_new)) == []


def test_insertion_before_a_statement_breaks_nothing(program: Program, finding: Finding) -> None:
    start = CODE.index("x.cuda()")
    assert broken_properties(program, finding, Fix("Assign", "unsafe", (TextEdit(start, start, "x = "),))) == []


@pytest.mark.parametrize(
    ("replacements", "message"),
    [
        ([("x.cuda()", "x = (x.cuda()")], "the text no longer parses"),
        ([("x.cuda()", "x.cuda( )")], "the finding is still there"),
        ([("x.cuda()", "x = x.cuda(); x.cpu()")], "new finding"),
        ([("x.cuda()", "x.cuda()")], "the fix changes nothing"),
        ([("x.cuda()", "x = x.cuda()"), ("x.cuda()", "x")], "overlap"),
        ([], "no edits"),
    ],
)
def test_broken_fix_is_noticed(
    program: Program, finding: Finding, replacements: list[tuple[str, str]], message: str
) -> None:
    broken = broken_properties(program, finding, fix(*replacements))
    assert any(message in text for text in broken), broken


def test_change_away_from_the_edits_is_noticed() -> None:
    edit = TextEdit(0, 1, "b")
    assert changed_statements("a = 1\nc = 2\n", "b = 1\nc = 2\n", [edit]) == []
    assert changed_statements("a = 1\nc = 2\n", "b = 1\nc = 3\n", [edit]) != []
    assert changed_statements("a = 1\nc = 2\nd = 3\n", "b = 1\nd = 3\nc = 2\n", [edit]) != []
