"""The full report: pictures of source lines that a person can trust."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports.reporting import NOTEBOOK, found, linted, picture, related, shown
from torchlint.finding import Finding, Severity
from torchlint.reports import Look
from torchlint.reports.look import displayed
from torchlint.rules import find_rule
from torchlint.text import Document

LOOP = """\
def train(loader, model, optimizer):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        log(loss)

        optimizer.step()

    return model
"""


def note(code: str = "TL201") -> str:
    rule = find_rule(code)
    assert rule is not None
    return rule.summary


def body(text: str) -> str:
    """The picture alone: without the heading and the remarks."""
    return "".join(f"{line}\n" for line in text.splitlines()[1:] if not re.match(r" +=", line))


def test_it_shows_the_line_the_related_places_the_rule_and_the_fix() -> None:
    finding = found(
        LOOP,
        "optimizer.step()",
        related=(
            related(LOOP, "loss.backward()", "adds to the gradients"),
            related(LOOP, "for x, y in loader", "loop"),
        ),
        applicability="unsafe",
        fix_title="Insert `optimizer.zero_grad()`",
    )
    assert shown("full", linted(LOOP, finding)) == picture(f"""
        error[TL201] missing-zero-grad: nothing clears the gradients of `model`
         --> train.py:7:9
          |
        2 |     for x, y in loader:
          |     ------------------ loop
        3 |         loss = criterion(model(x), y)
        4 |         loss.backward()
          |         --------------- adds to the gradients
        5 |         log(loss)
        6 |
        7 |         optimizer.step()
          |         ^^^^^^^^^^^^^^^^
        8 |
        9 |     return model
          |
          = note: {note()}
          = help: Insert `optimizer.zero_grad()` (unsafe fix: `--fix --unsafe-fixes`)
        """)


def test_a_far_related_place_is_shown_across_a_gap() -> None:
    text = "import torch\n" + "a = 1\n" * 10 + "last()\n"
    finding = found(text, "last()", related=(related(text, "import torch", "imported here"),))
    assert body(shown("full", linted(text, finding))) == picture("""
          --> train.py:12:1
           |
         1 | import torch
           | ------------ imported here
        ...
        10 | a = 1
        11 | a = 1
        12 | last()
           | ^^^^^^
           |
        """)


def test_a_safe_fix_says_that_fix_applies_it() -> None:
    finding = found(LOOP, "log", applicability="safe", fix_title="Remove it")
    assert "= help: Remove it (safe fix: `--fix`)\n" in shown("full", linted(LOOP, finding))


def test_with_unsafe_fixes_switched_on_an_unsafe_one_needs_no_other_option() -> None:
    finding = found(LOOP, "log", applicability="unsafe", fix_title="Remove it")
    assert "(unsafe fix: `--fix`)" in shown("full", linted(LOOP, finding, unsafe_fixes=True))


@pytest.mark.parametrize("severity", Severity)
def test_the_severity_is_named(severity: Severity) -> None:
    finding = found(LOOP, "log", severity=severity)
    assert shown("full", linted(LOOP, finding)).startswith(f"{severity.value}[TL201] missing-zero-grad: ")


def test_a_span_of_several_rows_that_begins_a_line() -> None:
    text = "x = 1\noptimizer.step(\n    closure,\n)\n"
    assert body(shown("full", linted(text, found(text, "optimizer", end=")")))) == picture("""
         --> train.py:2:1
          |
        1 |   x = 1
        2 | / optimizer.step(
        3 | |     closure,
        4 | | )
          | |_^
          |
        """)


def test_a_span_of_several_rows_that_begins_inside_a_line() -> None:
    text = "x = optimizer.step(\n    closure,\n)\n"
    assert body(shown("full", linted(text, found(text, "optimizer", end="closure")))) == picture("""
         --> train.py:1:5
          |
        1 |   x = optimizer.step(
          |  _____^
        2 | |     closure,
          | |___________^
        3 |   )
          |
        """)


def test_a_long_span_shows_its_two_ends() -> None:
    text = "layers = [\n" + "".join(f"    layer{i},\n" for i in range(20)) + "]\n"
    assert body(shown("full", linted(text, found(text, "layers", end="]")))) == picture("""
          --> train.py:1:1
           |
         1 | / layers = [
         2 | |     layer0,
         3 | |     layer1,
        ...  |
        21 | |     layer19,
        22 | | ]
           | |_^
           |
        """)


def test_tabs_and_wide_characters_do_not_shift_the_underline() -> None:
    text = '\tprint("日本語😀", step())\n'
    assert body(shown("full", linted(text, found(text, "step()")))) == picture("""
         --> train.py:1:16
          |
        1 |     print("日本語😀", step())
          |                       ^^^^^^
          |
        """)


def test_a_combining_accent_takes_no_column() -> None:
    text = "cafe\u0301 = step()\n"
    line, marks = shown("full", linted(text, found(text, "step()"))).splitlines()[3:5]
    assert line == "1 | cafe\u0301 = step()"
    assert marks == "  |        ^^^^^^"


def test_a_file_cannot_steer_the_terminal() -> None:
    text = "x = '\x1b[2J\u202e' + step() # \x07\n"
    out = shown("full", linted(text, found(text, "step()"), display="evil\x1b[31m.py"))
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\x07" not in out
    assert "evil␛[31m.py" in out


def test_a_very_long_line_is_cropped_around_the_span() -> None:
    text = "x = [" + "1, " * 3000 + "step(), " + "2, " * 3000 + "]\n"
    line, marks = shown("full", linted(text, found(text, "step()"))).splitlines()[3:5]
    assert len(line) <= 100
    assert line.startswith("1 | …")
    assert line.endswith("…")
    assert line[marks.index("^") : marks.rindex("^") + 1] == "step()"


def test_a_finding_without_width_still_has_a_caret() -> None:
    text = "x = 1\n"
    finding = Finding("TL201", "missing-zero-grad", Severity.ERROR, "message", 1, 5, 1, 5)
    assert "  |     ^\n" in shown("full", linted(text, finding))


def test_form_feed_is_no_line_end() -> None:
    text = "x = 1\n\x0c\ny = step()\n"
    assert " --> train.py:3:5\n" in shown("full", linted(text, found(text, "step()")))
    assert "3 | y = step()\n" in shown("full", linted(text, found(text, "step()")))


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_line_ends(newline: str) -> None:
    text = LOOP.replace("\n", newline)
    finding = found(LOOP, "optimizer.step()")
    assert shown("full", linted(text, finding)) == shown("full", linted(LOOP, finding))


def test_a_notebook_counts_rows_in_the_cell_and_shows_magics_as_they_were_written() -> None:
    text = NOTEBOOK.text
    finding = found(text, "optimizer.step()", related=(related(text, "import torch", "imported here"),))
    assert body(shown("full", linted(NOTEBOOK, finding, display="train.ipynb"))) == picture("""
         --> train.ipynb:cell 3:3:5
          |
        1 | for x in loader:
        2 |     model(x).backward()
        3 |     optimizer.step()
          |     ^^^^^^^^^^^^^^^^
          |
         ::: train.ipynb:cell 2:2:1
          |
        2 | import torch
          | ------------ imported here
          |
        """)
    magic = Finding("TL201", "missing-zero-grad", Severity.ERROR, "message", 2, 1, 2, 7)
    assert "1 | %pip install torch\n" in shown("full", linted(NOTEBOOK, magic))


def test_colour_changes_nothing_but_colour() -> None:
    finding = found(
        LOOP,
        "optimizer.step()",
        related=(related(LOOP, "loss.backward()", "adds"),),
        applicability="safe",
        fix_title="Insert it",
    )
    colored = shown("full", linted(LOOP, finding), Look(color=True, width=100))
    assert "\x1b[31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == shown("full", linted(LOOP, finding), Look(width=100))


texts = st.text(st.sampled_from("ab \t\n\r\x0c\x1b\u0301日😀x=()"), max_size=80)


@given(text=texts, start=st.integers(0, 80), length=st.integers(0, 80), width=st.integers(1, 120))
def test_any_span_of_any_text_can_be_drawn(text: str, start: int, length: int, width: int) -> None:
    """No text breaks the report or steers the terminal, there is a caret, and every line fits."""
    document = Document(text)
    row, column = document.lines.position(start)
    end_row, end_column = document.lines.position(start + length)
    finding = Finding(
        "TL201", "missing-zero-grad", Severity.ERROR, "m", row + 1, column + 1, end_row + 1, end_column + 1
    )
    block = body(shown("full", linted(document, finding), Look(width=width)))
    assert "^" in block
    assert "\x1b" not in block
    gutter = block.index("-->") + 3
    assert all(displayed(line)[1][-1] <= max(width, 40 + gutter + 3) for line in block.splitlines()[1:])
