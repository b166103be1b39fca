"""What one version of a file says to whoever asks about its parts: definitions, classes, scopes.

Everything that crosses from one part to another is asked of ``ModuleFacts``, which tells the memo.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import cast

from torchlint.semantics.class_facts import ClassFacts, class_facts
from torchlint.semantics.group_facts import UnitNodes, facts_of
from torchlint.semantics.index import (
    attributes_read,
    attributes_written,
    index_of,
    keywords_passed,
    names_read,
)
from torchlint.semantics.memo import Memo, Read
from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode
from torchlint.syntax import Part, SyntaxModule, part_of


class ModuleFacts:
    """One version of a file."""

    def __init__(self, syntax: SyntaxModule, memo: Memo) -> None:
        self.syntax = syntax
        self.memo = memo
        self._definitions: dict[str, list[Definition]] = {}
        self._classes: dict[ast.ClassDef, ClassFacts] = {}
        self._reaching: dict[frozenset[str], frozenset[str]] = {}
        #: Of sets of names those in which one name is called anywhere in the file, with all names that lead to them.
        self._leading: dict[frozenset[frozenset[str]], dict[frozenset[str], frozenset[str]]] = {}
        self._renamed: frozenset[str] | None = None
        self._others: frozenset[str] | None = None
        self._names_of_all: dict[Callable[[Part], frozenset[str]], frozenset[str]] = {}
        self._callers_by_name: dict[str, list[Part]] = {}
        self._read_names: tuple[set[str], set[str], set[str]] | None = None
        self.star_imports: tuple[str, ...] = ()
        self._units: tuple[UnitNodes, ...] = ()
        self._collect()
        memo.begin(self._look_up)

    def _collect(self) -> None:
        own: list[Part] = []
        units: list[UnitNodes] = []
        stars: list[str] = []
        for group in self.syntax.groups:
            facts = facts_of(group)
            for definition in facts.definitions:
                self._definitions.setdefault(definition.name, []).append(definition)
            if facts.class_facts is not None:
                self._classes[facts.class_facts.header] = facts.class_facts
            if facts.units:
                units += facts.units
            else:
                own += group.parts
                stars += facts.star_imports
        self.star_imports = tuple(stars)
        self._units = (*units, UnitNodes("module", "<module>", None, tuple(own), ("unit", "<module>", *own)))

    def _look_up(self, read: Read) -> object:
        return _ANSWERS[read[0]](self, *read[1:])

    def _parts(self) -> Iterator[Part]:
        for group in self.syntax.groups:
            yield from group.parts

    def _all_of(self, names_in: Callable[[Part], frozenset[str]]) -> frozenset[str]:
        """The names that ``names_in`` gives for any part."""
        if names_in not in self._names_of_all:
            self._names_of_all[names_in] = frozenset().union(*map(names_in, self._parts()))
        return self._names_of_all[names_in]

    def _of_class(self, header: ast.ClassDef, of: Callable[[ClassFacts], object]) -> object:
        facts = self._classes.get(header)
        return of(facts) if facts is not None else None

    # -- what may be asked ------------------------------------------------------------------------------------------

    def definitions(self, name: str) -> tuple[Definition, ...]:
        """What the module binds ``name`` to at its top level, in order."""
        found: tuple[Definition, ...] = self.memo.read(("definitions", name))
        return found

    def stars(self) -> tuple[str, ...]:
        """The modules from which everything is imported at the top level."""
        found: tuple[str, ...] = self.memo.read(("stars",))
        return found

    def other_names_called(self, part: Part) -> frozenset[str]:
        """Of the names by which a part calls anything those that the top level binds to something with another name:
        ``import x as y``, ``y = x``."""
        found: frozenset[str] = self.memo.read(("other names called", part))
        return found

    def _other_names(self) -> frozenset[str]:
        if self._others is None:
            self._others = frozenset().union(*(facts_of(group).other_names for group in self.syntax.groups))
        return self._others

    def imports(self) -> Iterator[tuple[str, str]]:
        """(name, dotted name) of each name that the top level imports and binds to nothing else.

        Not recorded as a read: for fixes only. Rules ask for ``names_imported``.
        """
        for name, definitions in self._definitions.items():
            if all(definition.kind is Binding.IMPORT for definition in definitions):
                yield name, definitions[-1].imported

    def names_imported(self) -> tuple[tuple[str, str], ...]:
        """What ``imports`` gives: who asks depends on each of them."""
        found: tuple[tuple[str, str], ...] = self.memo.read(("imports",))
        return found

    def imported_from(self, last_names: frozenset[str]) -> dict[str, str]:
        """The names that top-level statements import from something with one of these last names, and which."""
        found: dict[str, str] = self.memo.read(("imported", last_names))
        return found

    def _imported_from(self, last_names: frozenset[str]) -> dict[str, str]:
        tails = (
            (name, definition.imported.rpartition(".")[2])
            for name, definitions in self._definitions.items()
            for definition in definitions
            if definition.kind is Binding.IMPORT
        )
        return {name: tail for name, tail in tails if tail in last_names}

    def reads_name(self, name: str) -> bool:
        """Whether code anywhere in the file reads a plain name (of any scope)."""
        return bool(self.memo.read(("name read", name)))

    def uses_of_name(self, name: str) -> tuple[ast.Name, ...]:
        """All reads of a plain name in the file, of any scope, in the order of the source."""
        found: tuple[ast.Name, ...] = self.memo.read(("name uses", name))
        return found

    def _uses_of_name(self, name: str) -> Iterator[ast.Name]:
        for group in self.syntax.groups:
            for part in group.parts:
                if name in names_read(part):
                    found = (node for node in index_of(part).all(ast.Name) if node.id == name)
                    yield from (node for node in found if isinstance(node.ctx, ast.Load))

    def classes(self) -> tuple[ClassFacts, ...]:
        """The top-level classes (not recorded as a read: only for who already depends on them)."""
        return tuple(self._classes.values())

    def calls_of(self, name: str) -> tuple[ast.Call, ...]:
        """All calls in the file whose function is spelled ``name(...)`` or ``....name(...)``."""
        found: tuple[ast.Call, ...] = self.memo.read(("calls", name))
        return found

    def passes_keyword(self, name: str) -> bool:
        """Whether any call in the file has a keyword argument of this name."""
        return bool(self.memo.read(("keyword", name)))

    def mentions_call(self, name: str) -> bool:
        """Whether anything in the file is called by the (last) name ``name``, or imported by it under another name."""
        return bool(self.memo.read(("mentions", name)))

    def mentions_any_call(self, names: frozenset[str]) -> bool:
        """``mentions_call`` of any of these names, as one question."""
        return bool(self.memo.read(("mentions any", names)))

    def imports_renamed(self, names: frozenset[str]) -> bool:
        """Whether the top level imports something with one of these last names under another name."""
        return bool(self.memo.read(("imports renamed", names)))

    def names_called(self, names: frozenset[str]) -> frozenset[str]:
        """The names among these by which the file calls anything, or imports something under another name."""
        found: frozenset[str] = self.memo.read(("names called", names))
        return found

    def _imported_tails(self) -> frozenset[str]:
        """The last names of what the top level imports under other names (``import x.y as z`` gives ``y``)."""
        if self._renamed is None:
            imports = ((name, item) for name, items in self._definitions.items() for item in items if item.imported)
            tails = ((name, item.imported.rpartition(".")[2]) for name, item in imports)
            self._renamed = frozenset(tail for name, tail in tails if tail != name)
        return self._renamed

    def reads_attribute(self, name: str, *, of_others: bool = False, by_text: bool = True) -> bool:
        """Whether anything in the file reads an attribute ``....name``; ``of_others``: of anything but ``self``, where
        a text that is the name counts unless ``by_text`` is False."""
        return bool(self.memo.read(("attribute read", name, 0 if not of_others else 1 if by_text else 2)))

    def reads_any_attribute(self, names: frozenset[str]) -> bool:
        """Whether anything in the file reads an attribute with one of these names, as one question."""
        return bool(self.memo.read(("any attribute read", names)))

    def is_own_attribute(self, name: str) -> bool:
        """Whether a method of a top-level class assigns an attribute of this name on ``self``."""
        return bool(self.memo.read(("own attribute", name)))

    def writes_attribute_of_others(self, name: str) -> bool:
        """Whether anything in the file assigns an attribute ``....name`` of anything but ``self``."""
        return bool(self.memo.read(("attribute written", name)))

    def is_base(self, name: str) -> bool:
        """Whether a top-level class of the file names ``name`` as a base class."""
        return bool(self.memo.read(("base", name)))

    def names_leading_to(self, called: frozenset[str]) -> frozenset[str]:
        """``called``, and the names of the functions of this file that lead to a call of one of these names."""
        found: frozenset[str] = self.memo.read(("leading", called))
        return found

    def reached(
        self, parts: tuple[Part, ...], wanted: frozenset[frozenset[str]]
    ) -> tuple[frozenset[frozenset[str]], ...]:
        """For each of ``parts`` the sets of ``wanted`` of which it calls a name, directly or through functions of this
        file that it calls by name."""
        return tuple(self.memo.read(("reached", part, wanted)) for part in parts)

    def _reached(self, part: Part, wanted: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
        if wanted not in self._leading:
            called_here = self._callers()
            self._leading[wanted] = {
                called: self._reaching_names(called) for called in wanted if not called.isdisjoint(called_here)
            }
        calls = index_of(part).called
        return frozenset(called for called, names in self._leading[wanted].items() if not names.isdisjoint(calls))

    def _attributes_read(self) -> tuple[set[str], set[str], set[str]]:
        """The attribute names read in any part, as ``attributes_read`` tells them of one."""
        if self._read_names is None:
            self._read_names = (set(), set(), set())
            for group in self.syntax.groups:
                for part in group.parts:
                    for names, found in zip(self._read_names, attributes_read(part), strict=True):
                        names |= found
        return self._read_names

    def _callers(self) -> dict[str, list[Part]]:
        """The parts that call something by a (last) name, in the order of the source."""
        if not self._callers_by_name:
            for group in self.syntax.groups:
                for part in group.parts:
                    for name in index_of(part).called:
                        self._callers_by_name.setdefault(name, []).append(part)
        return self._callers_by_name

    def _calls_of(self, name: str) -> Iterator[ast.Call]:
        for part in self._callers().get(name, ()):
            for call in index_of(part).all(ast.Call):
                function = call.func
                last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
                if last == name:
                    yield call

    def _reaching_names(self, called: frozenset[str]) -> frozenset[str]:
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

    def class_facts(self, node: ast.ClassDef) -> ClassFacts:
        """All of a class: who asks depends on each of its members."""
        facts = self._facts(node)
        self.memo.read(("class", facts.header))
        return facts

    def method(self, node: ast.ClassDef, name: str) -> FunctionNode | None:
        facts = self._facts(node)
        if facts.header not in self._classes:
            return facts.methods.get(name)
        found: FunctionNode | None = self.memo.read(("method", facts.header, name))
        return found

    def methods(self, node: ast.ClassDef) -> tuple[FunctionNode, ...]:
        facts = self._facts(node)
        return cast(
            "tuple[FunctionNode, ...]", self.memo.read(("methods", facts.header)) or tuple(facts.methods.values())
        )

    def attribute_writes(self, node: ast.ClassDef, name: str) -> tuple[AttributeWrite, ...]:
        """Each ``self.<name> = ...`` in the methods of a class, in the order of the source."""
        facts = self._facts(node)
        if facts.header not in self._classes:
            return tuple(facts.writes.get(name, ()))
        found: tuple[AttributeWrite, ...] = self.memo.read(("writes", facts.header, name))
        return found

    def attributes(self, node: ast.ClassDef) -> tuple[str, ...]:
        """The names of all attributes that methods of a class write on ``self``."""
        facts = self._facts(node)
        if facts.header not in self._classes:
            return tuple(facts.writes)
        found: tuple[str, ...] = self.memo.read(("attributes", facts.header))
        return found

    def body_definitions(self, node: ast.ClassDef, name: str) -> tuple[Definition, ...]:
        """What the class body itself binds ``name`` to."""
        facts = self._facts(node)
        if facts.header not in self._classes:
            return tuple(facts.body_definitions.get(name, ()))
        found: tuple[Definition, ...] = self.memo.read(("body", facts.header, name))
        return found

    def _facts(self, node: ast.ClassDef) -> ClassFacts:
        known = self._classes.get(node)
        if known is not None:
            return known
        nested = node.__dict__.get("_facts")
        if nested is None:
            nested = class_facts(node, tuple(node.body), (index_of(part_of(node)),), node)
            node.__dict__["_facts"] = nested
        return cast("ClassFacts", nested)

    def own_code(self) -> tuple[Part, ...]:
        """The parts of the module's own code: all statements but functions and classes."""
        found: tuple[Part, ...] = self.memo.read(("own code",))
        return found

    def units(self) -> tuple[UnitNodes, ...]:
        """The pieces on which rules run, in the order of the source; the module's own code comes last."""
        return self._units


