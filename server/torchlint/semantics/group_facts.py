"""What a group of statements says by itself: the class that it is, the units in it, the names that it binds. Kept as
long as its trees are the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, cast, get_args

from torchlint.frozen import dataclass
from torchlint.semantics.class_facts import ClassFacts, class_facts
from torchlint.semantics.index import index_of
from torchlint.semantics.scopes import Binding, Definition
from torchlint.syntax import Part, Trees

UnitKind = Literal["function", "method", "class", "class body", "module"]
UNIT_KINDS: tuple[UnitKind, ...] = get_args(UnitKind)


@dataclass(frozen=True, eq=False)
class UnitNodes:
    """A piece of the file that rules are run on by itself: a function, a method, a class, or the module's own code."""

    kind: UnitKind
    name: str
    #: The function, or the class with its members; None for the module's own code.
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None
    parts: tuple[Part, ...]
    key: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class GroupFacts:
    """The facts of one group."""

    trees: Trees

    @cached_property
    def class_facts(self) -> ClassFacts | None:
        """The class, if the group is one."""
        body, parts = self.trees.body, self.trees.parts
        if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
            return None
        whole = body[0]
        indexes = tuple(index_of(part) for part in parts)
        if len(parts) == 1:
            facts = class_facts(whole, tuple(whole.body), indexes, whole)
        else:
            facts = class_facts(cast("ast.ClassDef", parts[0].body[0]), tuple(whole.body), indexes[1:], whole)
        for statement in facts.body:
            statement._parent = facts.header  # type: ignore[attr-defined]
        return facts

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """What the group binds at the top level of the module, in order for each name."""
        facts = self.class_facts
        if facts is not None:
            return (index_of(self.trees.parts[0]).top.definitions[facts.name][-1],)
        bound = (index_of(part).top.definitions.values() for part in self.trees.parts)
        return tuple(definition for lists in bound for found in lists for definition in found)

    @cached_property
    def star_imports(self) -> tuple[str, ...]:
        """The modules from which it imports everything."""
        return tuple(name for part in self.trees.parts for name in index_of(part).top.star_imports)

    @cached_property
    def other_names(self) -> frozenset[str]:
        """The names that it binds to something with another name: ``import x as y``, ``y = x``."""
        return frozenset(definition.name for definition in self.definitions if _renames(definition))

    @cached_property
    def own_code(self) -> tuple[Part, ...]:
        """Its parts, if they are the module's own code."""
        return () if self.units else self.trees.parts

    @cached_property
    def called(self) -> frozenset[str]:
        """The (last) names by which its code calls anything."""
        return frozenset(name for part in self.trees.parts for name in index_of(part).called)

    @cached_property
    def units(self) -> tuple[UnitNodes, ...]:
        """The functions, methods and classes on which rules run; none where the group is the module's own code."""
        body = self.trees.body
        if self.class_facts is not None:
            return tuple(_class_units(self.trees))
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
            return (UnitNodes("function", body[0].name, body[0], self.trees.parts, ("unit", body[0])),)
        return ()


def facts_of(trees: Trees) -> GroupFacts:
    """The facts of a group, made when they are first asked for."""
    known: GroupFacts | None = trees.__dict__.get("_facts")
    if known is None:
        known = trees.__dict__["_facts"] = GroupFacts(trees)
    return known


def _renames(definition: Definition) -> bool:
    if definition.kind is Binding.IMPORT:
        return definition.imported.rpartition(".")[2] != definition.name
    return definition.kind is Binding.ASSIGNMENT and isinstance(definition.value, ast.Name | ast.Attribute)


def _class_units(trees: Trees) -> Iterator[UnitNodes]:
    whole = cast("ast.ClassDef", trees.body[0])
    if len(trees.parts) == 1:
        yield UnitNodes("class", whole.name, whole, trees.parts, ("unit", whole))
        return
    yield UnitNodes("class", whole.name, whole, (), ("unit", "class", whole))
    rest: list[Part] = [trees.parts[0]]
    for part in trees.parts[1:]:
        body = part.body
        if len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
            yield UnitNodes("method", f"{whole.name}.{body[0].name}", body[0], (part,), ("unit", body[0]))
        else:
            rest.append(part)
    yield UnitNodes("class body", whole.name, None, tuple(rest), ("unit", "body", *rest))
