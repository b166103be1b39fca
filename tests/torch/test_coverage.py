"""Each fix that is called safe is run with torch, or it is said here why not."""

from __future__ import annotations

import pytest

from tests.torch.programs import FOLDER, pairs_of
from torchlint.rules import FixKind, all_rules

#: Rules with safe fixes that no program shows, and why.
NOT_RUN: dict[str, str] = {
    "torchvision-pretrained": "needs torchvision, and a download of weights",
}
SAFE = [rule.name for rule in all_rules() if rule.fix is FixKind.SAFE]


@pytest.mark.parametrize("rule", SAFE)
def test_safe_fix_is_run_or_excused(rule: str) -> None:
    path = FOLDER / f"{rule}.md"
    shown = path.is_file() and any(pair.mended.safe for pair in pairs_of(path))
    assert shown != (rule in NOT_RUN), f"tests/torch/{rule}.md has a program with a safe fix: {shown}"


def test_nothing_else_is_excused() -> None:
    assert NOT_RUN.keys() <= set(SAFE)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_programs_belong_to_a_rule(path: object) -> None:
    assert getattr(path, "stem", "") in {rule.name for rule in all_rules()}
