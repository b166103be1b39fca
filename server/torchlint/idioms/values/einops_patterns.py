"""The patterns of einops 0.8, read as einops reads them: what is wrong with one, in words, before it is run."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from torchlint.frozen import dataclass

_ELLIPSIS = "..."


class _Malformed(Exception):
    """A side of a pattern that einops cannot read; the argument says why."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a pattern: its axes in order, those in brackets as one group. Numbers above one keep a place each."""

    groups: tuple[tuple[str, ...], ...]
    ellipsis_in_brackets: bool

    @property
    def names(self) -> frozenset[str]:
        return frozenset(axis for group in self.groups for axis in group if not axis.isdecimal())

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(axis for group in self.groups for axis in group if axis.isdecimal())

    @property
    def has_ellipsis(self) -> bool:
        return _ELLIPSIS in self.names


def groups_of_axes(pattern: str) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]] | None:
    """The axes before and after ``->`` in order, those in brackets as one group (of the first tensor, where there are
    several); None for a pattern that einops cannot read."""
    before, arrow, after = pattern.partition("->")
    try:
        return (_side(before.split(",")[0]).groups, _side(after).groups) if arrow else None
    except _Malformed:
        return None


def fault_in_transform(operation: str, pattern: str, sized: Collection[str] | None, rank: int | None) -> str | None:
    """What is wrong with a pattern of ``rearrange``, ``reduce`` or ``repeat``; None if nothing is.

    ``sized`` are the axes that the call gives sizes for (None where that is not known), ``rank`` how many axes the
    tensor has.
    """
    sides = pattern.split("->")
    if len(sides) != 2:
        return "it needs one `->`" if len(sides) < 2 else "it has more than one `->`"
    try:
        left, right = (_side(side) for side in sides)
    except _Malformed as fault:
        return str(fault)
    return (
        _fault_between(operation, left, right, sized)
        or (_fault_in_sizes(left, right, sized) if sized is not None else None)
        or (_fault_in_rank(left, rank) if rank is not None else None)
    )


def fault_in_shape(pattern: str, rank: int | None) -> str | None:
    """What is wrong with a pattern of ``parse_shape``."""
    try:
        side = _side(pattern, placeholders=True)
    except _Malformed as fault:
        return str(fault)
    if any(len(group) > 1 for group in side.groups):
        return "`parse_shape` takes no groups of axes"
    return _fault_in_rank(side, rank) if rank is not None else None


def fault_in_einsum(pattern: str, tensors: int | None) -> str | None:
    """What is wrong with a pattern of ``einsum`` for a number of tensors."""
    sides = pattern.split("->")
    if len(sides) != 2:
        return "it needs one `->`" if len(sides) < 2 else "it has more than one `->`"
    inputs = sides[0].split(",")
    try:
        left = [_side(item, duplicates=True) for item in inputs]
        right = _side(sides[1])
    except _Malformed as fault:
        return str(fault)
    for side in (*left, right):
        if any(len(group) != 1 for group in side.groups):
            return "`einsum` takes neither groups nor axes of length one"
        if side.numbers:
            return f"`einsum` takes no number such as `{side.numbers[0]}`"
    unknown = sorted(right.names - {_ELLIPSIS} - frozenset(itertools.chain(*(side.names for side in left))))
    if unknown:
        return f"{_listed(unknown)} on the right side only"
    if tensors is not None and tensors != len(inputs):
        return f"it is for {_counted(len(inputs), 'tensor')}, and {tensors} {'is' if tensors == 1 else 'are'} given"
    return None


def fault_in_packing(pattern: str) -> str | None:
    """What is wrong with a pattern of ``pack`` or ``unpack``."""
    axes = pattern.split()
    twice = next((axis for axis in axes if axes.count(axis) > 1), None)
    if twice is not None:
        return f"`{twice}` stands twice"
    if "*" not in axes:
        return "it needs a `*` for the axes that are packed"
    wrong = next((axis for axis in axes if axis != "*" and not _is_name(axis)), None)
    return None if wrong is None else f"`{wrong}` is no name of an axis"


# -- reading --------------------------------------------------------------------------------------------------------


