"""Asking semantics about a piece of code by its text."""

from __future__ import annotations

import ast

from torchlint.semantics.index import index_of
from torchlint.semantics.kinds import Kind
from torchlint.semantics.memo import Memo
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import SyntaxModule, parse_module, part_of


class Meaning:
    """The semantics of a text, and its nodes by their source."""

    def __init__(self, text: str) -> None:
        self.syntax: SyntaxModule = parse_module(text)
        assert not list(self.syntax.problems())
        self.semantics = Semantics(ModuleFacts(self.syntax, Memo()))

    def expression(self, source: str, occurrence: int = -1) -> ast.expr:
        """The expression that reads ``source``; of several the one at ``occurrence`` (the last)."""
        found: list[ast.expr] = []
        for group in self.syntax.groups:
            for part in group.parts:
                for nodes in index_of(part).nodes.values():
                    for node in nodes:
                        loaded = not isinstance(getattr(node, "ctx", None), ast.Store)
                        if isinstance(node, ast.expr) and loaded and ast.unparse(node) == source:
                            found.append(node)
        row = {part: self.syntax.row_of(part) for group in self.syntax.groups for part in group.parts}
        found.sort(key=lambda node: (row[part_of(node)] + node.lineno - part_of(node).lead, node.col_offset))
        return found[occurrence]

    def names(self, source: str, occurrence: int = -1) -> set[str]:
        return set(self.semantics.names(self.expression(source, occurrence)))

    def kind(self, source: str, occurrence: int = -1) -> Kind | None:
        return self.semantics.kind(self.expression(source, occurrence))

    def what(self, source: str, occurrence: int = -1) -> str | None:
        """The kind as ``proven tensor`` or ``likely module``."""
        kind = self.kind(source, occurrence)
        return f"{kind.grade.name.lower()} {kind.what.value}" if kind is not None else None

    def function(self, name: str) -> FunctionNode:
        for group in self.syntax.groups:
            for part in group.parts:
                for function in index_of(part).functions():
                    if function.name == name:
                        return function
        raise LookupError(name)
