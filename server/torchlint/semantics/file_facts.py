"""What one version of a file answers to the questions of ``ModuleFacts``: looked up, not recorded.

Answers about the whole file that an edit has not stirred are taken over from the version before.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from torchlint.semantics.class_facts import ClassFacts
from torchlint.semantics.group_facts import UnitNodes, facts_of
from torchlint.semantics.index import attributes_read, attributes_written, index_of, keywords_passed, names_read
from torchlint.semantics.memo import Read
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.stirred import topics_of
from torchlint.syntax import Part, Trees, parent_of

_NamesIn = Callable[[Part], frozenset[str]]
#: The attribute names read in any part, as ``attributes_read`` tells them of one.
_ReadNames = tuple[frozenset[str], frozenset[str], frozenset[str]]
_TOPIC_OF_NAMES: dict[_NamesIn, str] = {
    names_read: "names read",
    keywords_passed: "keywords",
    attributes_written: "attributes written",
}


class FileFacts:
    """The answers of one version."""

    def __init__(self, groups: tuple[Trees, ...]) -> None:
        self.groups = groups
        self.definitions: dict[str, list[Definition]] = {}
        #: The top-level classes by their headers.
        self.classes: dict[ast.ClassDef, ClassFacts] = {}
        self.units: tuple[UnitNodes, ...] = ()
        self._reaching: dict[frozenset[str], frozenset[str]] = {}
        #: Of sets of names those in which one name is called anywhere in the file, with all names that lead to them.
        self._leading: dict[frozenset[frozenset[str]], dict[frozenset[str], frozenset[str]]] = {}
        self._renamed: frozenset[str] | None = None
        self._others: frozenset[str] | None = None
        self._called: frozenset[str] | None = None
        self._names_of_all: dict[_NamesIn, frozenset[str]] = {}
        self._read_names: _ReadNames | None = None
        self._callers_by_name: dict[str, list[Part]] = {}
        self._collect()

    def _collect(self) -> None:
        own: list[Part] = []
        units: list[UnitNodes] = []
        for group in self.groups:
            facts = facts_of(group)
            for definition in facts.definitions:
                self.definitions.setdefault(definition.name, []).append(definition)
            if facts.class_facts is not None:
                self.classes[facts.class_facts.header] = facts.class_facts
            units += facts.units
            own += facts.own_code
        self.units = (*units, UnitNodes("module", "<module>", None, tuple(own), ("unit", "<module>", *own)))

    def take_over(self, before: FileFacts, is_stirred: Callable[[str], bool]) -> None:
        """Keep what the version before has found out about topics that are not stirred."""
        if not is_stirred("called"):
            self._called, self._leading, self._reaching = before._called, before._leading, before._reaching
        if not is_stirred("bound"):
            self._renamed = before._renamed
        if not is_stirred("other names"):
            self._others = before._others
        if before._read_names is not None and not is_stirred("attributes read"):
            self._read_names = before._read_names
        for names_in, names in before._names_of_all.items():
            if not is_stirred(_TOPIC_OF_NAMES[names_in]):
                self._names_of_all[names_in] = names

    # -- for the memo -----------------------------------------------------------------------------------------------

    def look_up(self, read: Read) -> object:
        """The answer to a question."""
        return _ANSWERS[read[0]](self, *read[1:])

    def topics_of(self, read: Read) -> Iterable[tuple[str, object]]:
        """What a question is about."""
        return topics_of(read)

    # -- answers ----------------------------------------------------------------------------------------------------

    def star_imports(self) -> tuple[str, ...]:
        """The modules from which everything is imported at the top level."""
        found = (facts for facts in map(facts_of, self.groups) if not facts.units)
        return tuple(name for facts in found for name in facts.star_imports)

    def imports(self) -> Iterator[tuple[str, str]]:
        """(name, dotted name) of each name that the top level imports and binds to nothing else."""
        for name, definitions in self.definitions.items():
            if all(definition.kind is Binding.IMPORT for definition in definitions):
                yield name, definitions[-1].imported

    def imported_from(self, last_names: frozenset[str]) -> dict[str, str]:
        """The names that are imported from something with one of these last names, and which."""
        tails = (
            (name, definition.imported.rpartition(".")[2])
            for name, definitions in self.definitions.items()
            for definition in definitions
            if definition.kind is Binding.IMPORT
        )
        return {name: tail for name, tail in tails if tail in last_names}

    def imported_tails(self) -> frozenset[str]:
        """The last names of what the top level imports under other names (``import x.y as z`` gives ``y``)."""
        if self._renamed is None:
            imports = ((name, item) for name, items in self.definitions.items() for item in items if item.imported)
            tails = ((name, item.imported.rpartition(".")[2]) for name, item in imports)
            self._renamed = frozenset(tail for name, tail in tails if tail != name)
        return self._renamed

    def other_names(self) -> frozenset[str]:
        """The names that the top level binds to something with another name."""
        if self._others is None:
            self._others = frozenset().union(*(facts_of(group).other_names for group in self.groups))
        return self._others

    def called(self) -> frozenset[str]:
        """The (last) names by which any part calls anything."""
        if self._called is None:
            self._called = frozenset().union(*(facts_of(group).called for group in self.groups))
        return self._called

    def all_of(self, names_in: _NamesIn) -> frozenset[str]:
        """The names that ``names_in`` gives for any part."""
        if names_in not in self._names_of_all:
            self._names_of_all[names_in] = frozenset().union(*map(names_in, self._parts()))
        return self._names_of_all[names_in]

    def attributes_read(self) -> _ReadNames:
        """The attribute names read in any part, as ``attributes_read`` tells them of one."""
        if self._read_names is None:
            read, others, with_dot = set[str](), set[str](), set[str]()
            for part in self._parts():
                names = attributes_read(part)
                read |= names[0]
                others |= names[1]
                with_dot |= names[2]
            self._read_names = frozenset(read), frozenset(others), frozenset(with_dot)
        return self._read_names

    def uses_of_name(self, name: str) -> Iterator[ast.Name]:
        """All reads of a plain name, in the order of the source."""
        for part in self._parts():
            if name in names_read(part):
                found = (node for node in index_of(part).all(ast.Name) if node.id == name)
                yield from (node for node in found if isinstance(node.ctx, ast.Load))

    def calls_of(self, name: str) -> Iterator[ast.Call]:
        """All calls whose function is spelled ``name(...)`` or ``....name(...)``, in the order of the source."""
        calling = (part for group in self.groups if name in facts_of(group).called for part in group.parts)
        for part in calling:
            index = index_of(part)
            for call in index.all(ast.Call) if name in index.called else ():
                function = call.func
                last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
                if last == name:
                    yield call

    def calls_passing(self, name: str) -> Iterator[ast.Call]:
        """All calls that have a keyword argument of this name, in the order of the source."""
        for part in self._parts():
            if name in keywords_passed(part):
                keywords = (keyword for keyword in index_of(part).all(ast.keyword) if keyword.arg == name)
                holders = map(parent_of, keywords)
                yield from (holder for holder in holders if isinstance(holder, ast.Call))  # a class has keywords too

    def reached(self, part: Part, wanted: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
        """The sets of ``wanted`` of which a part calls a name, directly or through functions of this file."""
        if wanted not in self._leading:
            called_here = self.called()
            self._leading[wanted] = {
                called: self.leading_to(called) for called in wanted if not called.isdisjoint(called_here)
            }
        calls = index_of(part).called
        return frozenset(called for called, names in self._leading[wanted].items() if not names.isdisjoint(calls))

    def leading_to(self, called: frozenset[str]) -> frozenset[str]:
        """``called`` and the names of all functions of the file that lead to one of them."""
        known = self._reaching.get(called)
        if known is not None:
            return known
        callers = self._callers()
        names = set(called)
        new = list(called)
        while new:
            for part in callers.get(new.pop(), ()):
                for function in index_of(part).functions():
                    if function.name not in names:
                        names.add(function.name)
                        new.append(function.name)
        self._reaching[called] = frozenset(names)
        return self._reaching[called]

    def _callers(self) -> dict[str, list[Part]]:
        """The parts that call something by a (last) name."""
        if not self._callers_by_name:
            for part in self._parts():
                for name in index_of(part).called:
                    self._callers_by_name.setdefault(name, []).append(part)
        return self._callers_by_name

    def _parts(self) -> Iterator[Part]:
        for group in self.groups:
            yield from group.parts

    def of_class(self, header: ast.ClassDef, of: Callable[[ClassFacts], object]) -> object:
        """What ``of`` says of a class of the top level; None for another."""
        facts = self.classes.get(header)
        return of(facts) if facts is not None else None


_Look = Callable[..., object]
#: What each sort of question asks, by what follows its name.
_ANSWERS: dict[str, _Look] = {
    "definitions": lambda file, name: tuple(file.definitions.get(name, ())),
    "stars": lambda file: file.star_imports(),
    "imports": lambda file: tuple(file.imports()),
    "imported": lambda file, last_names: file.imported_from(last_names),
    "imports renamed": lambda file, names: not names.isdisjoint(file.imported_tails()),
    "other names called": lambda file, part: file.other_names() & index_of(part).called,
    "name read": lambda file, name: name in file.all_of(names_read),
    "name uses": lambda file, name: tuple(file.uses_of_name(name)),
    "own code": lambda file: file.units[-1].parts,
    "calls": lambda file, name: tuple(file.calls_of(name)),
    "passing": lambda file, name: tuple(file.calls_passing(name)),
    "keyword": lambda file, name: name in file.all_of(keywords_passed),
    "attribute read": lambda file, name, sort: name in file.attributes_read()[sort],
    "any attribute read": lambda file, names: not names.isdisjoint(file.attributes_read()[0]),
    "own attribute": lambda file, name: any(name in facts.writes for facts in file.classes.values()),
    "attribute written": lambda file, name: name in file.all_of(attributes_written),
    "base": lambda file, name: any(name in facts.base_names for facts in file.classes.values()),
    "mentions": lambda file, name: name in file.imported_tails() or name in file.called(),
    "mentions any": lambda file, names: (
        not (names.isdisjoint(file.called()) and names.isdisjoint(file.imported_tails()))
    ),
    "mentions like": lambda file, resembles: any(map(resembles, file.called())),
    "names called": lambda file, names: names & (file.called() | file.imported_tails()),
    "leading": lambda file, called: file.leading_to(called),
    "reached": lambda file, part, wanted: file.reached(part, wanted),
    "class": lambda file, header: file.classes.get(header),
    "method": lambda file, header, name: file.of_class(header, lambda facts: facts.methods.get(name)),
    "methods": lambda file, header: file.of_class(header, lambda facts: tuple(facts.methods.values())),
    "method names": lambda file, header: file.of_class(header, lambda facts: tuple(facts.methods)),
    "writes": lambda file, header, name: file.of_class(header, lambda facts: tuple(facts.writes.get(name, ()))),
    "attributes": lambda file, header: file.of_class(header, lambda facts: tuple(facts.writes)),
    "body": lambda file, header, name: file.of_class(header, lambda facts: tuple(facts.body_definitions.get(name, ()))),
}
