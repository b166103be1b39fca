from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method, on_operation
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import shortened
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit


class NanEquality(Rule):
    """## What it does

    Reports a comparison with NaN: `x == torch.nan`, `x != float("nan")`, `torch.eq(x, math.nan)`.

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

    `x != x`, which is true for NaN. What is known to be an array, a text or the like is left alone, unless it is
    compared with `torch.nan`.

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
        yield from self._check(node, node.left, node.comparators[0], equal, unit)

    @on_call("torch.eq", "torch.ne", "torch.not_equal")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if len(call.args) == 2:
            yield from self._check(call, call.args[0], call.args[1], last_name(call.func) == "eq", unit)

    @on_method("eq", "ne", "not_equal")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        match call:
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=[other]) if not unit.semantics.names(
                call.func
            ):
                yield from self._check(call, value, other, name == "eq", unit)

    def _check(self, node: ast.expr, left: ast.expr, right: ast.expr, equal: bool, unit: Unit) -> Iterator[Diagnosis]:
        for nan, value in ((right, left), (left, right)):
            if not _is_nan(nan, unit) or _is_nan(value, unit):
                continue
            kind = unit.semantics.kind(value)
            known_other = kind is not None and not kind.is_tensor and kind.what is not What.NUMBER
            if known_other and not unit.semantics.is_named(nan, "torch.nan"):
                continue
            answer = "false" if equal else "true"
            message = f"`{shortened(node, 60)}` is always {answer}: NaN is equal to nothing."
            yield self.found(node, message, fixes=_plans(node, value, equal, kind))
            return


def _plans(node: ast.expr, value: ast.expr, equal: bool, kind: Kind | None) -> list[FixPlan]:
    if kind is None or not (kind.is_tensor or kind.what is What.NUMBER):
        return []
    function, negation = ("torch.isnan", "~") if kind.is_tensor else ("math.isnan", "not ")

    def ask(edit: Editor) -> None:
        call = f"{edit.spell(function)}({edit.source(value)})"
        edit.replace(node, call if equal else negation + call)

    return [FixPlan(f"Use `{function}`", "unsafe", ask)]


def _is_nan(expression: ast.expr, unit: Unit) -> bool:
    if unit.semantics.is_named(expression, "torch.nan", "math.nan", "numpy.nan"):
        return True
    match expression:
        case ast.Call(func=ast.Name(id="float"), args=[text]):
            value = literal_of(text)
            return isinstance(value, str) and value.strip("+-").lower() == "nan"
        case _:
            return False
