"""The JSON report: what programs rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from tests.reports.reporting import NOTEBOOK, found, insertion, linted, related, shown

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "json-schema.json").read_text("utf-8"))
TEXT = "x = '😀'; loss.backward()\noptimizer.step()\n"


def objects(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    array: list[dict[str, Any]] = json.loads(shown("json", linted(*args, **kwargs)))
    Draft202012Validator(SCHEMA).validate(array)
    return array


def test_the_fields() -> None:
    finding = found(
        TEXT,
        "optimizer.step()",
        related=(related(TEXT, "loss.backward()", "adds"),),
        applicability="unsafe",
        fix_title="Insert `optimizer.zero_grad()`",
    )
    fix = insertion(TEXT.index("loss"), "optimizer.zero_grad(); ")
    assert objects(TEXT, finding, fixes=lambda _: (fix,)) == [
        {
            "code": "TL201",
            "name": "missing-zero-grad",
            "severity": "error",
            "message": "nothing clears the gradients of `model`",
            "filename": "/project/train.py",
            "location": {"row": 2, "column": 1},
            "end_location": {"row": 2, "column": 17},
            "url": finding.url,
            "cell": None,
            "related": [
                {
                    "message": "adds",
                    "filename": "/project/train.py",
                    "location": {"row": 1, "column": 10},
                    "end_location": {"row": 1, "column": 25},
                }
            ],
            "fix": {
                "applicability": "unsafe",
                "message": "Insert `optimizer.zero_grad()`",
                "edits": [
                    {
                        "content": "optimizer.zero_grad(); ",
                        "location": {"row": 1, "column": 10},
                        "end_location": {"row": 1, "column": 10},
                    }
                ],
            },
        }
    ]


def test_no_findings_are_an_empty_array() -> None:
    assert objects(TEXT) == []


def test_several_findings() -> None:
    assert [o["location"]["row"] for o in objects(TEXT, found(TEXT, "loss"), found(TEXT, "optimizer"))] == [1, 2]


def test_a_fix_that_cannot_be_computed_is_null() -> None:
    (finding,) = objects(TEXT, found(TEXT, "loss", applicability="safe", fix_title="x"), fixes=lambda _: ())
    assert finding["fix"] is None


def test_a_notebook_counts_inside_the_cell() -> None:
    text = NOTEBOOK.text
    finding = found(
        text,
        "optimizer.step()",
        related=(related(text, "import torch", "imported"),),
        applicability="unsafe",
        fix_title="Insert it",
    )
    fix = insertion(text.index("    model(x)"), "    optimizer.zero_grad()\n")
    (shown_finding,) = objects(NOTEBOOK, finding, fixes=lambda _: (fix,), display="train.ipynb")
    assert shown_finding["cell"] == 3
    assert shown_finding["location"] == {"row": 3, "column": 5}
    assert shown_finding["related"][0]["cell"] == 2
    assert shown_finding["related"][0]["location"] == {"row": 2, "column": 1}
    assert shown_finding["fix"]["edits"][0]["cell"] == 3
    assert shown_finding["fix"]["edits"][0]["location"] == {"row": 2, "column": 1}


def test_an_edit_to_the_end_of_a_cell_ends_in_that_cell() -> None:
    text = NOTEBOOK.text
    finding = found(text, "import torch", applicability="safe", fix_title="Remove it")
    end = text.index("for x")
    fix = insertion(text.index("import torch"), "")
    removal = type(fix)("Remove it", "safe", (type(fix.edits[0])(text.index("import torch"), end, ""),))
    (shown_finding,) = objects(NOTEBOOK, finding, fixes=lambda _: (removal,))
    edit = shown_finding["fix"]["edits"][0]
    assert (edit["cell"], edit["location"]["row"], edit["end_location"]["row"]) == (2, 2, 3)


def test_it_is_ascii_whatever_the_text() -> None:
    finding = found(TEXT, "loss")
    object.__setattr__(finding, "message", "größe 日本 \ud800")
    assert shown("json", linted(TEXT, finding)).isascii()


@pytest.mark.parametrize("field", ["fix", "url", "cell", "related", "name"])
def test_the_schema_misses_a_missing_field(field: str) -> None:
    array = objects(TEXT, found(TEXT, "loss"))
    del array[0][field]
    with pytest.raises(ValidationError, match=field):
        Draft202012Validator(SCHEMA).validate(array)
