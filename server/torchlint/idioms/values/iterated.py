"""What a loop or comprehension goes over, where the elements are written out."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.semantics.scopes import Definition
from torchlint.semantics.semantics import Semantics

_Way = tuple[int | None, ...]


def elements_iterated(semantics: Semantics, definition: Definition) -> tuple[Sequence[ast.expr], _Way]:
    """The elements of a display or comprehension that a variable of a loop takes one after the other, perhaps in step
    with others (``zip``, ``enumerate``), and the way into each; no elements where they are not written out."""
    source, way = definition.value, definition.path
    match source:
        case ast.Call(func=ast.Name(id="zip" | "enumerate" as name), args=args, keywords=[]):
            given = args if name == "zip" else [None, *args[:1]]
            if not way or way[0] is None or not 0 <= way[0] < len(given):
                return (), ()
            source, way = given[way[0]], way[1:]
    listed = semantics.value_of(source)
    match listed:
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return [element], way
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return ([] if any(isinstance(element, ast.Starred) for element in elements) else elements), way
        case _:
            return (), ()
