from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.values.formulas import applied, complement, terms, without_epsilon
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method, on_operation
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_TO_WHOLE = ("floor", "ceil", "round", "trunc", "long", "int")
_CLAMPS = frozenset(("clamp", "clamp_min", "clamp_max", "clip", "maximum"))


@dataclass(frozen=True, eq=False)
class _Form:
    """An unstable formula: what replaces it, why, and the text of the replacement (None: no fix). ``flattened``: what
    an epsilon that keeps it from ``-inf`` makes all the same."""

    replacement: str
    reason: str
    write: Callable[[Editor], str] | None
    flattened: str = ""


class UnstableLog(Rule):
    """## What it does

    Reports logarithms and exponentials that overflow or lose all digits, where torch has a stable function:
    `log(softmax(x))`, `log(sigmoid(x))`, `log(1 - sigmoid(x))`, `log(exp(x).sum())`, `log(1 + exp(x))`, `log(1 + x)`
    and `exp(x) - 1`. With a small number added or a clamp in between it is only a hint.

    ## Why is this bad?

    `softmax` and `sigmoid` give exactly 0 for large differences, and the logarithm of that is `-inf` with a gradient of
    NaN. `exp` overflows from about 88 on in float32. `1 + x` drops an `x` below 1e-7.

    ## Example

    ```python
    import torch


    def log_probabilities(logits):
        return torch.log(torch.softmax(logits, dim=-1))
    ```

    ## Use instead

    ```python
    import torch


    def log_probabilities(logits):
        return torch.log_softmax(logits, dim=-1)
    ```

    ## Exceptions

    `log(1 + x)` is a hint: digits are lost only near 0, and counts are not. A logarithm of anything else.
    `exp(x) - 1`, or a product with it, to which something else is added, or which is rounded to whole numbers: what it
    lacks is rounded away. Numbers of Python and arrays of NumPy are left alone.

    ## References

    - [torch.logsumexp](https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html)
    - [torch.nn.functional.logsigmoid](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.logsigmoid.html)
    """

    code = "TL310"
    name = "unstable-log"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The formula overflows or loses its digits; torch has a stable function for it."

    @on_call("torch.log")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        operand = argument(call, 0, "input")
        if operand is not None and len(call.args) + len(call.keywords) == 1:
            yield from self._log(call, operand, unit)

    @on_method("log")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if not call.args and not call.keywords and not unit.semantics.names(call.func):
            yield from self._log(call, call.func.value, unit)

    @on_operation(ast.Sub)
    def check_difference(self, node: ast.BinOp, unit: Unit) -> Iterator[Diagnosis]:
        if literal_of(node.right) != 1 or _is_summand(node):
            return
        exponent = _torch_operand(node.left, unit, "exp")
        if exponent is None or _is_rounded(node) or _is_written_out(exponent, unit):
            return
        form = _Form(
            "expm1", "for a small exponent no digit is left", lambda edit: _call(edit, "torch.expm1", exponent)
        )
        yield self._report(node, form, guarded=False)

    def _log(self, call: ast.Call, operand: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        inner, guarded = _without_guard(operand)
        value, is_bound_guarded = _without_guard(_bound_to(inner, unit))
        form = _log_form(value, unit, is_direct=value is inner)
        guarded |= is_bound_guarded
        if form is not None and not (guarded and form.replacement == "log1p"):
            form = (
                replace(form, reason=f"its epsilon flattens {form.flattened}") if guarded and form.flattened else form
            )
            yield self._report(call, form, guarded or _is_selected(call, unit))

    def _report(self, node: ast.expr, form: _Form, guarded: bool) -> Diagnosis:
        message = f"{_shown(node)} is unstable, {form.reason}: `{form.replacement}` computes it in one step."
        severity = Severity.HINT if guarded or form.replacement == "log1p" else None  # counts are never small
        fixes = []
        write = form.write
        if write is not None:
            fixes = [FixPlan(f"Use `{form.replacement}`", "unsafe", lambda edit: edit.replace(node, write(edit)))]
        return self.found(node, message, fixes=fixes, severity=severity)


def _log_form(value: ast.expr, unit: Unit, is_direct: bool) -> _Form | None:
    """What the logarithm of ``value`` is better computed with."""
    logits = _logits(value, unit, "softmax")
    if logits is not None:
        assert isinstance(value, ast.Call)
        is_function = is_direct and not _is_layer(value, unit, "torch.nn.Softmax")
        return _Form(
            "log_softmax",
            "for a small probability it is `-inf`",
            _renamed(value, "log_softmax") if is_function else None,
            "small probabilities",
        )
    logits = _logits(value, unit, "sigmoid")
    if logits is not None:
        write = _written("torch.nn.functional.logsigmoid", logits) if is_direct else None
        return _Form("logsigmoid", "for a small probability it is `-inf`", write, "small probabilities")
    other = complement(value)
    probability = _bound_to(other, unit) if other is not None else None
    logits = _logits(probability, unit, "sigmoid") if probability is not None else None
    is_direct = is_direct and probability is other
    if logits is not None:
        write = _written("torch.nn.functional.logsigmoid", logits, negated=True) if is_direct else None
        return _Form("logsigmoid(-x)", "for a probability near 1 it is `-inf`", write, "probabilities near 1")
    summed = _summed_exponents(value, unit)
    if summed is not None:
        assert isinstance(value, ast.Call)
        return _Form(
            "logsumexp", "the exponentials overflow from 88 on", _logsumexp(value, *summed) if is_direct else None
        )
    return _log_of_one_plus(value, unit, is_direct)


def _log_of_one_plus(value: ast.expr, unit: Unit, is_direct: bool) -> _Form | None:
    parts = terms(value)
    if not isinstance(value, ast.BinOp) or len(parts) != 2 or not is_direct:
        return None
    for (sign, one), (other_sign, other) in (parts, parts[::-1]):
        if literal_of(one) != 1 or sign != 1 or other_sign != 1:
            continue
        exponent = _torch_operand(other, unit, "exp")
        if exponent is not None and _is_negative(exponent, unit):
            return None
        if exponent is not None:
            return _Form(
                "softplus", "the exponential overflows from 88 on", _written("torch.nn.functional.softplus", exponent)
            )
        kind = unit.semantics.kind(other)
        if kind is not None and kind.is_tensor and not _is_whole(other, unit):
            return _Form("log1p", "for a small summand no digit is left", _written("torch.log1p", other))
    return None


def _is_whole(expression: ast.expr, unit: Unit) -> bool:
    """Whether a tensor holds whole numbers, counts for example, of which none is small."""
    value = unit.semantics.value_of(expression) or expression
    return any(applied(unit.semantics, value, function) is not None for function in _TO_WHOLE)


def _logits(value: ast.expr, unit: Unit, function: str) -> ast.expr | None:
    """The operand of a softmax or sigmoid, as function, method or layer."""
    if isinstance(value, ast.Call) and len(value.args) == 1 and _is_layer(value, unit, f"torch.nn.{function.title()}"):
        return value.args[0]
    return _torch_operand(value, unit, function)


def _is_layer(call: ast.Call, unit: Unit, name: str) -> bool:
    kind = unit.semantics.kind(call.func) if not unit.semantics.names(call.func) else None
    return kind is not None and kind.is_module and kind.origin == name


def _torch_operand(expression: ast.expr, unit: Unit, function: str) -> ast.expr | None:
    """The operand of a function of torch or of a tensor's method (not of ``math`` or ``numpy``)."""
    if not isinstance(expression, ast.Call):
        return None
    name = unit.semantics.name(expression.func)
    if name and not name.startswith("torch."):
        return None
    if not name and function == "exp" and isinstance(expression.func, ast.Attribute):
        kind = unit.semantics.kind(expression.func.value)
        if kind is not None and not kind.is_tensor:
            return None
    return applied(unit.semantics, expression, function)


def _summed_exponents(value: ast.expr, unit: Unit) -> tuple[ast.expr, list[ast.expr]] | None:
    """What is exponentiated and summed, and the positional axes of the sum."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="sum"), args=axes) if not unit.semantics.names(value.func):
            summed = inner
        case ast.Call(args=[inner, *axes]) if unit.semantics.is_named(value.func, "torch.sum"):
            summed = inner
        case _:
            return None
    exponent = _torch_operand(summed, unit, "exp")
    if exponent is None or _is_difference(exponent, unit):
        return None  # `(x - x.max()).exp().sum().log()` is the stable way, written out
    return exponent, axes


def _is_difference(expression: ast.expr, unit: Unit) -> bool:
    value = unit.semantics.value_of(expression)
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)


def _is_negative(expression: ast.expr, unit: Unit) -> bool:
    """Whether an exponent is ``-abs(x)``, whose exponential cannot overflow."""
    value = unit.semantics.value_of(expression)
    return isinstance(value, ast.UnaryOp) and applied(unit.semantics, value.operand, "abs") is not None


def _logsumexp(total: ast.Call, exponent: ast.expr, axes: list[ast.expr]) -> Callable[[Editor], str] | None:
    """None where the sum goes over all axes: `logsumexp` needs to be told which."""
    if not axes and not any(item.arg in ("dim", "axis") for item in total.keywords):
        return None

    def write(edit: Editor) -> str:
        arguments = [edit.source(item) for item in (exponent, *axes, *total.keywords)]
        return f"{edit.spell('torch.logsumexp')}({', '.join(arguments)})"

    return write


def _is_summand(node: ast.expr) -> bool:
    """Whether something is added to the difference, or to a product that it is a factor of: the digits that it lacks
    are then rounded away. A quotient is another matter, since a small divisor brings them back."""
    holder = parent_of(node)
    while isinstance(holder, ast.UnaryOp) or (isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mult)):
        holder = parent_of(holder)
    return isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Add | ast.Sub)


def _is_rounded(node: ast.expr) -> bool:
    """Whether the difference, or a product with it, is rounded to whole numbers right away, as durations are."""
    holder: ast.AST | None = parent_of(node)
    while isinstance(holder, ast.UnaryOp) or (isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mult)):
        holder = parent_of(holder)
    called = holder.func if isinstance(holder, ast.Call) else holder
    name = last_name(called)
    return name in _TO_WHOLE


def _is_written_out(exponent: ast.expr, unit: Unit) -> bool:
    """Whether the exponent is a number that the code shows (``torch.tensor([1.0])``): it is not small."""
    given = argument(exponent, 0, "data") if isinstance(exponent, ast.Call) else None
    values = unit.semantics.literal(given if given is not None else exponent)
    numbers = values if isinstance(values, list | tuple) else [values]
    return bool(numbers) and all(isinstance(number, int | float) and abs(number) >= 0.1 for number in numbers)


def _without_guard(operand: ast.expr) -> tuple[ast.expr, bool]:
    """The value behind an added small number or a clamp, and whether there was one."""
    inner = without_epsilon(operand)
    if inner is not operand:
        return inner, True
    match operand:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner, *_]) if name in _CLAMPS:
            return inner, True
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CLAMPS:
            return inner, True
        case _:
            return operand, False


def _is_selected(call: ast.Call, unit: Unit) -> bool:
    """Whether ``torch.where`` takes the value only where the formula is exact. Its gradient is still computed."""
    holder = parent_of(call)
    return (
        isinstance(holder, ast.Call) and call in holder.args[1:] and unit.semantics.is_named(holder.func, "torch.where")
    )


def _bound_to(expression: ast.expr, unit: Unit) -> ast.expr:
    """What a name of a function is bound to, if nothing changes it in place; else the expression itself."""
    if not isinstance(expression, ast.Name):
        return expression
    function = enclosing_function(expression)
    value = unit.semantics.value_of(expression)
    if function is None or value is None or isinstance(value, ast.Name):
        return expression
    uses = (node for node in nodes_within(function, ast.Name) if isinstance(node, ast.Name))
    return expression if any(use.id == expression.id and _is_changed(use) for use in uses) else value


def _is_changed(use: ast.Name) -> bool:
    """Whether a value is changed at a use: ``p[i] = 1``, ``p.clamp_(1e-6)``."""
    match parent_of(use):
        case ast.Subscript(value=value, ctx=ast.Store()) if value is use:
            return True
        case ast.Attribute(attr=method):
            return method.endswith("_") and not method.endswith("__")
        case _:
            return False


def _renamed(call: ast.Call, name: str) -> Callable[[Editor], str]:
    """The call of another function of the same module with the same arguments."""

    def write(edit: Editor) -> str:
        source, function = edit.source(call), edit.source(call.func)
        head = function.rpartition(".")[0]
        spelled = f"{head}.{name}" if head else edit.spell(f"torch.{name}")
        return spelled + source[len(function) :]

    return write


def _written(name: str, operand: ast.expr, negated: bool = False) -> Callable[[Editor], str]:
    return lambda edit: _call(edit, name, operand, negated)


def _call(edit: Editor, name: str, operand: ast.expr, negated: bool = False) -> str:
    text = edit.source(operand)
    if negated:
        text = f"-{text}" if isinstance(operand, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"-({text})"
    return f"{edit.spell(name)}({text})"


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node).replace("'", '"')
    return f"`{text}`" if len(text) <= 60 else "This formula"
