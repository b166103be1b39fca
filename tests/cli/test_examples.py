"""What `make demo` shows: mistakes in code that a PyTorch user knows as their own."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import Torchlint

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in {".py", ".ipynb"})
SCHEMA = json.loads((ROOT / "docs" / "json-schema.json").read_text("utf-8"))


def test_at_least_ten_rules_with_source_lines(torchlint: Torchlint) -> None:
    arguments = ["check", "--isolated", str(ROOT / "examples")]
    findings = json.loads(torchlint(*arguments, "--output-format", "json").out)
    Draft202012Validator(SCHEMA).validate(findings)
    assert len({finding["code"] for finding in findings}) >= 10
    shown = torchlint(*arguments)
    assert shown.status == 1
    assert shown.err == ""
    assert shown.out.count("^^^") >= len(findings) - 1
    assert shown.out.count(" = note: ") == len(findings)


def test_json_with_hints_fits_the_schema_too(torchlint: Torchlint) -> None:
    out = torchlint("check", "--isolated", "--select", "ALL", "--output-format", "json", str(ROOT / "examples")).out
    findings = json.loads(out)
    Draft202012Validator(SCHEMA).validate(findings)
    assert "hint" in {finding["severity"] for finding in findings}
    assert any(finding["related"] for finding in findings)
    assert {"safe", "unsafe"} == {finding["fix"]["applicability"] for finding in findings if finding["fix"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_several_mistakes(torchlint: Torchlint, path: Path) -> None:
    findings = json.loads(torchlint("check", "--isolated", "--output-format", "json", str(path)).out)
    assert len({finding["code"] for finding in findings}) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_fixed_examples_still_parse_and_have_fewer_mistakes(torchlint: Torchlint, path: Path) -> None:
    copy = Path(path.name)
    copy.write_bytes(path.read_bytes())
    before = json.loads(torchlint("check", "--isolated", "--output-format", "json", path.name).out)
    after = torchlint("check", "--isolated", "--fix", "--unsafe-fixes", "--output-format", "json", path.name)
    assert len(json.loads(after.out)) < len(before)
    if path.suffix == ".py":
        ast.parse(copy.read_text("utf-8"))
    else:
        assert json.loads(copy.read_text("utf-8"))["nbformat"] == 4


def test_the_readme_names_every_example() -> None:
    text = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert all(f"`{path.name}`" in text for path in EXAMPLES)
