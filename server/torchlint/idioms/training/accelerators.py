"""Hugging Face Accelerate: what is an ``Accelerator``, and what went through its ``prepare``."""

from __future__ import annotations

import ast

from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
_PREPARING = frozenset(("prepare", "prepare_model", "prepare_optimizer", "prepare_data_loader"))
_DEEPEST = 5


def is_accelerator(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> bool:
    """Whether an expression is an ``Accelerator`` of Accelerate, by the call that made it or by an annotation."""
    if depth > _DEEPEST:
        return False
    match expression:
        case ast.Call(func=function):
            return semantics.is_named(function, *ACCELERATORS)
        case ast.Name():
            definitions = semantics.definitions(expression)
            return bool(definitions) and all(
                (item.kind is Binding.ASSIGNMENT and not item.path and is_accelerator(semantics, item.value, depth + 1))
                or (isinstance(item.node, ast.arg) and _is_annotated(semantics, item.node))
                for item in definitions
            )
        case ast.Attribute(value=owner, attr=attribute):
            holder = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(holder, attribute) if holder is not None else ()
            return bool(writes) and all(is_accelerator(semantics, item.value, depth + 1) for item in writes)
        case _:
            return False


def prepared_by(semantics: Semantics, expression: ast.expr | None) -> ast.Call | None:
    """The call of ``accelerator.prepare`` that an object comes out of; None where the file does not show one."""
    match expression:
        case ast.Name():
            values = [item.value for item in semantics.definitions(expression) if item.kind is Binding.ASSIGNMENT]
        case ast.Attribute(value=owner, attr=attribute):
            holder = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(holder, attribute) if holder is not None else ()
            values = [item.value for item in writes]
        case _:
            return None
    return next((value for value in values if isinstance(value, ast.Call) and is_prepare(semantics, value)), None)


def is_prepare(semantics: Semantics, value: ast.AST | None) -> bool:
    """Whether an expression is ``accelerator.prepare(...)``, or ``prepare_model`` and the like."""
    match value:
        case ast.Call(func=ast.Attribute(attr=method, value=receiver)) if method in _PREPARING:
            return is_accelerator(semantics, receiver)
        case _:
            return False


def _is_annotated(semantics: Semantics, parameter: ast.arg) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2] == "Accelerator"
    return semantics.is_named(annotation, *ACCELERATORS)
