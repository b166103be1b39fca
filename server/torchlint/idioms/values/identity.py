"""Whether two expressions denote one object: what each name, attribute of ``self`` and conversion leads back to."""

from __future__ import annotations

import ast

from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF
from torchlint.semantics.nodes import element_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

_DEEPEST = 8


def object_of(semantics: Semantics, expression: ast.expr | None) -> ast.AST | None:
    """The node that stands for the object of an expression: the call that makes it, or the parameter that receives it.
    Two expressions of one method or function with the same node denote the same object. None where that is not certain.

    Names with a single definition, attributes of ``self`` that are written once in the file, and conversions of
    modules (``.to(device)``) are followed.
    """
    for _ in range(_DEEPEST):
        match expression:
            case ast.Name():
                definitions = semantics.definitions(expression)
                if len(definitions) != 1:
                    return None
                (definition,) = definitions
                if definition.kind is Binding.PARAMETER:
                    return definition.node
                if definition.kind is not Binding.ASSIGNMENT or definition.value is None:
                    return None
                expression = element_of(definition.value, definition.path)
            case ast.Attribute():
                expression = written_value(semantics, expression)
            case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in MODULE_RETURNS_SELF:
                kind = semantics.kind(base)
                if kind is not None and not kind.is_module:
                    return expression
                expression = base
            case ast.Call():
                return expression
            case _:
                return None
    return None


def written_value(semantics: Semantics, attribute: ast.Attribute) -> ast.expr | None:
    """What ``self.<name>`` is given, where the file writes it at one place only."""
    owner = semantics.class_of_self(attribute.value)
    if owner is None or semantics.module.writes_attribute_of_others(attribute.attr):
        return None
    writes = semantics.module.attribute_writes(owner, attribute.attr)
    if len(writes) != 1 or writes[0].augmented or writes[0].value is None:
        return None
    return element_of(writes[0].value, writes[0].path)


def is_alias(expression: ast.expr | None) -> bool:
    """Whether a value is an object that has another name already, converted in place or not: ``net``,
    ``self.net.to(device)``."""
    while isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        if expression.func.attr not in MODULE_RETURNS_SELF:
            return False
        expression = expression.func.value
    return isinstance(expression, ast.Name) or (
        isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name)
    )
