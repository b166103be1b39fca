"""Calls of ``torch.einsum`` with two tensors and a literal equation."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.semantics.literals import literal_of
from torchlint.semantics.semantics import Semantics


@dataclass(frozen=True, eq=False)
class Equation:
    """``einsum("bhid,bhjd->bhij", first, second)``."""

    inputs: tuple[str, str]
    output: str
    first: ast.expr
    second: ast.expr


def equation_of(semantics: Semantics, node: ast.AST | None) -> Equation | None:
    """The equation of a call, with ``.`` for an ellipsis; None where it is not written out or has a repeated letter."""
    if not isinstance(node, ast.Call) or not semantics.is_named(node.func, "torch.einsum") or len(node.args) != 3:
        return None
    text = literal_of(node.args[0])
    if not isinstance(text, str) or node.keywords or any(isinstance(item, ast.Starred) for item in node.args):
        return None
    inputs, arrow, output = text.replace(" ", "").replace("...", ".").partition("->")
    first, comma, second = inputs.partition(",")
    if not arrow or not comma or "," in second or any(len(set(part)) != len(part) for part in (first, second, output)):
        return None
    return Equation((first, second), output, node.args[1], node.args[2])
