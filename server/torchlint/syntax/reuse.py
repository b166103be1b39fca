"""What of the versions before can be used again in this one: each part once, so that nodes stay unique."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, islice
from typing import TypeVar

from torchlint.frozen import dataclass
from torchlint.syntax.group import Group, Trees, trees_of
from torchlint.syntax.part import Part, PartKind, Source, parse_part

_T = TypeVar("_T")
#: How many of the parts that edits took away are kept of each sort: of those that did not parse more comes back, for
#: typing breaks the syntax and heals it.
_MOST_BROKEN, _MOST_OTHERS = 6, 3
#: A source with the header of its class, if it is a member: what holds a node is asked without telling the memo, so a
#: method must not get into another class, nor below other bases.
_Placed = tuple["Part | None", Source]


@dataclass(frozen=True, eq=False)
class Recent:
    """What edits have taken away lately, the latest first."""

    sources: tuple[_Placed, ...] = ()
    trees: tuple[Trees, ...] = ()

    def after(self, old: Sequence[Group], new: Sequence[Group]) -> Recent:
        """The same after an edit that put some groups in the place of others."""
        kept = {part for group in new for part in group.parts}
        dropped = (one for group in old for one in _placed(group))
        sources = {one[1].part: one for one in (*dropped, *self.sources) if one[1].part not in kept}
        present = {group.trees for group in new}
        trees = [one for one in (*(group.trees for group in old), *self.trees) if one not in present]
        return Recent(
            _latest(list(sources.values()), [bool(part.broken_rows) for part in sources]),
            _latest(trees, [any(part.broken_rows for part in one.parts) for one in trees]),
        )


def _latest(found: Sequence[_T], broken: Sequence[bool]) -> tuple[_T, ...]:
    """The first of each sort, each sort in order."""
    others = (one for one, is_broken in zip(found, broken, strict=True) if not is_broken)
    return (*islice(compress(found, broken), _MOST_BROKEN), *islice(others, _MOST_OTHERS))


def _placed(group: Group) -> list[_Placed]:
    """The sources of a group with their header."""
    header = group.parts[0]
    return [(header if source.part.kind == "member" else None, source) for source in group.sources]


class Reusable:
    """Groups, sources, trees and parts of versions before, by their texts: what was added first is given out first."""

    def __init__(self) -> None:
        self._groups: dict[str, list[Group]] = {}
        self._sources: dict[tuple[Part | None, str], list[Source]] = {}
        #: Parts of which something did not parse, by what was left.
        self._broken: dict[tuple[Part | None, str, frozenset[int]], list[Part]] = {}
        self._trees: dict[tuple[Part, ...], Trees] = {}
        self._used: set[Part] = set()

    def add(self, groups: Sequence[Group]) -> None:
        """Give out these groups, and what they are made of."""
        for group in groups:
            self._groups.setdefault(group.text, []).append(group)
        self.add_pieces(groups)

    def add_pieces(self, groups: Sequence[Group]) -> None:
        """Give out what these groups are made of."""
        for group in groups:
            self._trees[group.parts] = group.trees
            self._add_sources(_placed(group))

    def add_members(self, group: Group, first: int, last: int) -> None:
        """Give out the trees of a class and some of its members."""
        self._trees[group.parts] = group.trees
        self._add_sources((group.parts[0], source) for source in group.sources[first:last])

    def add_recent(self, recent: Recent) -> None:
        """Give out what edits have taken away."""
        self._trees.update((trees.parts, trees) for trees in recent.trees)
        self._add_sources(recent.sources)

    def _add_sources(self, sources: Iterable[_Placed]) -> None:
        for header, source in sources:
            self._sources.setdefault((header, source.text), []).append(source)
            part = source.part
            if part.broken_rows:
                self._broken.setdefault((header, part.text, part.broken_rows), []).append(part)

    def group(self, text: str) -> Group | None:
        """A group with this text."""
        candidates = self._groups.get(text)
        while candidates:
            group = candidates.pop(0)
            if self._used.isdisjoint(group.parts):
                self._used.update(group.parts)
                return group
        return None

    def has_all(self, groups: Sequence[Group]) -> bool:
        """Whether none of these has been given out."""
        return not self._used or all(self._used.isdisjoint(group.parts) for group in groups)

    def source(self, text: str, kind: PartKind, header: Part | None = None) -> Source:
        """The source with this text, parsed if need be."""
        candidates = self._sources.get((header, text))
        while candidates:
            source = candidates.pop(0)
            if self._is_free(source.part, kind):
                return source

        def known(left: str, rows: frozenset[int]) -> Part | None:
            found = self._broken.get((header, left, rows), ())
            return next((part for part in found if self._is_free(part, kind)), None)

        return parse_part(text, kind, known)

    def trees(self, sources: tuple[Source, ...]) -> Trees:
        """The trees that these sources make: of the statement, or of the class whose header is the first of them."""
        parts = tuple(source.part for source in sources)
        return self._trees.get(parts) or trees_of(parts)

    def _is_free(self, part: Part, kind: PartKind) -> bool:
        """Whether a part can be given out, which it is from here on."""
        if part in self._used or part.kind != kind:
            return False
        self._used.add(part)
        return True
