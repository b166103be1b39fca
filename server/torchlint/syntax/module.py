"""One version of a module: its groups and parts, where each starts, and what of the version before was kept."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from itertools import islice

from torchlint.frozen import dataclass
from torchlint.syntax.edited import Edit, edited_class
from torchlint.syntax.group import Group, Layout, differing
from torchlint.syntax.lexing import suspicious_strings
from torchlint.syntax.part import Part
from torchlint.syntax.reuse import Recent, Reusable
from torchlint.syntax.splitting import Earlier, split
from torchlint.syntax.whole import whole_layout

#: How many strings are tried for the one that was left open.
_MOST_STRINGS = 8
#: More rows than this that do not parse suggest a string that was left open somewhere above.
_SUSPICIOUS_ROWS = 20


@dataclass(frozen=True, eq=False)
class SyntaxModule:
    """The groups of one text in order; ``starts`` are their character offsets, ``rows`` their first rows from 0."""

    text: str
    groups: tuple[Group, ...]
    starts: tuple[int, ...]
    rows: tuple[int, ...]
    #: The offset of a string that was left open and is taken to end with its line; -1: none.
    closed: int = -1
    #: What edits have taken away lately.
    recent: Recent = Recent()
    _row_of_part: dict[Part, int] = field(default_factory=dict)

    @property
    def body(self) -> Iterator[ast.stmt]:
        """All top-level statements in order."""
        for group in self.groups:
            yield from group.body

    def row_of(self, part: Part) -> int:
        """The row of this version, from 0, at which a part starts; KeyError for a part of another version."""
        if not self._row_of_part:
            for group, first in zip(self.groups, self.rows, strict=True):
                for member, row in zip(group.parts, group.rows, strict=True):
                    self._row_of_part[member] = first + row
        return self._row_of_part[part]

    def problems(self) -> Iterator[tuple[int, str]]:
        """What does not parse: (row from 0, message)."""
        for group in self.groups:
            for source in group.sources:
                for row, message in source.problems:
                    yield self.row_of(source.part) + max(row, 0), message


def parse_module(text: str, previous: SyntaxModule | None = None, ends: tuple[int, ...] = ()) -> SyntaxModule:
    """Split and parse ``text``; groups and parts whose text is that of ``previous`` keep their trees.

    Without ``previous`` this is a cold parse. The result is the same in both cases but for the identity of nodes. No
    statement goes on over one of the character offsets ``ends``, in order: where a cell of a notebook ends.
    """
    if ends:
        kept = _pieces_of(previous) if previous is not None else Reusable()
        return _module(text, split(text, kept, ends=ends))
    module = _parse_once(text, previous)
    broken = _broken_rows(module)
    unpaired = broken and (text.count('"""') % 2 or text.count("'''") % 2)
    if unpaired or broken > _SUSPICIOUS_ROWS:
        return _with_string_closed(text, module)
    return module


def _with_string_closed(text: str, module: SyntaxModule) -> SyntaxModule:
    """The module with the string that was left open closed at the end of its line, if that makes more of it parse."""
    best, least = module, _broken_rows(module)
    for opening in islice(suspicious_strings(text), _MOST_STRINGS):
        layout = split(text, _pieces_of(module), closed=opening)
        candidate = SyntaxModule(text, layout.groups, layout.starts, layout.rows, opening, module.recent)
        broken = _broken_rows(candidate)
        if broken < least:
            best, least = candidate, broken
        if broken <= 1:
            break
    return best


def _broken_rows(module: SyntaxModule) -> int:
    return sum(len(part.broken_rows) for group in module.groups for part in group.parts)


def _parse_once(text: str, previous: SyntaxModule | None) -> SyntaxModule:
    if previous is None or not previous.groups:
        return _module(text, whole_layout(text) or split(text, Reusable()))
    if previous.closed >= 0:  # its cuts are not those of a text in which the string is closed
        return _module(text, split(text, _pieces_of(previous)), previous)
    kept = _common_prefix(previous.text, text)
    tail = _common_suffix(previous.text, text, kept)
    layout = _in_one_class(text, previous, kept, tail) or _from_change(text, previous, kept, tail)
    return _module(text, layout, previous)


def _module(text: str, layout: Layout, previous: SyntaxModule | None = None) -> SyntaxModule:
    recent = Recent()
    if previous is not None:
        recent = previous.recent.after(*differing(previous.groups, layout.groups))
    return SyntaxModule(text, layout.groups, layout.starts, layout.rows, -1, recent)


def _pieces_of(module: SyntaxModule) -> Reusable:
    """The parts of a version whose text was cut in another way."""
    reusable = Reusable()
    reusable.add_pieces(module.groups)
    return reusable


def _in_one_class(text: str, previous: SyntaxModule, kept: int, tail: int) -> Layout | None:
    """The version in which only members of one class have changed; None where that is not sure."""
    number = bisect_right(previous.starts, kept) - 1
    if number < 0:
        return None
    old, start, row = previous.groups[number], previous.starts[number], previous.rows[number]
    shift = len(text) - len(previous.text)
    edit = Edit(text, kept, len(previous.text) - tail, shift)
    new = edited_class(edit, old, start, row, previous.recent)
    if new is None:
        return None
    row_shift = new.row_count - old.row_count
    return Layout(
        (*previous.groups[:number], new, *previous.groups[number + 1 :]),
        (*previous.starts[: number + 1], *(start + shift for start in previous.starts[number + 1 :])),
        (*previous.rows[: number + 1], *(row + row_shift for row in previous.rows[number + 1 :])),
    )


def _from_change(text: str, previous: SyntaxModule, kept: int, tail: int) -> Layout:
    # The group in which the texts part may have grown out of the one before it (an `else:` typed below an `if`).
    first = max(bisect_right(previous.starts, kept) - 2, 0)
    old = Layout(previous.groups, previous.starts, previous.rows)
    reusable = Reusable()
    earlier = Earlier(old, first, len(previous.text) - tail, len(text) - len(previous.text))
    reusable.add(previous.groups[first : earlier.unchanged])
    reusable.add_recent(previous.recent)
    return split(text, reusable, earlier)


def _common_prefix(old: str, new: str) -> int:
    """Length of what two texts share at the start, by halving (slices compare at memory speed)."""
    low, high = 0, min(len(old), len(new))
    if old[:high] == new[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: str, new: str, prefix: int) -> int:
    """Length of what two texts share at the end, not counting the shared start."""
    low, high = 0, min(len(old), len(new)) - prefix
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle :] == new[len(new) - middle :]:
            low = middle
        else:
            high = middle - 1
    return low
