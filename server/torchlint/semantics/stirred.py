"""Which answers about a file an edit can have changed: those of all other questions stay as they are, unasked.

A question (a read of the memo) is about one or more topics. What the groups that an edit took away and those that it
put in their place say alike does not stir a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from torchlint.semantics.group_facts import GroupFacts, facts_of
from torchlint.semantics.index import attributes_read, attributes_written, index_of, keywords_passed, names_read
from torchlint.semantics.memo import Read
from torchlint.syntax import Part, Trees, differing

#: The topics of each sort of question.
_TOPICS: dict[str, tuple[str, ...]] = {
    "definitions": ("definitions of",),
    "stars": ("stars",),
    "imports": ("bound",),
    "imported": ("bound",),
    "imports renamed": ("bound",),
    "other names called": ("other names",),
    "name read": ("names read",),
    "name uses": ("uses of",),
    "own code": ("own code",),
    "calls": ("calls of",),
    "passing": ("calls passing",),
    "keyword": ("keywords",),
    "attribute read": ("attributes read",),
    "any attribute read": ("attributes read",),
    "own attribute": ("own attributes",),
    "attribute written": ("attributes written",),
    "base": ("bases",),
    "mentions": ("called", "bound"),
    "mentions any": ("called", "bound"),
    "mentions like": ("called",),
    "names called": ("called", "bound"),
    "leading": ("called",),
    "reached": ("called",),
    "class": ("class",),
    "method": ("class",),
    "methods": ("class",),
    "method names": ("class",),
    "writes": ("class",),
    "attributes": ("class",),
    "body": ("class",),
}
#: The topics that are about one thing each, which is what follows the sort of the question.
_OF_ONE = frozenset({"definitions of", "uses of", "calls of", "calls passing", "class"})


def topics_of(read: Read) -> Iterator[tuple[str, object]]:
    """The topics of a question, each with the thing that it is about: None for one about the whole file."""
    for topic in _TOPICS[read[0]]:
        yield topic, read[1] if topic in _OF_ONE else None


#: What parts and groups say that decides on the answers about a topic of the whole file.
_SAID_BY_PARTS: dict[str, Callable[[Part], object]] = {
    "names read": names_read,
    "keywords": keywords_passed,
    "attributes read": attributes_read,
    "attributes written": attributes_written,
    "called": lambda part: _calls_and_functions(part),
}
_SAID_BY_GROUPS: dict[str, Callable[[GroupFacts], tuple[object, ...]]] = {
    "stars": lambda facts: facts.star_imports,
    "bound": lambda facts: tuple((item.name, item.kind, item.imported) for item in facts.definitions),
    "other names": lambda facts: tuple(facts.other_names),
    "own code": lambda facts: facts.own_code,
    "own attributes": lambda facts: tuple(facts.class_facts.writes) if facts.class_facts is not None else (),
    "bases": lambda facts: tuple(facts.class_facts.base_names) if facts.class_facts is not None else (),
}


class Stirred:
    """What an edit has changed between two versions of a file."""

    def __init__(self, before: tuple[Trees, ...], after: tuple[Trees, ...]) -> None:
        old, new = differing(before, after)
        self._groups = [facts_of(group) for group in old], [facts_of(group) for group in new]
        parts = _parts_of(old), _parts_of(new)
        self._parts = differing(*parts) if len(old) == len(new) == 1 else parts
        self._known: dict[str, bool] = {}

    def things(self, topic: str, asked: Collection[object]) -> list[object]:
        """Of the things of a topic that were asked about those that are stirred."""
        if topic in _OF_ONE:
            return [thing for thing in self._touched(topic) if thing in asked]
        return list(asked) if self.is_stirred(topic) else []

    def is_stirred(self, topic: str) -> bool:
        """Whether something that decides on a topic of the whole file is another."""
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._said(0, topic) != self._said(1, topic)
        return known

    def _said(self, side: int, topic: str) -> object:
        of_part = _SAID_BY_PARTS.get(topic)
        if of_part is not None:
            return {of_part(part) for part in self._parts[side]}
        return [said for facts in self._groups[side] for said in _SAID_BY_GROUPS[topic](facts)]

    def _touched(self, topic: str) -> set[object]:
        both = (*self._parts[0], *self._parts[1])
        match topic:
            case "calls of":
                return set().union(*(index_of(part).called for part in both))
            case "calls passing":
                return set().union(*map(keywords_passed, both))
            case "uses of":
                return set().union(*map(names_read, both))
            case "class":
                classes = (facts.class_facts for side in self._groups for facts in side)
                return {facts.header for facts in classes if facts is not None}
            case _:
                old, new = ([item for facts in side for item in facts.definitions] for side in self._groups)
                return {item.name for item in (*old, *new)} if old != new else set()


def _calls_and_functions(part: Part) -> tuple[frozenset[str], frozenset[str]]:
    index = index_of(part)
    return frozenset(index.called), frozenset(function.name for function in index.functions())


def _parts_of(groups: Iterable[Trees]) -> tuple[Part, ...]:
    return tuple(part for group in groups for part in group.parts)