_Look = Callable[..., object]
#: What each sort of read gives, by what follows its name in the read.
_ANSWERS: dict[str, _Look] = {
    "definitions": lambda self, name: tuple(self._definitions.get(name, ())),
    "stars": lambda self: self.star_imports,
    "imports": lambda self: tuple(self.imports()),
    "imported": lambda self, last_names: self._imported_from(last_names),
    "other names called": lambda self, part: self._other_names() & index_of(part).called,
    "name read": lambda self, name: name in self._all_of(names_read),
    "name uses": lambda self, name: tuple(self._uses_of_name(name)),
    "own code": lambda self: self._units[-1].parts,
    "calls": lambda self, name: tuple(self._calls_of(name)),
    "keyword": lambda self, name: name in self._all_of(keywords_passed),
    "attribute read": lambda self, name, sort: name in self._attributes_read()[sort],
    "any attribute read": lambda self, names: not names.isdisjoint(self._attributes_read()[0]),
    "own attribute": lambda self, name: any(name in facts.writes for facts in self._classes.values()),
    "attribute written": lambda self, name: name in self._all_of(attributes_written),
    "base": lambda self, name: any(name in facts.base_names for facts in self._classes.values()),
    "mentions": lambda self, name: name in self._imported_tails() or name in self._callers(),
    "mentions any": lambda self, names: (
        not (names.isdisjoint(self._callers()) and names.isdisjoint(self._imported_tails()))
    ),
    "names called": lambda self, names: names & (self._callers().keys() | self._imported_tails()),
    "imports renamed": lambda self, names: not names.isdisjoint(self._imported_tails()),
    "leading": lambda self, called: self._reaching_names(called),
    "reached": lambda self, part, wanted: self._reached(part, wanted),
    "class": lambda self, header: self._classes.get(header),
    "method": lambda self, header, name: self._of_class(header, lambda facts: facts.methods.get(name)),
    "methods": lambda self, header: self._of_class(header, lambda facts: tuple(facts.methods.values())),
    "writes": lambda self, header, name: self._of_class(header, lambda facts: tuple(facts.writes.get(name, ()))),
    "attributes": lambda self, header: self._of_class(header, lambda facts: tuple(facts.writes)),
    "body": lambda self, header, name: self._of_class(
        header, lambda facts: tuple(facts.body_definitions.get(name, ()))
    ),
}
