"""Which files a program writes with ``torch.save`` and reads with ``torch.load``: whether two places mean one file."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import argument, enclosing_function
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics


def loads_own_file(semantics: Semantics, call: ast.Call) -> bool:
    """Whether the function that loads a file also writes it with ``torch.save``."""
    loaded = argument(call, 0, "f")
    if loaded is None:
        return False
    function = enclosing_function(call)
    return any(
        enclosing_function(other) is function
        and semantics.is_named(other.func, "torch.save")
        and is_same_file(semantics, loaded, argument(other, 1, "f"))
        for other in semantics.module.calls_of("save")
    )


def is_same_file(semantics: Semantics, one: ast.expr | None, other: ast.expr | None) -> bool:
    """Whether two expressions of one function mean the same file, path or buffer."""
    if one is None or other is None:
        return False
    first, second = _file(semantics, one), _file(semantics, other)
    return first is second or ast.dump(one) == ast.dump(other) or ast.dump(first) == ast.dump(second)


def _file(semantics: Semantics, expression: ast.expr) -> ast.expr:
    """What a file or path is made from: the path of ``with open(path, "wb") as f``, the ``BytesIO()`` of a buffer."""
    value = semantics.value_of(expression) or expression
    if isinstance(value, ast.Name):
        definitions = semantics.definitions(value)
        if len(definitions) == 1 and definitions[0].kind is Binding.WITH and definitions[0].value is not None:
            value = definitions[0].value
    match value:
        case (
            ast.Call(func=ast.Name(id="open"), args=[path, *_])
            | ast.Call(func=ast.Attribute(attr="open", value=path), args=[ast.Constant()])
        ):
            return semantics.value_of(path) or path
        case _:
            return value
