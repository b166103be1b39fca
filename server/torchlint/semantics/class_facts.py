"""What a class of the file is made of: its methods, what they write to ``self``, what its body binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.semantics.index import PartIndex
from torchlint.semantics.scopes import AttributeWrite, Definition, FunctionNode
from torchlint.syntax import parent_of


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


def class_facts(
    header: ast.ClassDef, body: tuple[ast.stmt, ...], indexes: tuple[PartIndex, ...], whole: ast.ClassDef | None
) -> ClassFacts:
    facts = ClassFacts(header, body, whole=whole)
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            facts.methods[statement.name] = statement
    for index in indexes:
        top = index.scopes.get(header, index.top)
        for name, definitions in top.definitions.items():
            facts.body_definitions.setdefault(name, []).extend(definitions)
        for write in _own_writes(index, facts):
            facts.writes.setdefault(write.name, []).append(write)
    return facts


def _own_writes(index: PartIndex, facts: ClassFacts) -> Iterator[AttributeWrite]:
    """What the methods in a part write to ``self``."""
    for function, scope in index.scopes.items():
        method = _method_of(function, facts) if scope.writes else None
        own = first_parameter(method) if method is not None else None
        yield from (write for write in scope.writes if write.base == own)


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