def _side(text: str, *, placeholders: bool = False, duplicates: bool = False) -> _Side:
    if "." in text and (text.count(_ELLIPSIS) != 1 or text.count(".") != 3):
        raise _Malformed("dots are only allowed as one ellipsis (`...`)")
    groups: list[tuple[str, ...]] = []
    group: list[str] | None = None
    seen: set[str] = set()
    in_brackets = False
    for token in _tokens(text):
        if token == "(":
            if group is not None:
                raise _Malformed("brackets cannot stand in brackets")
            group = []
        elif token == ")":
            if group is None:
                raise _Malformed("a bracket is closed that was never opened")
            groups.append(tuple(group))
            group = None
        elif token.isdecimal() and int(token) == 1:
            if group is None:
                groups.append(())
        else:
            _check_axis(token, seen, placeholders, duplicates)
            in_brackets = in_brackets or (token == _ELLIPSIS and group is not None)
            if group is None:
                groups.append((token,))
            else:
                group.append(token)
    if group is not None:
        raise _Malformed("a bracket is never closed")
    return _Side(tuple(groups), in_brackets)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    word = ""
    for character in text.replace(_ELLIPSIS, "…"):
        if character.isalnum() or character in "_…":
            word += character
            continue
        if character not in "() ":
            raise _Malformed(f"`{character}` has no meaning in it" if character.isprintable() else "it has line breaks")
        tokens += [word] if word else []
        word = ""
        tokens += [character] if character != " " else []
    tokens += [word] if word else []
    return [_ELLIPSIS if token == "…" else token for token in tokens]


def _check_axis(token: str, seen: set[str], placeholders: bool, duplicates: bool) -> None:
    if token.isdecimal():
        if int(token) < 1:
            raise _Malformed(f"no axis has length {token}")
        return
    if token != _ELLIPSIS and not _is_name(token) and not (placeholders and token == "_"):
        raise _Malformed(f"`{token}` is no name of an axis")
    if token in seen and not duplicates and not (placeholders and token == "_"):
        raise _Malformed(f"`{token}` stands twice on one side")
    seen.add(token)


def _is_name(token: str) -> bool:
    return token.isidentifier() and token[0] != "_" and token[-1] != "_"


# -- both sides together --------------------------------------------------------------------------------------------


def _fault_between(operation: str, left: _Side, right: _Side, sized: Collection[str] | None) -> str | None:
    if right.has_ellipsis and not left.has_ellipsis:
        return "the ellipsis stands on the right side only"
    if left.ellipsis_in_brackets:
        return "the ellipsis cannot stand in brackets on the left side"
    lost, new = sorted(left.names - right.names), sorted(right.names - left.names)
    if operation == "rearrange":
        numbers = (*left.numbers, *right.numbers)
        if numbers:
            return f"`rearrange` takes no number but 1, and here is {numbers[0]}"
        if lost:
            return f"{_listed(lost)} on the left side only, and `rearrange` drops no axis"
        return f"{_listed(new)} on the right side only, and `rearrange` makes no axis" if new else None
    if operation == "repeat":
        if lost or left.numbers:
            return f"{_listed(lost or list(left.numbers))} on the left side only, and `repeat` drops no axis"
        missing = [axis for axis in new if sized is not None and axis not in sized]
        return f"no size is given for the new {_axes(missing)}" if missing else None
    if new or right.numbers:
        return f"{_listed(new or list(right.numbers))} on the right side only, and `reduce` makes no axis"
    return None


def _fault_in_sizes(left: _Side, right: _Side, sized: Collection[str]) -> str | None:
    unused = sorted(axis for axis in sized if axis not in left.names | right.names)
    if unused:
        return f"a size is given for {_axes(unused)}, which {'is' if len(unused) == 1 else 'are'} not in it"
    for group in left.groups:
        unknown = [axis for axis in group if not axis.isdecimal() and axis not in sized and axis != _ELLIPSIS]
        if len(unknown) > 1:
            return f"of the axes in `({' '.join(group)})` only one can be without a size"
    return None


def _fault_in_rank(left: _Side, rank: int) -> str | None:
    count = len(left.groups)
    if left.has_ellipsis:
        return f"it needs {count - 1} axes or more, and the tensor has {rank}" if rank < count - 1 else None
    return f"it is for {_counted(count, 'axis')}, and the tensor has {rank}" if rank != count else None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun if count == 1 else {'axis': 'axes'}.get(noun, noun + 's')}"


def _axes(names: Sequence[str]) -> str:
    return f"{'axis' if len(names) == 1 else 'axes'} {', '.join(f'`{name}`' for name in names)}"


def _listed(names: Sequence[str]) -> str:
    written = ["the ellipsis" if name == _ELLIPSIS else f"`{name}`" for name in names]
    return f"{', '.join(written)} {'stands' if len(names) == 1 else 'stand'}"
