"""The piece of a file that rules look at: a function, a method, a class, or the module's own code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

from torchlint.frozen import dataclass
from torchlint.semantics.classes import ClassView
from torchlint.semantics.expansion import Expander
from torchlint.semantics.flow import EMPTY, Flow, only_passes_on
from torchlint.semantics.group_facts import UnitKind, UnitNodes
from torchlint.semantics.index import PartIndex, index_of
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.tracing import Tracer
from torchlint.syntax import parent_of
from torchlint.torch_api.torch_range import TorchRange

_NodeT = TypeVar("_NodeT", bound=ast.AST)


@dataclass(frozen=True, eq=False)
class Root:
    """Where a flow begins: a function, or the module's own code (``function`` is None). The flow is made when a rule
    first looks at it."""

    function: FunctionNode | None
    make: Callable[[], Flow]

    @cached_property
    def flow(self) -> Flow:
        return self.make()

    @property
    def name(self) -> str:
        return self.function.name if self.function is not None else "<module>"


class Unit:
    """What a rule is given: the nodes of one unit, and the ``semantics`` of the whole file to ask."""

    def __init__(self, nodes: UnitNodes, semantics: Semantics, torch: TorchRange | None, in_notebook: bool) -> None:
        self._nodes = nodes
        self.semantics = semantics
        #: The releases of torch that the project allows; None where nothing is known.
        self.torch = torch
        self.in_notebook = in_notebook
        self.indexes: tuple[PartIndex, ...] = tuple(index_of(part) for part in nodes.parts)

    @property
    def kind(self) -> UnitKind:
        return self._nodes.kind

    @property
    def name(self) -> str:
        return self._nodes.name

    @property
    def is_whole_class(self) -> bool:
        """Whether this is a class whose members are units by themselves: it has no code but theirs."""
        return isinstance(self._nodes.node, ast.ClassDef) and not self._nodes.parts

    def all(self, node_type: type[_NodeT], *others: type[_NodeT]) -> Sequence[_NodeT]:
        """The nodes of some exact types in the unit, in the order of the source for each type."""
        if len(self.indexes) == 1:
            return self.indexes[0].all(node_type, *others)
        return [node for index in self.indexes for node in index.all(node_type, *others)]

    def classes(self) -> Iterator[ClassView]:
        """The classes of the unit."""
        if self.is_whole_class:
            for facts in self.semantics.module.classes():
                if facts.whole is self._nodes.node:
                    yield ClassView(self.semantics, facts.header)
            return
        for found in self.all(ast.ClassDef):
            if self._nodes.kind != "class body" or parent_of(found) is not None:
                yield ClassView(self.semantics, found)

    def functions(self) -> Iterator[FunctionNode]:
        """All functions and methods of the unit, nested ones too."""
        for index in self.indexes:
            yield from index.functions()

    def reached(self, wanted: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
        """The sets of ``wanted`` of which the unit calls a name, directly or through functions of this file."""
        parts = self._nodes.parts
        found = self.semantics.module.reached(parts, wanted) if parts else ()
        return frozenset().union(*found) if len(found) != 1 else found[0]

    def roots(self) -> Iterator[Root]:
        """The flows that begin in the unit. Whether it calls what matters in a flow is told by ``reached``, first."""
        for function in self.functions():
            if not _is_nested(function):
                yield Root(function, partial(flow_of, self.semantics, function))
        if self._nodes.kind == "module":
            yield Root(None, self._module_flow)

    def working_roots(self, asked: frozenset[str]) -> Iterator[Root]:
        """The same without those that only pass on to another function, which is a root itself. ``asked``: the methods
        that matter to whoever looks at a root of this unit."""
        for root in self.roots():
            key = ("passes on", root.function)
            memo = self.semantics.module.memo
            if not memo.cached(key, partial(only_passes_on, root.flow, asked), False):
                yield root

    def outermost_roots(self) -> Iterator[Root]:
        """The same without the functions that something in the file calls."""
        for root in self.roots():
            if root.function is None or not self.semantics.callers(root.function):
                yield root

    def _module_flow(self) -> Flow:
        parts = self._nodes.parts

        def compute() -> Flow:
            tracer = Tracer(self.semantics)
            body = [statement for part in parts for statement in part.body]
            return Expander(tracer).module(tracer.module(body))

        return self.semantics.module.memo.get(("module flow", *parts), compute, EMPTY)


def flow_of(semantics: Semantics, function: FunctionNode) -> Flow:
    """The flow of a function with the calls of functions of this file followed."""

    def compute() -> Flow:
        return Expander(Tracer(semantics)).function(function)

    return semantics.module.memo.get(("expanded flow", function), compute, EMPTY)


def _is_nested(function: FunctionNode) -> bool:
    parent = parent_of(function)
    while parent is not None:
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return True
        parent = parent_of(parent)
    return False
