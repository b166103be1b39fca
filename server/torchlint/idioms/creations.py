"""The call that creates a tensor, behind what changes its shape and dtype."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics
from torchlint.torch_api import factory_facts

#: What may stand between the creation and a move without a difference to the result.
_BETWEEN = frozenset(
    "unsqueeze squeeze view reshape flatten expand repeat transpose permute t float double half bfloat16 long int bool "
    "contiguous".split()
)


def creation_of(semantics: Semantics, expression: ast.expr) -> ast.Call | None:
    """``torch.zeros(n)`` of ``torch.zeros(n)``, ``torch.zeros(n).view(2, -1).long()`` and the like; else None."""
    while (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr in _BETWEEN
        and not semantics.names(expression.func)
    ):
        expression = expression.func.value
    if not isinstance(expression, ast.Call):
        return None
    name = semantics.name(expression.func)
    return expression if name and factory_facts(name) is not None else None
