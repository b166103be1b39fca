"""What one version of a file says to whoever asks about its parts: definitions, classes, scopes.

Everything that crosses from one part to another goes through ``ModuleFacts.read_*``, which tells the memo.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import cast

from torchlint.frozen import dataclass
from torchlint.semantics.index import (
    PartIndex,
    attributes_read,
    attributes_written,
    index_of,
    keywords_passed,
    names_read,
)
from torchlint.semantics.memo import Memo, Read
from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode
from torchlint.syntax import Group, Part, SyntaxModule, parent_of, part_of


@dataclass(eq=False)
class ClassFacts:
    """A class of this file. ``header`` (the class statement without members, for a top-level class) identifies it."""

    header: ast.ClassDef
    body: tuple[ast.stmt, ...]
    methods: dict[str, FunctionNode] = field(default_factory=dict)
    #: What is written to ``self.<name>`` in any method, and names bound in the class body itself.
    writes: dict[str, list[AttributeWrite]] = field(default_factory=dict)
    body_definitions: dict[str, list[Definition]] = field(default_factory=dict)
    #: The node with all members, for rules that want the whole class; None until members are known.
    whole: ast.ClassDef | None = None

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def base_names(self) -> Iterator[str]:
        """The last parts of the names of the base classes."""
        for base in self.header.bases:
            target = base.value if isinstance(base, ast.Subscript) else base
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)
            if name is not None:
                yield name


@dataclass(frozen=True, eq=False)
class UnitNodes:
    """A piece of the file that rules are run on by itself: a function, a method, a class, or the module's own code."""

    kind: str
    name: str
    #: The function, or the class with its members; None for the module's own code.
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None
    parts: tuple[Part, ...]
    key: tuple[object, ...]


