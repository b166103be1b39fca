"""`torchlint rule` and `torchlint rules`."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Torchlint
from torchlint.rules import all_rules, find_rule


@pytest.mark.parametrize("name", ["TL901", "tl901", "unsafe-load", "Unsafe-Load"])
def test_a_rule_by_code_or_name(torchlint: Torchlint, name: str) -> None:
    result = torchlint("rule", name)
    assert result.status == 0
    assert result.out.startswith("unsafe-load (TL901)\n  ")
    assert "  Level: warning. Fix: unsafe.\n" in result.out


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_the_page_of_every_rule_is_plain_text_in_a_pipe(torchlint: Torchlint, rule: object) -> None:
    out = torchlint("rule", rule.code).out  # type: ignore[attr-defined]
    lines = out.splitlines()
    for title in ("What it does", "Why is this bad?", "Example"):
        assert title in lines
    assert not any(line.lstrip().startswith(("```", "##")) for line in lines)
    assert "](" not in out.replace("[i](", "")
    assert "\x1b" not in out


def test_code_is_indented_and_complete(torchlint: Torchlint) -> None:
    rule = find_rule("TL901")
    assert rule is not None
    code = rule.documentation().split("```python\n")[1].split("```")[0]
    indented = "".join(f"      {line}\n" if line else "\n" for line in code.splitlines())
    assert indented in torchlint("rule", "TL901").out


def test_colour_changes_nothing_but_colour(torchlint: Torchlint) -> None:
    import re

    plain = torchlint("rule", "TL901").out
    colored = torchlint("rule", "TL901", "--color", "always").out
    assert colored != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_an_unknown_rule_is_an_error_with_a_suggestion(torchlint: Torchlint) -> None:
    result = torchlint("rule", "unsafe-lod")
    assert result.status == 2
    assert "there is no rule `unsafe-lod`. Did you mean `unsafe-load`?" in result.err
    assert re.search("Did you mean `TL9[01][0-9]`[?]", torchlint("rule", "tl90l").err)
    assert "`torchlint rules` lists all of them" in torchlint("rule", "zzz").err


def test_a_family_is_listed_by_the_beginning_of_its_codes(torchlint: Torchlint) -> None:
    lines = torchlint("rules", "tl7").out.splitlines()
    assert len(lines) == 1 + sum(rule.code.startswith("TL7") for rule in all_rules())
    assert all(line.startswith("TL7") for line in lines[1:])
    assert "`TL7` is a family of" in torchlint("rule", "TL7").err
    assert torchlint("rules", "XY").status == 2


def test_the_table_has_every_rule(torchlint: Torchlint) -> None:
    head, *rows = torchlint("rules").out.splitlines()
    assert head.split() == ["code", "name", "level", "fix", "what", "it", "reports"]
    assert [row.split()[:4] for row in rows] == [
        [rule.code, rule.name, rule.level.value, rule.fix.value] for rule in all_rules()
    ]
    assert all(row.endswith(rule.summary) for row, rule in zip(rows, all_rules(), strict=True))


def test_rules_as_json(torchlint: Torchlint) -> None:
    rules = json.loads(torchlint("rules", "--output-format", "json").out)
    assert [rule["code"] for rule in rules] == [rule.code for rule in all_rules()]
    load = next(rule for rule in rules if rule["code"] == "TL901")
    assert load == json.loads(torchlint("rule", "TL901", "--output-format", "json").out)
    assert set(load) == {"code", "name", "level", "fix", "summary", "documentation"}
    assert load["documentation"].startswith("## What it does")
