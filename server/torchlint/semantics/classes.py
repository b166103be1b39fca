"""A class of the file as rules see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torchlint.semantics.kinds import Kind
from torchlint.semantics.module import first_parameter
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import AttributeWrite, FunctionNode
from torchlint.semantics.semantics import Semantics


@dataclass(frozen=True, eq=False)
class ClassView:
    """One class; ``node`` is its header for a top-level class (its members are not inside: use ``methods``)."""

    semantics: Semantics
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def body(self) -> tuple[ast.stmt, ...]:
        """The members of the class."""
        return self.semantics.module.class_facts(self.node).body

    @cached_property
    def is_module(self) -> bool:
        """Whether this is a subclass of ``torch.nn.Module`` for certain."""
        return self.semantics.is_module_class(self.node)

    @property
    def methods(self) -> tuple[FunctionNode, ...]:
        """The methods of the class itself."""
        return self.semantics.module.methods(self.node)

    def method(self, name: str) -> FunctionNode | None:
        """A method of the class itself (``Semantics.find_method`` looks in its bases too)."""
        return self.semantics.module.method(self.node, name)

    def writes(self, attribute: str) -> tuple[AttributeWrite, ...]:
        """Each ``self.<attribute> = ...`` in the methods of the class."""
        return self.semantics.module.attribute_writes(self.node, attribute)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that methods of the class write on ``self``."""
        return self.semantics.module.attributes(self.node)

    def attribute_kind(self, attribute: str) -> Kind | None:
        """What ``self.<attribute>`` is."""
        return self.semantics.attribute_kind(self.node, attribute)

    def reads(self, attribute: str) -> Iterator[ast.Attribute]:
        """Each ``self.<attribute>`` that is read in the methods of the class."""
        for method in self.methods:
            for node in self_attributes(method):
                if node.attr == attribute and isinstance(node.ctx, ast.Load):
                    yield node

    def called_from(self, *names: str) -> frozenset[FunctionNode]:
        """The methods with these names and all methods of the class that they call on ``self``."""
        found: set[FunctionNode] = set()
        queue = [method for name in names if (method := self.semantics.find_method(self.node, name)) is not None]
        while queue:
            method = queue.pop()
            if method in found:
                continue
            found.add(method)
            for attribute in self_attributes(method):
                called = self.semantics.find_method(self.node, attribute.attr)
                if called is not None:
                    queue.append(called)
        return frozenset(found)


def self_attributes(method: FunctionNode) -> Iterator[ast.Attribute]:
    """Each ``self.<name>`` in a method, in the order of the source."""
    name = first_parameter(method)
    for node in nodes_within(method, ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if isinstance(node.value, ast.Name) and node.value.id == name:
            yield node
