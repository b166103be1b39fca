"""Code that is meant to raise: a test that expects the error, or a ``try`` that catches it."""

from __future__ import annotations

import ast

from torchlint.syntax import parent_of

_EXPECTING = frozenset(("raises", "assertRaises", "assertRaisesRegex", "suppress", "assertWarns", "warns"))
_CAUGHT = frozenset(("BaseException", "Exception", "ValueError", "TypeError", "RuntimeError", "AssertionError"))


def is_expected_to_raise(node: ast.AST) -> bool:
    """Whether the code around a node deals with an error: ``with pytest.raises(...)``, ``self.assertRaises(..., f)``,
    or the body of a ``try`` that catches what wrong arguments raise."""
    child, holder = node, parent_of(node)
    while holder is not None:
        match holder:
            case ast.Try(body=body, handlers=handlers) if child in body:
                if any(_catches(handler) for handler in handlers):
                    return True
        child, holder = holder, parent_of(holder)
    return is_asserted_to_raise(node)


def is_asserted_to_raise(node: ast.AST) -> bool:
    """Whether a test expects the error that a node raises: ``with pytest.raises(...)``, ``assertRaises(..., f)``."""
    holder = parent_of(node)
    while holder is not None:
        match holder:
            case ast.With(items=items) | ast.AsyncWith(items=items):
                if any(_expects(item.context_expr) for item in items):
                    return True
            case ast.Call() if _expects(holder):
                return True
        holder = parent_of(holder)
    return False


def _expects(context: ast.expr) -> bool:
    match context:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _EXPECTING
        case _:
            return False


def _catches(handler: ast.ExceptHandler) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(item is None or (isinstance(item, ast.Name) and item.id in _CAUGHT) for item in types)
