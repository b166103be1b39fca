"""One version of a module: its groups and parts, where each starts, and what of the version before was kept."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice

from torchlint.frozen import dataclass
from torchlint.syntax.edited import Edit, edited_class
from torchlint.syntax.group import Group, assembled
from torchlint.syntax.lexing import (
    CLAUSES,
    LogicalLine,
    count_rows,
    logical_lines,
    suspicious_strings,
    with_comments_above,
)
from torchlint.syntax.part import Part, PartKind, parse_class_header, parse_member, parse_statement
from torchlint.syntax.whole import whole_groups

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
            for part in group.parts:
                for row, message in part.problems:
                    yield self.row_of(part) + max(row, 0), message


def parse_module(text: str, previous: SyntaxModule | None = None, ends: tuple[int, ...] = ()) -> SyntaxModule:
    """Split and parse ``text``; groups and parts whose text is that of ``previous`` keep their trees.

    Without ``previous`` this is a cold parse. The result is the same in both cases but for the identity of nodes. No
    statement goes on over one of the character offsets ``ends``, in order: where a cell of a notebook ends.
    """
    if ends:
        kept = previous.groups if previous is not None else ()
        return _module(text, [], [], [], None, 0, kept, ends=ends)
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
        candidate = _module(text, [], [], [], None, 0, module.groups, opening)
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
        found = whole_groups(text)
        if found is not None:
            groups, starts, rows = found
            return SyntaxModule(text, tuple(groups), tuple(starts), tuple(rows))
        return _module(text, [], [], [], None, 0)
    if previous.closed >= 0:  # its cuts are not those of a text in which the string is closed
        return _module(text, [], [], [], None, 0, previous.groups)
    kept = _common_prefix(previous.text, text)
    tail = _common_suffix(previous.text, text, kept)
    return _in_one_class(text, previous, kept, tail) or _from_change(text, previous, kept, tail)


def _in_one_class(text: str, previous: SyntaxModule, kept: int, tail: int) -> SyntaxModule | None:
    """The version in which only members of one class have changed; None where that is not sure."""
    number = bisect_right(previous.starts, kept) - 1
    if number < 0:
        return None
    old, start, row = previous.groups[number], previous.starts[number], previous.rows[number]
    shift = len(text) - len(previous.text)
    new = edited_class(Edit(text, kept, len(previous.text) - tail, shift), old, start, row)
    if new is None:
        return None
    row_shift = new.row_count - old.row_count
    return SyntaxModule(
        text,
        (*previous.groups[:number], new, *previous.groups[number + 1 :]),
        (*previous.starts[: number + 1], *(start + shift for start in previous.starts[number + 1 :])),
        (*previous.rows[: number + 1], *(row + row_shift for row in previous.rows[number + 1 :])),
    )


def _from_change(text: str, previous: SyntaxModule, kept: int, tail: int) -> SyntaxModule:
    # The group in which the texts part may have grown out of the one before it (an `else:` typed below an `if`).
    first = max(bisect_right(previous.starts, kept) - 2, 0)
    groups = list(previous.groups[:first])
    starts = list(previous.starts[:first])
    rows = list(previous.rows[:first])
    return _module(text, groups, starts, rows, previous, tail)


def _module(
    text: str,
    groups: list[Group],
    starts: list[int],
    rows: list[int],
    previous: SyntaxModule | None,
    tail: int,
    reused: tuple[Group, ...] = (),
    closed: int = -1,
    ends: tuple[int, ...] = (),
) -> SyntaxModule:
    if previous is None:
        position, row = 0, 0
        # Where a string is taken to be closed the same text is cut in another way: only parts can be kept.
        reusable = _Reusable(reused, parts_only=True)
        old_index: dict[int, int] = {}
    else:
        first = len(groups)
        position, row = previous.starts[first], previous.rows[first]
        reusable = _Reusable(previous.groups[first:])
        shift = len(text) - len(previous.text)
        unchanged_from = len(previous.text) - tail
        old_index = {
            start + shift: index
            for index, start in enumerate(previous.starts)
            if index > first and start >= unchanged_from
        }
        if first == 0:  # text may have been put before the first statement
            position, row = 0, 0
    pending: list[LogicalLine] = []
    begin = (position, row)
    for line in logical_lines(text, position, row, closed, ends):
        starts_statement = _starts_statement(line, pending)
        index = None
        if starts_statement:
            place = with_comments_above(text, line.start, line.row, pending[-1].end if pending else position, ends)
            if pending:
                _append(text, groups, starts, rows, begin, pending, place[0], reusable)
                pending = []
            begin = place
            index = old_index.get(begin[0])
        if index is not None and previous is not None and reusable.has_all(previous.groups[index:]):
            row_shift = begin[1] - previous.rows[index]
            shift = len(text) - len(previous.text)
            groups.extend(previous.groups[index:])
            starts.extend(start + shift for start in previous.starts[index:])
            rows.extend(old_row + row_shift for old_row in previous.rows[index:])
            return SyntaxModule(text, tuple(groups), tuple(starts), tuple(rows))
        pending.append(line)
    if pending:
        _append(text, groups, starts, rows, begin, pending, len(text), reusable)
    return SyntaxModule(text, tuple(groups), tuple(starts), tuple(rows), closed)


def _starts_statement(line: LogicalLine, pending: list[LogicalLine]) -> bool:
    """A line at the left margin starts a statement, unless it is a further clause or what a decorator decorates."""
    if line.indent:
        return not pending
    if not pending:
        return True
    return line.word not in CLAUSES and pending[-1].word != "@"


def _append(
    text: str,
    groups: list[Group],
    starts: list[int],
    rows: list[int],
    begin: tuple[int, int],
    lines: list[LogicalLine],
    end: int,
    reusable: _Reusable,
) -> None:
    start, row = begin
    group_text = text[start:end]
    group = reusable.group(group_text)
    if group is None:
        group = _class_group(group_text, begin, lines, reusable) or _statement_group(group_text, reusable)
    groups.append(group)
    starts.append(start)
    rows.append(row)


def _statement_group(text: str, reusable: _Reusable) -> Group:
    part = reusable.part(text, "statement", parse_statement)
    return Group(text, (part,), (0,), part.body, count_rows(text, 0, len(text)))


def _class_group(text: str, begin: tuple[int, int], lines: list[LogicalLine], reusable: _Reusable) -> Group | None:
    """A class cut into header and members; None where the statement is no class or is not laid out as usual."""
    header = next((index for index, line in enumerate(lines) if line.word != "@"), None)
    if header is None or lines[header].word != "class" or header + 1 >= len(lines):
        return None
    indent = lines[header + 1].indent
    members = lines[header + 1 :]
    if indent == 0 or any(line.indent < indent for line in members):
        return None
    origin, first_row = begin
    cuts: list[tuple[int, int]] = []
    previous = lines[header]
    for line in members:
        starts = line.indent == indent and line.word not in CLAUSES
        if starts and (previous.word != "@" or previous.indent != indent):
            start, row = line.start - origin, line.row - first_row
            cuts.append(with_comments_above(text, start, row, previous.end - origin))
        previous = line
    if not cuts:  # only an `else:` or the like, without what it belongs to
        return None
    head = reusable.part(text[: cuts[0][0]], "header", parse_class_header)
    if len(head.body) != 1 or not isinstance(head.body[0], ast.ClassDef):
        return None
    parts, rows = [head], [0]
    body: list[ast.stmt] = []
    ends = [*(start for start, _ in cuts[1:]), len(text)]
    for (start, row), end in zip(cuts, ends, strict=True):
        part = reusable.part(text[start:end], "member", parse_member, head)
        parts.append(part)
        rows.append(row)
        body.extend(part.body)
    return Group(text, tuple(parts), tuple(rows), (assembled(head.body[0], body),), count_rows(text, 0, len(text)))


class _Reusable:
    """Groups and parts of the version before, by their text; each is given out once, so that nodes stay unique."""

    def __init__(self, groups: tuple[Group, ...], parts_only: bool = False) -> None:
        self._groups: dict[str, list[Group]] = {}
        #: By the header of their class, too: what holds a node is asked without telling the memo, so a method must not
        #: get into another class, nor below other bases.
        self._parts: dict[tuple[Part | None, str], list[Part]] = {}
        for group in reversed(groups):
            if not parts_only:
                self._groups.setdefault(group.text, []).append(group)
            for part in reversed(group.parts):
                header = group.parts[0] if part.kind == "member" else None
                self._parts.setdefault((header, part.text), []).append(part)
        self._used: set[Part] = set()

    def group(self, text: str) -> Group | None:
        candidates = self._groups.get(text)
        while candidates:
            group = candidates.pop()
            if not self._used.intersection(group.parts):
                self._used.update(group.parts)
                return group
        return None

    def has_all(self, groups: tuple[Group, ...]) -> bool:
        """Whether none of these has been given out."""
        return not self._used or all(self._used.isdisjoint(group.parts) for group in groups)

    def part(self, text: str, kind: PartKind, parse: Callable[[str], Part], header: Part | None = None) -> Part:
        candidates = self._parts.get((header, text))
        while candidates:
            part = candidates.pop()
            if part not in self._used and part.kind == kind:
                self._used.add(part)
                return part
        return parse(text)


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