class ModuleFacts:
    """One version of a file."""

    def __init__(self, syntax: SyntaxModule, memo: Memo) -> None:
        self.syntax = syntax
        self.memo = memo
        self._definitions: dict[str, list[Definition]] = {}
        self._classes: dict[ast.ClassDef, ClassFacts] = {}
        self._reaching: dict[frozenset[str], frozenset[str]] = {}
        #: Of sets of names those in which one name is called anywhere in the file.
        self._leading: dict[frozenset[frozenset[str]], list[frozenset[str]]] = {}
        self._renamed: frozenset[str] | None = None
        self._callers_by_name: dict[str, list[Part]] = {}
        self._read_names: tuple[set[str], set[str], set[str]] | None = None
        self.star_imports: tuple[str, ...] = ()
        self._collect()
        self._units = tuple(self._make_units())
        memo.begin(self._look_up)

    def _collect(self) -> None:
        stars: list[str] = []
        for group in self.syntax.groups:
            facts = _group_class(group)
            if facts is not None:
                self._classes[facts.header] = facts
                definition = index_of(group.parts[0]).top.definitions[facts.name][-1]
                self._definitions.setdefault(facts.name, []).append(definition)
                for statement in facts.body:
                    statement._parent = facts.header  # type: ignore[attr-defined]
                continue
            for part in group.parts:
                top = index_of(part).top
                stars.extend(top.star_imports)
                for name, definitions in top.definitions.items():
                    self._definitions.setdefault(name, []).extend(definitions)
        self.star_imports = tuple(stars)

    def _look_up(self, read: Read) -> object:
        kind = read[0]
        if kind == "definitions":
            return tuple(self._definitions.get(read[1], ()))
        if kind == "stars":
            return self.star_imports
        if kind == "imports":
            return tuple(self.imports())
        if kind == "imported":
            return self._imported_from(read[1])
        if kind == "name read":
            return any(read[1] in names_read(part) for group in self.syntax.groups for part in group.parts)
        if kind == "name uses":
            return tuple(self._uses_of_name(read[1]))
        if kind == "own code":
            return self._units[-1].parts
        if kind == "calls":
            return tuple(self._calls_of(read[1]))
        if kind == "keyword":
            return any(read[1] in keywords_passed(part) for group in self.syntax.groups for part in group.parts)
        if kind == "attribute read":
            return read[1] in self._attributes_read()[read[2]]
        if kind == "any attribute read":
            return not read[1].isdisjoint(self._attributes_read()[0])
        if kind == "own attribute":
            return any(read[1] in facts.writes for facts in self._classes.values())
        if kind == "attribute written":
            return any(read[1] in attributes_written(part) for group in self.syntax.groups for part in group.parts)
        if kind == "base":
            return any(read[1] in facts.base_names for facts in self._classes.values())
        if kind == "reaches":
            return self._reaches(read[1], read[2])
        if kind == "mentions":
            return read[1] in self._imported_tails() or read[1] in self._callers()
        if kind == "mentions any":
            return not (read[1].isdisjoint(self._callers()) and read[1].isdisjoint(self._imported_tails()))
        if kind == "leading":
            return self._reaching_names(read[1])
        if kind == "reached":
            return self._reached(read[1], read[2])
        facts = self._classes.get(read[1])
        if facts is None:
            return None
        if kind == "method":
            return facts.methods.get(read[2])
        if kind == "methods":
            return tuple(facts.methods.values())
        if kind == "writes":
            return tuple(facts.writes.get(read[2], ()))
        if kind == "attributes":
            return tuple(facts.writes)
        if kind == "body":
            return tuple(facts.body_definitions.get(read[2], ()))
        if kind == "class":
            return facts
        raise KeyError(kind)

    # -- what may be asked ------------------------------------------------------------------------------------------

    def definitions(self, name: str) -> tuple[Definition, ...]:
        """What the module binds ``name`` to at its top level, in order."""
        found: tuple[Definition, ...] = self.memo.read(("definitions", name))
        return found

    def stars(self) -> tuple[str, ...]:
        """The modules from which everything is imported at the top level."""
        found: tuple[str, ...] = self.memo.read(("stars",))
        return found

    def other_names(self) -> frozenset[str]:
        """Names of the module's top level that stand for something with another name: ``import x as y``, ``y = x``."""
        found: set[str] = set()
        for name, definitions in self._definitions.items():
            for definition in definitions:
                renamed = definition.kind is Binding.IMPORT and definition.imported.rpartition(".")[2] != name
                value = definition.value
                assigned = definition.kind is Binding.ASSIGNMENT and isinstance(value, ast.Name | ast.Attribute)
                if renamed or assigned:
                    found.add(name)
        return frozenset(found)

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

    def reaches(self, parts: tuple[Part, ...], called: frozenset[str]) -> bool:
        """Whether code of ``parts``, or functions of this file that it calls by name, call one of these names."""
        return any(bool(self.memo.read(("reaches", part, called))) for part in parts)

    def names_leading_to(self, called: frozenset[str]) -> frozenset[str]:
        """``called``, and the names of the functions of this file that lead to a call of one of these names."""
        found: frozenset[str] = self.memo.read(("leading", called))
        return found

    def reached(
        self, parts: tuple[Part, ...], wanted: frozenset[frozenset[str]]
    ) -> tuple[frozenset[frozenset[str]], ...]:
        """For each of ``parts`` the sets of ``wanted`` that it ``reaches``."""
        return tuple(self.memo.read(("reached", part, wanted)) for part in parts)

    def _reached(self, part: Part, wanted: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
        if wanted not in self._leading:
            self._leading[wanted] = [called for called in wanted if not called.isdisjoint(self._callers())]
        return frozenset(called for called in self._leading[wanted] if self._reaches(part, called))

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

    def _reaches(self, part: Part, called: frozenset[str]) -> bool:
        return not self._reaching_names(called).isdisjoint(index_of(part).called)

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

    def _make_units(self) -> Iterator[UnitNodes]:
        own: list[Part] = []
        for group in self.syntax.groups:
            if _group_class(group) is not None:
                yield from _class_units(group)
            elif len(group.body) == 1 and isinstance(group.body[0], ast.FunctionDef | ast.AsyncFunctionDef):
                function = group.body[0]
                yield UnitNodes("function", function.name, function, group.parts, ("unit", function))
            else:
                own.extend(group.parts)
        yield UnitNodes("module", "<module>", None, tuple(own), ("unit", "<module>", *own))


def class_facts(
    header: ast.ClassDef, body: tuple[ast.stmt, ...], indexes: tuple[PartIndex, ...], whole: ast.ClassDef | None
) -> ClassFacts:
    facts = ClassFacts(header, body, whole=whole)
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            facts.methods[statement.name] = statement
    for index in indexes:
        own = index.scopes.get(header)
        tops = [own] if own is not None else [index.top]
        for scope in tops:
            for name, definitions in scope.definitions.items():
                facts.body_definitions.setdefault(name, []).extend(definitions)
        for function, scope in index.scopes.items():
            method = _method_of(function, facts)
            if method is None:
                continue
            self_name = first_parameter(method)
            for write in scope.writes:
                if self_name is not None and write.base == self_name:
                    facts.writes.setdefault(write.name, []).append(write)
    return facts


def first_parameter(function: FunctionNode) -> str | None:
    """``self`` as the method spells it; None for a method without one."""
    arguments = function.args.posonlyargs or function.args.args
    return arguments[0].arg if arguments else None


def _method_of(node: ast.AST, facts: ClassFacts) -> FunctionNode | None:
    """The method of the class in which a scope's node stands (nested functions see the same ``self``)."""
    current: ast.AST | None = node
    while current is not None:
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef) and facts.methods.get(current.name) is current:
            return current
        if isinstance(current, ast.ClassDef):
            return None
        current = parent_of(current)
    return None


def _group_class(group: Group) -> ClassFacts | None:
    if "_class" not in group.__dict__:
        group.__dict__["_class"] = _make_group_class(group)
    return cast("ClassFacts | None", group.__dict__["_class"])


def _make_group_class(group: Group) -> ClassFacts | None:
    if len(group.body) != 1 or not isinstance(group.body[0], ast.ClassDef):
        return None
    whole = group.body[0]
    indexes = tuple(index_of(part) for part in group.parts)
    if len(group.parts) == 1:
        return class_facts(whole, tuple(whole.body), indexes, whole)
    header = cast("ast.ClassDef", group.parts[0].body[0])
    return class_facts(header, tuple(whole.body), indexes[1:], whole)


def _class_units(group: Group) -> Iterator[UnitNodes]:
    whole = cast("ast.ClassDef", group.body[0])
    if len(group.parts) == 1:
        yield UnitNodes("class", whole.name, whole, group.parts, ("unit", whole))
        return
    yield UnitNodes("class", whole.name, whole, (), ("unit", "class", whole))
    rest: list[Part] = [group.parts[0]]
    for part in group.parts[1:]:
        body = part.body
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
            yield UnitNodes("method", f"{whole.name}.{body[0].name}", body[0], (part,), ("unit", body[0]))
        else:
            rest.append(part)
    yield UnitNodes("class body", whole.name, None, tuple(rest), ("unit", "body", *rest))
