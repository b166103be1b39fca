"""Fixes for one layer that is put several times into a container."""

from __future__ import annotations

import ast

from torchlint.fixes import Editor
from torchlint.rules.base import FixPlan


def product_fix(product: ast.BinOp, display: ast.List, count: ast.expr) -> FixPlan:
    """Build each element of a multiplied list."""
    return FixPlan(
        "Build each one in a comprehension", "unsafe", lambda edit: _to_comprehension(edit, product, display, count)
    )


def _to_comprehension(edit: Editor, product: ast.BinOp, display: ast.List, count: ast.expr) -> None:
    """``[layer] * n`` becomes ``[layer for _ in range(n)]``; layers with names are copied."""
    built = [_built(edit, element) for element in display.elts]
    times = f"for _ in range({edit.source(count)})"
    if len(built) == 1:
        edit.replace(product, f"[{built[0]} {times}]")
    else:
        edit.replace(product, f"[layer {times} for layer in ({', '.join(built)})]")


def _built(edit: Editor, element: ast.expr) -> str:
    if not isinstance(element, ast.Name | ast.Attribute):
        return edit.source(element)
    return f"{_copier(edit)}({edit.source(element)})"


def deepcopy(edit: Editor, element: ast.expr) -> None:
    """Put ``copy.deepcopy(...)`` around a layer."""
    edit.wrap(element, f"{_copier(edit)}(", ")")


def _copier(edit: Editor) -> str:
    return edit.spell("copy.deepcopy")
