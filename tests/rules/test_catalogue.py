"""What holds for every rule: its identity, its words, its file and its test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import torchlint.rules
from tests.harness.cases import Case, read_cases
from tests.harness.markdown import read_sections
from torchlint.linter import mentions_torch
from torchlint.rules import FAMILIES, FixKind, Rule, all_rules, find_rule

FOLDER = Path(__file__).parent
RULES_FOLDER = Path(torchlint.rules.__file__).parent
RULES = {rule.name: rule for rule in all_rules()}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def _cases(rule: type[Rule]) -> list[Case]:
    path = FOLDER / f"{rule.name}.md"
    assert path.is_file(), f"no tests/rules/{rule.name}.md"
    return read_cases(read_sections(path))


def test_there_are_rules() -> None:
    assert RULES


def test_codes_and_names_are_unique() -> None:
    names = Counter(word for rule in all_rules() for word in (rule.code, rule.name))
    assert [word for word, count in names.items() if count > 1] == []


def test_every_markdown_file_belongs_to_a_rule() -> None:
    assert [path.name for path in sorted(FOLDER.glob("*.md")) if path.stem not in RULES] == []


@every_rule
def test_is_found_by_code_and_name(rule: type[Rule]) -> None:
    assert find_rule(rule.code) is rule
    assert find_rule(rule.name) is rule


@every_rule
def test_identity_and_file_agree(rule: type[Rule]) -> None:
    assert re.fullmatch(r"TL\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    family, module = rule.__module__.split(".")[-2:]
    assert family == list(FAMILIES)[int(rule.code[2])]
    assert module == rule.name.replace("-", "_")


@every_rule
def test_summary_is_one_sentence(rule: type[Rule]) -> None:
    assert "\n" not in rule.summary
    assert 20 <= len(rule.summary) <= 120, f"{len(rule.summary)} characters"
    assert re.match(r"[A-Z`]", rule.summary)
    assert rule.summary.endswith(".")


@every_rule
def test_test_file_has_reported_and_silent_code(rule: type[Rule]) -> None:
    cases = _cases(rule)
    assert any(case.expects_findings for case in cases), "no block reports anything"
    assert any(not case.expects_findings for case in cases), "no block is silent"


@every_rule
def test_every_block_is_linted(rule: type[Rule]) -> None:
    """A program that does not mention torch is silent whatever the rule does, so that it shows nothing."""
    assert [case.id for case in _cases(rule) if not mentions_torch(case.text)] == []


@every_rule
def test_fix_kind_is_shown_by_the_tests(rule: type[Rule]) -> None:
    """A rule with a fix has a block that it changes; one whose fix is safe has one that a safe fix changes."""
    changes = [
        fixed for case in _cases(rule) for fixed in case.fixed if fixed.cells != tuple(cell.text for cell in case.cells)
    ]
    if rule.fix is FixKind.NONE:
        assert changes == [], "a rule without a fix cannot have fixed blocks"
    elif rule.fix is FixKind.SAFE:
        assert any(not fixed.unsafe for fixed in changes), "no `python fixed` block"
    else:
        assert any(fixed.unsafe for fixed in changes), "no `python fixed unsafe` block"


@every_rule
def test_messages_are_sentences_in_the_users_words(rule: type[Rule]) -> None:
    """Messages start like a sentence, end with a full stop, fit on a screen and never name the linter's own parts."""
    from tests.harness.checking import open_program

    found = [finding for case in _cases(rule) for finding in open_program(case, rule.name).analysis.findings]
    messages = {finding.message for finding in found} | {r.message for finding in found for r in finding.related}
    titles = {finding.fix_title for finding in found if finding.fix_title}
    for message in {finding.message for finding in found}:
        assert message.endswith((".", "?")), message
        assert not re.match(r"[a-z]", message), message
        assert len(message) <= 300, message
    for text in messages | titles:
        assert "\n" not in text, text
        assert text == text.strip(), text
        assert not re.search(r"\b(None|<ast|object at 0x|FixKind|Applicability)\b", _outside_code(text)), text
    for title in titles:
        assert not title.endswith("."), title
        assert re.match(r"[A-Z`]", title), title


def _outside_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "", text)


def _rule_files() -> list[Path]:
    return [path for path in sorted(RULES_FOLDER.glob("*/*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", _rule_files(), ids=lambda path: path.stem)
def test_no_rule_imports_another(path: Path) -> None:
    """What two rules share belongs to semantics, torch_api or fixes, behind a name."""
    modules = {
        f"torchlint.rules.{other.parent.name}.{other.stem}" for other in _rule_files() if not other.stem.startswith("_")
    }
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    assert sorted(imported & modules) == []
