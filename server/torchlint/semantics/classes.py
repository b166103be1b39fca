"""A class of the file as rules see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import cast

from torchlint.frozen import dataclass
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.kinds import Kind
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

    @property
    def method_names(self) -> tuple[str, ...]:
        """The names of the methods of the class itself."""
        return self.semantics.module.method_names(self.node)

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
        memo = self.semantics.module.memo
        return memo.get(("called from", self.node, names), lambda: self._called_from(names), frozenset())

    def _called_from(self, names: tuple[str, ...]) -> frozenset[FunctionNode]:
        owners = self.semantics.method_owners(self.node)
        found: dict[str, FunctionNode | None] = {}
        queue = [name for name in names if name in owners]
        while queue:
            name = queue.pop()
            if name not in found:
                method = found[name] = self.semantics.module.method(owners[name], name)
                used = self_attributes(method) if method is not None else ()
                queue += [attribute.attr for attribute in used if attribute.attr in owners]
        return frozenset(method for method in found.values() if method is not None)


def self_attributes(method: FunctionNode) -> Sequence[ast.Attribute]:
    """Each ``self.<name>`` in a method, in the order of the source."""
    known: list[ast.Attribute] | None = method.__dict__.get("_self_attributes")
    if known is None:  # depends on nothing outside the method
        name = first_parameter(method)
        nodes = cast("Iterator[ast.Attribute]", nodes_within(method, ast.Attribute))
        known = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == name]
        method.__dict__["_self_attributes"] = known
    return known
