"""Canonical dotted names of expressions: ``F.softmax`` is ``torch.nn.functional.softmax`` where ``F`` is imported so.

A name of this file itself starts with a dot (``.Net``). An expression that may be something unknown has no names.
"""

from __future__ import annotations

import ast

from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.nodes import scope_at
from torchlint.semantics.scopes import Binding, Definition, Scope
from torchlint.syntax import parent_of
from torchlint.torch_api import canonical
from torchlint.torch_api.known import is_known_name

_NO_NAMES: frozenset[str] = frozenset()
_DEEPEST = 8


class NameResolver:
    """Resolves expressions of one version of a file."""

    def __init__(self, module: ModuleFacts) -> None:
        self._module = module

    def names(self, expression: ast.expr | None, depth: int = 0) -> frozenset[str]:
        """All canonical names that an expression can have; empty if any of its definitions is unknown."""
        root = expression
        while root.__class__ is ast.Attribute:
            root = root.value
        if root.__class__ is not ast.Name or _is_of_unnamed(root) or depth > _DEEPEST:
            return _NO_NAMES
        table = self._module.memo.table("names")
        known: frozenset[str] | None = table.get(expression)
        if known is None:
            table[expression] = _NO_NAMES  # while it is being found
            known = table[expression] = self._names(expression, depth)
        return known

    def _names(self, expression: ast.expr | None, depth: int) -> frozenset[str]:
        if isinstance(expression, ast.Attribute):
            bases = self.names(expression.value, depth + 1)
            return frozenset(canonical(f"{base}.{expression.attr}") for base in bases)
        assert isinstance(expression, ast.Name)
        definitions = self.bindings(expression)
        if not definitions:
            return self._from_star_import(expression.id)
        found: set[str] = set()
        for definition in definitions:
            names = self._names_of_definition(definition, depth)
            if names is None:
                return _NO_NAMES
            found |= names
        return frozenset(found)

    def written(self, expression: ast.expr | None) -> str:
        """The dotted name of an expression as the imports of the file write it, before it is made canonical."""
        match expression:
            case ast.Attribute(value=value, attr=attribute):
                base = self.written(value)
                return f"{base}.{attribute}" if base else ""
            case ast.Name(id=name):
                imported = {
                    definition.imported if definition.kind is Binding.IMPORT else ""
                    for definition in self.definitions(name, scope_at(expression))
                }
                return imported.pop() if len(imported) == 1 else ""
            case _:
                return ""

    def bindings(self, name: ast.Name) -> tuple[Definition, ...]:
        """All bindings that a use of a name may mean; empty if there is none in the file."""
        found = self.definitions(name.id, scope_at(name))
        for position, definition in enumerate(found):
            if definition.kind is Binding.CLASS and _derives_from_its_name(definition):
                holder = _statement_of(name)
                if holder is definition.node:  # its header is evaluated before the class has the name
                    return found[:position] + found[position + 1 :]
                if parent_of(definition.node) is None and not isinstance(holder, ast.ClassDef):
                    return found[position:]
        return found

    def definitions(self, name: str, scope: Scope) -> tuple[Definition, ...]:
        """All bindings of ``name`` in the scope that a use in ``scope`` sees; empty if there is none in the file."""
        current: Scope | None = scope
        while current is not None and (current.parent is not None or current.of_member):
            visible = current is scope or not current.is_class
            if visible and name in current.definitions and name not in current.outer_names:
                return tuple(current.definitions[name])
            current = current.parent
        return self._module.definitions(name)

    def _names_of_definition(self, definition: Definition, depth: int) -> frozenset[str] | None:
        match definition.kind:
            case Binding.IMPORT:
                return frozenset((canonical(definition.imported),))
            case Binding.CLASS | Binding.FUNCTION:
                return frozenset((f".{definition.name}",))
            case Binding.ASSIGNMENT if not definition.path:
                value = definition.value
                if isinstance(value, ast.Constant) and value.value is None:
                    return _NO_NAMES  # `X = None` beside a conditional import
                if isinstance(value, ast.IfExp):
                    sides = [self.names(side, depth + 1) for side in (value.body, value.orelse)]
                    return sides[0] | sides[1] if all(sides) else None
                names = self.names(value, depth + 1)
                return names or None
            case Binding.DELETED | Binding.ANNOTATION:
                return _NO_NAMES
            case _:
                return None

    def _from_star_import(self, name: str) -> frozenset[str]:
        for module in reversed(self._module.stars()):
            full = canonical(f"{module}.{name}")
            if is_known_name(full):
                return frozenset((full,))
        return _NO_NAMES


def _derives_from_its_name(definition: Definition) -> bool:
    """``class Dataset(Dataset)``, ``class data(data.Dataset)``."""
    bases = definition.node.bases if isinstance(definition.node, ast.ClassDef) else ()
    return any(isinstance(part, ast.Name) and part.id == definition.name for base in bases for part in ast.walk(base))


def _statement_of(name: ast.Name) -> ast.AST | None:
    holder = parent_of(name)
    while isinstance(holder, ast.expr | ast.keyword):
        holder = parent_of(holder)
    return holder


def _is_of_unnamed(name: ast.Name) -> bool:
    """Whether a name is a local one that can only be what has no name: a parameter, what a loop or a call gives. Tells
    at once of most names, because it depends on nothing but the scopes around."""
    scope: Scope | None = scope_at(name)
    use = scope
    while scope is not None and (scope.parent is not None or scope.of_member):
        known = scope.unnamed.get(name.id)
        if known is None and name.id in scope.definitions and name.id not in scope.outer_names:
            known = scope.unnamed[name.id] = any(map(_is_unnamed, scope.definitions[name.id]))
        if known is not None and (scope is use or not scope.is_class):
            return known
        scope = scope.parent
    return False


def _is_unnamed(definition: Definition) -> bool:
    """Whether a definition gives something without a canonical name, whatever the rest of the file says."""
    match definition.kind:
        case Binding.ASSIGNMENT if not definition.path:
            value = definition.value
            if value.__class__ in (ast.Name, ast.Attribute, ast.IfExp):
                return False
            return not (isinstance(value, ast.Constant) and value.value is None)
        case Binding.IMPORT | Binding.CLASS | Binding.FUNCTION | Binding.DELETED | Binding.ANNOTATION:
            return False
        case _:
            return True
