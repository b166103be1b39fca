"""The concise report: one line a finding."""

from __future__ import annotations

from tests.reports.reporting import NOTEBOOK, found, linted, shown

TEXT = "import torch\nloss.backward()\noptimizer.step()\n"


def test_path_row_column_code_name_message() -> None:
    assert shown("concise", linted(TEXT, found(TEXT, "optimizer"))) == (
        "train.py:3:1: TL201 missing-zero-grad nothing clears the gradients of `model`\n"
    )


def test_a_star_marks_what_fix_would_mend() -> None:
    safe = found(TEXT, "optimizer", applicability="safe", fix_title="x")
    unsafe = found(TEXT, "loss", applicability="unsafe", fix_title="x")
    first, second = shown("concise", linted(TEXT, safe, unsafe)).splitlines()
    assert first.endswith("`model` [*]")
    assert second.endswith("`model`")
    assert shown("concise", linted(TEXT, unsafe, unsafe_fixes=True)).endswith(" [*]\n")


def test_a_notebook_names_the_cell() -> None:
    finding = found(NOTEBOOK.text, "optimizer")
    assert shown("concise", linted(NOTEBOOK, finding, display="a.ipynb")).startswith("a.ipynb:cell 3:3:5: TL201 ")


def test_a_message_of_several_lines_stays_one_line() -> None:
    finding = found(TEXT, "loss")
    object.__setattr__(finding, "message", "first\nsecond\x1b[31m")
    assert shown("concise", linted(TEXT, finding)) == "train.py:2:1: TL201 missing-zero-grad first second␛[31m\n"
