"""The call that creates a tensor, behind what changes its shape and dtype."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics
from torchlint.torch_api import factory_facts

#: What gives the same elements in another shape, in memory of its own or laid out as it was.
SHAPES = frozenset("unsqueeze squeeze view reshape flatten repeat transpose permute t contiguous".split())
#: What may stand between the creation and a move without a difference to the result.
_BETWEEN = SHAPES | frozenset("expand float double half bfloat16 long int bool type tril triu".split())
#: The same as functions, which take the tensor first.
_FUNCTIONS = ("torch.tril", "torch.triu")


def creation_of(semantics: Semantics, expression: ast.expr, through: frozenset[str] = _BETWEEN) -> ast.Call | None:
    """``torch.zeros(n)`` of ``torch.zeros(n)``, ``torch.zeros(n).view(2, -1).long()`` and the like; else None.

    ``through``: the methods that may stand behind it.
    """
    while isinstance(expression, ast.Call):
        function = expression.func
        named = semantics.names(function)
        if isinstance(function, ast.Attribute) and function.attr in through and not named:
            expression = function.value
        elif through is _BETWEEN and expression.args and semantics.is_named(function, *_FUNCTIONS):
            expression = expression.args[0]
        else:
            break
    if not isinstance(expression, ast.Call):
        return None
    name = semantics.name(expression.func)
    return expression if name and factory_facts(name) is not None else None
