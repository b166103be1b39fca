"""The documentation of each rule, and that its examples say the truth."""

from __future__ import annotations

import ast
import difflib
import re

import pytest

from tests.harness.analysis import Program, fix_until_done, notebook_of, program_of
from tests.harness.documentation import KNOWN_HEADINGS, REQUIRED_HEADINGS, RuleDocumentation, read_documentation
from tests.harness.markdown import Block
from torchlint.rules import FixKind, Rule, all_rules

RULES = {rule.name: rule for rule in all_rules()}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)

#: Info words of the block below "Use instead": compare trees, not text (the fix lays the code out differently), and:
#: the correction goes further than the fix, which the prose has to say.
SAME_TREE, BY_HAND = "ast", "by-hand"


def _program(rule: type[Rule], block: Block) -> Program:
    if "notebook" in block.words:
        return notebook_of([block.text], "example.ipynb", {"select": [rule.name]})
    settings: dict[str, object] = {"select": [rule.name]}
    if "torch" in block.options:
        settings["torch-version"] = block.options["torch"]
    return program_of(block.text, block.options.get("title", "example.py"), settings)


def _blocks(rule: type[Rule]) -> tuple[RuleDocumentation, Block, Block]:
    documentation = read_documentation(rule.documentation())
    assert documentation.example is not None, "no Python block below '## Example'"
    assert documentation.use_instead is not None, "no Python block below '## Use instead'"
    return documentation, documentation.example, documentation.use_instead


@every_rule
def test_headings_stand_in_order(rule: type[Rule]) -> None:
    headings = read_documentation(rule.documentation()).headings
    unknown = [heading for heading in headings if heading not in KNOWN_HEADINGS]
    assert not unknown, f"unknown headings: {unknown}; known are {KNOWN_HEADINGS}"
    assert list(headings) == [heading for heading in KNOWN_HEADINGS if heading in headings], "out of order"
    assert set(REQUIRED_HEADINGS) <= set(headings), f"missing: {sorted(set(REQUIRED_HEADINGS) - set(headings))}"


@every_rule
def test_example_is_reported(rule: type[Rule]) -> None:
    _, example, _ = _blocks(rule)
    assert rule.name in {finding.name for finding in _program(rule, example).analysis.findings}


@every_rule
def test_correction_is_not_reported(rule: type[Rule]) -> None:
    _, _, instead = _blocks(rule)
    assert [finding.message for finding in _program(rule, instead).analysis.findings] == []


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES.values() if rule.fix is not FixKind.NONE], ids=lambda r: r.name
)
def test_fix_turns_the_example_into_the_correction(rule: type[Rule]) -> None:
    documentation, example, instead = _blocks(rule)
    program = _program(rule, example)
    fixed, failures = fix_until_done(program, unsafe=True, title=instead.options.get("fix"))
    assert failures == []
    assert fixed.document.text != example.text, "no fix is offered for the example"
    if BY_HAND in instead.words:
        prose = documentation.prose.get("Fix", "") + documentation.prose["Use instead"].split("```")[0]
        assert re.search(r"\bfix\b", prose), "a correction that is not the fix's has to say what the fix does"
        return
    want, got = instead.text, fixed.document.text
    if SAME_TREE in instead.words:
        want, got = (ast.unparse(ast.parse(text)) + "\n" for text in (want, got))
    assert want == got, "\n" + "\n".join(
        difflib.unified_diff(want.split("\n"), got.split("\n"), "docs", "fix", lineterm="")
    )
