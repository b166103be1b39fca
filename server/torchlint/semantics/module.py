"""What one version of a file says to whoever asks about its parts: definitions, classes, scopes.

Everything that crosses from one part to another is asked of ``ModuleFacts``, which tells the memo.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import cast

from torchlint.semantics.class_facts import ClassFacts, class_facts
from torchlint.semantics.file_facts import FileFacts
from torchlint.semantics.group_facts import UnitNodes
from torchlint.semantics.index import index_of
from torchlint.semantics.memo import Memo
from torchlint.semantics.scopes import AttributeWrite, Definition, FunctionNode
from torchlint.semantics.stirred import Stirred
from torchlint.syntax import Part, SyntaxModule, part_of


class ModuleFacts:
    """One version of a file; ``before`` is the version for which the memo was used last."""

    def __init__(self, syntax: SyntaxModule, memo: Memo, before: ModuleFacts | None = None) -> None:
        self.syntax = syntax
        self.memo = memo
        self._file = FileFacts(tuple(group.trees for group in syntax.groups))
        stirred = Stirred(before._file.groups if before is not None else (), self._file.groups)
        if before is not None:
            self._file.take_over(before._file, stirred.is_stirred)
        memo.begin(self._file, stirred.things)

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

    def imports(self) -> Iterator[tuple[str, str]]:
        """(name, dotted name) of each name that the top level imports and binds to nothing else.

        Not recorded as a read: for fixes only. Rules ask for ``names_imported``.
        """
        return self._file.imports()

    def names_imported(self) -> tuple[tuple[str, str], ...]:
        """What ``imports`` gives: who asks depends on each of them."""
        found: tuple[tuple[str, str], ...] = self.memo.read(("imports",))
        return found

    def imported_from(self, last_names: frozenset[str]) -> dict[str, str]:
        """The names that top-level statements import from something with one of these last names, and which."""
        found: dict[str, str] = self.memo.read(("imported", last_names))
        return found

    def reads_name(self, name: str) -> bool:
        """Whether code anywhere in the file reads a plain name (of any scope)."""
        return bool(self.memo.read(("name read", name)))

    def uses_of_name(self, name: str) -> tuple[ast.Name, ...]:
        """All reads of a plain name in the file, of any scope, in the order of the source."""
        found: tuple[ast.Name, ...] = self.memo.read(("name uses", name))
        return found

    def classes(self) -> tuple[ClassFacts, ...]:
        """The top-level classes (not recorded as a read: only for who already depends on them)."""
        return tuple(self._file.classes.values())

    def calls_of(self, name: str) -> tuple[ast.Call, ...]:
        """All calls in the file whose function is spelled ``name(...)`` or ``....name(...)``."""
        found: tuple[ast.Call, ...] = self.memo.read(("calls", name))
        return found

    def passes_keyword(self, name: str) -> bool:
        """Whether any call in the file has a keyword argument of this name."""
        return bool(self.memo.read(("keyword", name)))

    def calls_passing(self, name: str) -> tuple[ast.Call, ...]:
        """All calls in the file that have a keyword argument of this name."""
        found: tuple[ast.Call, ...] = self.memo.read(("passing", name))
        return found

    def mentions_call(self, name: str) -> bool:
        """Whether anything in the file is called by the (last) name ``name``, or imported by it under another name."""
        return bool(self.memo.read(("mentions", name)))

    def mentions_any_call(self, names: frozenset[str]) -> bool:
        """``mentions_call`` of any of these names, as one question."""
        return bool(self.memo.read(("mentions any", names)))

    def mentions_call_like(self, resembles: Callable[[str], bool]) -> bool:
        """Whether anything in the file is called by a (last) name that passes a test."""
        return bool(self.memo.read(("mentions like", resembles)))

    def imports_renamed(self, names: frozenset[str]) -> bool:
        """Whether the top level imports something with one of these last names under another name."""
        return bool(self.memo.read(("imports renamed", names)))

    def names_called(self, names: frozenset[str]) -> frozenset[str]:
        """The names among these by which the file calls anything, or imports something under another name."""
        found: frozenset[str] = self.memo.read(("names called", names))
        return found

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

    def class_facts(self, node: ast.ClassDef) -> ClassFacts:
        """All of a class: who asks depends on each of its members."""
        facts = self._facts(node)
        self.memo.read(("class", facts.header))
        return facts

    def method(self, node: ast.ClassDef, name: str) -> FunctionNode | None:
        facts = self._facts(node)
        if facts.header not in self._file.classes:
            return facts.methods.get(name)
        found: FunctionNode | None = self.memo.read(("method", facts.header, name))
        return found

    def methods(self, node: ast.ClassDef) -> tuple[FunctionNode, ...]:
        facts = self._facts(node)
        return cast(
            "tuple[FunctionNode, ...]", self.memo.read(("methods", facts.header)) or tuple(facts.methods.values())
        )

    def method_names(self, node: ast.ClassDef) -> tuple[str, ...]:
        """The names of the methods of a class: who asks does not depend on what they do."""
        facts = self._facts(node)
        if facts.header not in self._file.classes:
            return tuple(facts.methods)
        found: tuple[str, ...] = self.memo.read(("method names", facts.header))
        return found

    def attribute_writes(self, node: ast.ClassDef, name: str) -> tuple[AttributeWrite, ...]:
        """Each ``self.<name> = ...`` in the methods of a class, in the order of the source."""
        facts = self._facts(node)
        if facts.header not in self._file.classes:
            return tuple(facts.writes.get(name, ()))
        found: tuple[AttributeWrite, ...] = self.memo.read(("writes", facts.header, name))
        return found

    def attributes(self, node: ast.ClassDef) -> tuple[str, ...]:
        """The names of all attributes that methods of a class write on ``self``."""
        facts = self._facts(node)
        if facts.header not in self._file.classes:
            return tuple(facts.writes)
        found: tuple[str, ...] = self.memo.read(("attributes", facts.header))
        return found

    def body_definitions(self, node: ast.ClassDef, name: str) -> tuple[Definition, ...]:
        """What the class body itself binds ``name`` to."""
        facts = self._facts(node)
        if facts.header not in self._file.classes:
            return tuple(facts.body_definitions.get(name, ()))
        found: tuple[Definition, ...] = self.memo.read(("body", facts.header, name))
        return found

    def _facts(self, node: ast.ClassDef) -> ClassFacts:
        known = self._file.classes.get(node)
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
        return self._file.units
