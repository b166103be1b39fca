"""The page that a finding links to is a page of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.finding import Finding, Severity
from torchlint.rules import Rule, all_rules

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_finding_links_to_the_page_of_its_rule(rule: type[Rule]) -> None:
    finding = Finding(rule.code, rule.name, Severity.ERROR, "", 1, 1, 1, 2)
    _, _, path = finding.url.partition("/blob/main/")
    assert ROOT.joinpath(path).is_file()
