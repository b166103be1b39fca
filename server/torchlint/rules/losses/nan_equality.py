from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_operation
from torchlint.semantics.literals import literal_of
from torchlint.semantics.unit import Unit


class NanEquality(Rule):
    """## What it does

    Reports a comparison with NaN: `x == torch.nan`, `x != float("nan")`.

    ## Why is this bad?

    NaN is equal to nothing, not even to itself: `==` is always false and `!=` always true, for every element.

    ## Example

    ```python
    import torch


    def has_nan(x: torch.Tensor):
        return (x == torch.nan).any()
    ```

    ## Use instead

    ```python
    import torch


    def has_nan(x: torch.Tensor):
        return (torch.isnan(x)).any()
    ```

    ## Exceptions

    `x != x`, which is true for NaN. `math.nan`, `numpy.nan` and `float("nan")` are reported where the other side is a
    tensor; `torch.nan` always.

    ## References

    - [torch.isnan](https://docs.pytorch.org/docs/stable/generated/torch.isnan.html)
    """

    code = "TL313"
    name = "nan-equality"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "NaN is equal to nothing: the comparison has the same answer for every element."

    @on_operation(ast.Eq, ast.NotEq)
    def check(self, node: ast.Compare, unit: Unit) -> Iterator[Diagnosis]:
        equal = isinstance(node.ops[0], ast.Eq)
        for nan, value in ((node.comparators[0], node.left), (node.left, node.comparators[0])):
            kind = unit.semantics.kind(value) if _is_nan(nan, unit) else None
            is_tensor = kind is not None and kind.is_tensor
            if not is_tensor and not unit.semantics.is_named(nan, "torch.nan"):
                continue
            answer = "false" if equal else "true"
            message = f"`{ast.unparse(node)}` is always {answer}: NaN is equal to nothing."
            yield self.found(node, message, fixes=[_plan(node, value, equal)] if is_tensor else [])
            return


def _plan(node: ast.Compare, value: ast.expr, equal: bool) -> FixPlan:
    return FixPlan("Use `torch.isnan`", "unsafe", lambda edit: _use_isnan(edit, node, value, equal))


def _is_nan(expression: ast.expr, unit: Unit) -> bool:
    if unit.semantics.is_named(expression, "torch.nan", "math.nan", "numpy.nan"):
        return True
    match expression:
        case ast.Call(func=ast.Name(id="float"), args=[text]):
            value = literal_of(text)
            return isinstance(value, str) and value.strip("+-").lower() == "nan"
        case _:
            return False


def _use_isnan(edit: Editor, node: ast.Compare, value: ast.expr, equal: bool) -> None:
    call = f"{edit.spell('torch.isnan')}({edit.source(value)})"
    edit.replace(node, call if equal else f"~{call}")
