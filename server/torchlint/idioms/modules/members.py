"""Loops over the parts of a module: ``for child in model.children()``."""

from __future__ import annotations

import ast

from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

#: Iterators over modules, and where in one of their elements the module stands.
_ITERATORS: dict[str, tuple[int | None, ...]] = {
    "modules": (),
    "children": (),
    "named_modules": (1,),
    "named_children": (1,),
}


def module_iterator(expression: ast.expr, semantics: Semantics) -> str | None:
    """The method ("children", "named_modules", ...) whose loop gives a name its value, one module after the other.

    None for anything that is not known to be a module of such a loop.
    """
    if not isinstance(expression, ast.Name):
        return None
    found: set[str | None] = set()
    for definition in semantics.definitions(expression):
        source = definition.value
        loops = definition.kind in (Binding.LOOP, Binding.COMPREHENSION)
        if not loops or not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
            return None
        method = source.func.attr
        if _ITERATORS.get(method, (None,)) != definition.path or not _is_of_module(source.func.value, semantics):
            return None
        found.add(method)
    return next(iter(found)) if len(found) == 1 else None


def _is_of_module(receiver: ast.expr, semantics: Semantics) -> bool:
    """Whether something is a module, or unknown (then the method's name is evidence enough)."""
    owner = semantics.class_of_self(receiver)
    if owner is not None:
        return semantics.is_module_class(owner)
    kind = semantics.kind(receiver)
    return kind is None or kind.is_module
