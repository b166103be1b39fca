"""Whole numbers that the code shows: literals, arithmetic with them, and what is bound to such once."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.scopes import AttributeWrite, Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 8


def whole_number(expression: ast.expr | None, semantics: Semantics, depth: int = 0) -> int | None:
    """The number that an expression is for certain: literals, arithmetic with them, names and attributes of ``self``
    that are bound to such once."""
    if expression is None or depth > _DEEPEST:
        return None
    value = semantics.literal(expression)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match expression:
        case ast.BinOp(left=left, op=op, right=right):
            first, second = whole_number(left, semantics, depth + 1), whole_number(right, semantics, depth + 1)
            return _calculated(first, op, second) if first is not None and second is not None else None
        case ast.Name():
            if [item.kind for item in semantics.bindings(expression)] != [Binding.ASSIGNMENT]:
                return None
            found = semantics.value_of(expression)
            return whole_number(found, semantics, depth + 1) if found is not expression else None
        case ast.Attribute(value=owner, attr=name):
            return _attribute_number(semantics.class_of_self(owner), name, semantics, depth)
        case _:
            return None


def _calculated(left: int, op: ast.operator, right: int) -> int | None:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Pow() if 0 <= right <= 16 and abs(left) <= 1024:
            return left**right  # type: ignore[no-any-return]
        case _:
            return None


def _attribute_number(owner: ast.ClassDef | None, name: str, semantics: Semantics, depth: int) -> int | None:
    """``self.<name>``, where the constructor or the body of the class writes it once and no other class of the file can
    write it."""
    if owner is None or semantics.module.is_base(owner.name) or semantics.local_bases(owner):
        return None
    writes = semantics.module.attribute_writes(owner, name)
    constants = semantics.module.body_definitions(owner, name) if not writes else ()
    if len(constants) == 1 and constants[0].kind is Binding.ASSIGNMENT and not constants[0].path:
        return whole_number(constants[0].value, semantics, depth + 1)
    if len(writes) != 1 or not _is_plain(writes[0]) or semantics.module.body_definitions(owner, name):
        return None
    return whole_number(writes[0].value, semantics, depth + 1)


def _is_plain(write: AttributeWrite) -> bool:
    """Whether a write is ``self.name = value`` right in the body of the constructor."""
    function = enclosing_function(write.statement)
    return (
        not write.path
        and not write.augmented
        and function is not None
        and function.name == "__init__"
        and parent_of(write.statement) is function
    )
