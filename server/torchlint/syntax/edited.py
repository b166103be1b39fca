"""A version in which members of one class were edited: the lines around the edit are looked at, not those of the class.

What is not sure here (the class may end elsewhere, its first member changed) is left to ``module.py``, whose cuts these
are.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from torchlint.frozen import dataclass
from torchlint.syntax.group import Group
from torchlint.syntax.lexing import CLAUSES, LogicalLine, count_rows, logical_lines, with_comments_above
from torchlint.syntax.reuse import Recent, Reusable


@dataclass(frozen=True, eq=False)
class Edit:
    """What of a group is as it was: offsets in the old text and in the new one are the same before ``kept``, and
    ``shift`` apart from the old offset ``resumed`` on."""

    text: str
    kept: int
    resumed: int
    shift: int


#: Offset and row in the new text at which a member begins, with the comments right above it.
_Cut = tuple[int, int]


def edited_class(edit: Edit, group: Group, start: int, row: int, recent: Recent) -> Group | None:
    """The group, which begins at the offset ``start`` and the row ``row`` of both texts, after the edit.

    None if it may be cut in another way, or end elsewhere.
    """
    sources = group.sources
    starts = list(accumulate((len(source.text) for source in sources), initial=start))
    first = bisect_right(starts, edit.kept) - 1
    if first < 1 or group.parts[0].kind != "header" or edit.resumed > starts[-1]:
        return None
    line = next(logical_lines(edit.text, starts[first]), None)
    if line is None or line.end > edit.kept:
        first -= 1  # what was typed may go on with the member before
    if first < 1 or first == len(sources):
        return None
    indent = next(logical_lines(edit.text, starts[1])).indent
    found = _cuts(edit, starts, first, row + group.rows[first], indent)
    if found is None:
        return None
    (*cuts, (end, end_row)), last = found
    header = group.parts[0]
    reusable = Reusable()
    reusable.add_members(group, first, last)
    reusable.add_recent(recent)
    ends = [*(offset for offset, _ in cuts[1:]), end]
    pieces = (edit.text[offset:until] for (offset, _), until in zip(cuts, ends, strict=True))
    new = (*sources[:first], *(reusable.source(piece, "member", header) for piece in pieces), *sources[last:])
    moved = end_row - row - (*group.rows, group.row_count)[last]
    return Group(
        edit.text[start : starts[-1] + edit.shift],
        new,
        (*group.rows[:first], *(at - row for _, at in cuts), *(at + moved for at in group.rows[last:])),
        reusable.trees(new),
        group.row_count + moved,
    )


def _cuts(edit: Edit, starts: list[int], first: int, row: int, indent: int) -> tuple[list[_Cut], int] | None:
    """Where members begin, from the member ``first`` on until an old one does, and the number of that one.

    Its own cut is the last. Where no old one is met that is the end of the class, and the number is that of members.
    """
    text, end, count = edit.text, starts[-1] + edit.shift, len(starts) - 1
    known = {at + edit.shift: number for number, at in enumerate(starts) if number > first and at >= edit.resumed}
    cuts = [(starts[first], row)]
    previous: LogicalLine | None = None
    for line in logical_lines(text, starts[first], row):
        if line.start >= end:
            if previous is None or line.indent or line.word in CLAUSES or previous.word == "@":
                return None
            cut = with_comments_above(text, line.start, line.row, previous.end)
            return ([*cuts, cut], count) if cut[0] == end else None
        if line.indent < indent or line.end > end:
            return None
        begins = line.indent == indent and line.word not in CLAUSES
        if previous is not None and begins and (previous.word != "@" or previous.indent != indent):
            cut = with_comments_above(text, line.start, line.row, previous.end)
            if cut[0] in known:
                return [*cuts, cut], known[cut[0]]
            cuts.append(cut)
        previous = line
    if end < len(text):
        return None
    offset, row = cuts[-1]
    return [*cuts, (end, row + count_rows(text, offset, end))], count
