"""Fixes keep what a program computes, or make right what it got wrong: both texts are run with torch."""

from __future__ import annotations

import pytest

from tests.torch.programs import Pair, all_pairs
from tests.torch.running import differences, run

PAIRS = all_pairs()


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair.rule}: {pair.id}" for pair in PAIRS])
def test_fixed_program_computes_what_it_should(pair: Pair) -> None:
    failures = _failures(pair)
    if failures:
        place = f"tests/torch/{pair.rule}.md:{pair.row}: {pair.id}"
        pytest.fail("\n".join((place, *failures, "", "-- after the fix", pair.mended.text)), pytrace=False)


def _failures(pair: Pair) -> list[str]:
    mended = pair.mended
    if not mended.applied:
        return ["the rule reports nothing that it can mend"]
    if mended.left:
        return [f"{mended.left} findings are left without a fix: they belong in a program of their own"]
    before, after = run(pair.text), run(mended.text)
    if after.error is not None:
        return [f"the mended program raises {after.error!r}"]
    if pair.quiet and (not before.warnings or after.warnings):
        return [f"warnings before: {before.warnings}; after: {after.warnings}"]
    if pair.judgement == "mended":
        if before.error is None:
            return ["the program raises nothing"]
        if pair.raises is not None and type(before.error).__name__ != pair.raises:
            return [f"the program raises {before.error!r}"]
        return []
    if before.error is not None:
        return [f"the program raises {before.error!r}"]
    if mended.safe and pair.judgement != "equal":
        return ["the fix is called safe: the results have to be equal"]
    return differences(before.result, after.result, exact=pair.judgement == "equal")
