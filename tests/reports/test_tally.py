"""The closing line and the statistics."""

from __future__ import annotations

import json
from collections import Counter

from tests.reports.reporting import found, linted
from torchlint.finding import Severity
from torchlint.reports import Look, Tally

TEXT = "loss.backward()\n"


def tally(*findings: object) -> Tally:
    return Tally.of(linted(TEXT, *findings))  # type: ignore[arg-type]


def test_nothing_found() -> None:
    total = tally()
    total.add(tally())
    assert total.closing_line() == "No findings in 2 files."
    assert not total.failing


def test_errors_and_warnings_and_what_can_be_fixed() -> None:
    total = tally(
        found(TEXT, "loss"),
        found(TEXT, "loss", applicability="safe", fix_title="x"),
        found(TEXT, "loss", severity=Severity.WARNING, applicability="unsafe", fix_title="x"),
    )
    assert total.closing_line() == (
        "Found 2 errors, 1 warning (1 fixable with `--fix`, 1 more with `--fix --unsafe-fixes`)."
    )
    assert total.failing


def test_only_unsafe_fixes() -> None:
    total = tally(found(TEXT, "loss", applicability="unsafe", fix_title="x"))
    assert total.closing_line() == "Found 1 error (1 fixable with `--fix --unsafe-fixes`)."


def test_hints_do_not_fail() -> None:
    total = tally(found(TEXT, "loss", severity=Severity.HINT))
    assert total.closing_line() == "Found 1 hint."
    assert not total.failing


def test_warnings_fail() -> None:
    assert tally(found(TEXT, "loss", severity=Severity.WARNING)).failing


def test_statistics() -> None:
    total = tally(found(TEXT, "loss"), found(TEXT, "loss", applicability="safe", fix_title="x"))
    assert total.statistics(Look()) == "2  TL201  [-]  missing-zero-grad\n"
    assert json.loads(total.statistics_json()) == [
        {"code": "TL201", "name": "missing-zero-grad", "count": 2, "fixable": 1}
    ]


def test_statistics_put_the_most_frequent_first() -> None:
    total = Tally(rules=Counter({("TL1", "a"): 2, ("TL2", "b"): 10}), fixable=Counter({("TL1", "a"): 2}))
    assert total.statistics(Look()) == "10  TL2  [ ]  b\n 2  TL1  [*]  a\n"


def test_what_was_fixed() -> None:
    total = Tally(fixed=Counter({("TL601", "create-on-device"): 2, ("TL107", "requires-grad-typo"): 1}))
    assert total.fixed_lines("Fixed") == (
        "Fixed 3 findings:\n  2 x TL601 create-on-device\n  1 x TL107 requires-grad-typo"
    )
