"""Distributions written out as formulas: samples, log-densities, entropies and divergences."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.idioms.values.dataflow import last_operations
from torchlint.idioms.values.formulas import (
    applied,
    doubled,
    factors,
    is_log_of_two_pi,
    same,
    squared,
    terms,
    without_epsilon,
)
from torchlint.idioms.values.losses import LOG_SOFTMAXES, SOFTMAXES
from torchlint.semantics.literals import literal_of
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_NOISE = frozenset(("torch.randn", "torch.randn_like"))
_INGREDIENTS = frozenset(
    f"{name}{ending}"
    for name in ("randn", "randn_like", "normal", "standard_normal", "exp", "log", "log1p", "softplus", "log_softmax")
    for ending in ("", "_")
)
_MOVES = frozenset(("to", "cuda", "float", "type_as", "type", "detach", "requires_grad_"))
_CHANGES_SHAPE = frozenset(("unsqueeze", "view", "expand", "expand_as", "clamp", "reshape"))


@dataclass(frozen=True, eq=False, slots=True)
class GaussianSample:
    """``mean + scale * noise``. ``noise_statement`` binds the noise, where it has a name."""

    mean: ast.expr
    scale: ast.expr
    shaped_like_parameters: bool
    noise_statement: ast.Assign | None


@dataclass(frozen=True, eq=False, slots=True)
class StandardKl:
    """``sign * (mean ** 2 + variance - log(variance) - 1)``.

    ``log_variance`` is None where the formula names only the variance or the standard deviation.
    """

    mean: ast.expr
    log_variance: ast.expr | None
    sign: int


def may_have_densities(unit: Unit) -> bool:
    """Whether the file draws normal noise, takes a logarithm or an exponential, or the unit has the number that stands
    for ``log(2 * pi)``: without one of them there is no formula of a distribution."""
    semantics = unit.semantics

    def compute() -> bool:
        if semantics.module.mentions_any_call(_INGREDIENTS):
            return True
        return any(
            node.value.__class__ is float and is_log_of_two_pi(semantics, node) for node in unit.all(ast.Constant)
        )

    return semantics.module.memo.cached(("may have densities",), compute, False)


def gaussian_sample(semantics: Semantics, expression: ast.expr) -> GaussianSample | None:
    """The expression as a reparameterised normal sample.

    The scale has to be one that is learned (an exponential or softplus, or what the noise is shaped like): noise of a
    fixed strength is no distribution, and ``a * x + b * noise`` is the forward step of a diffusion model.
    """
    pair = terms(expression)
    if len(pair) != 2 or any(sign != 1 for sign, _ in pair):
        return None
    for (_, mean), (_, product) in (pair, pair[::-1]):
        parts = factors(product)
        if len(parts) != 2 or len(factors(mean)) != 1 or literal_of(mean) in (0, 1):
            continue
        for scale, noise in (parts, parts[::-1]):
            drawn = _standard_normal(semantics, noise)
            if drawn is None or _standard_normal(semantics, mean) is not None:
                continue
            like = drawn.args[0] if drawn.args and semantics.is_named(drawn.func, "torch.randn_like") else None
            as_scale = like is not None and (same(like, scale) or _is_same_value(semantics, like, scale))
            if as_scale or _is_learned_scale(semantics, scale):
                shaped = as_scale or (like is not None and same(like, mean)) or _has_shape_of(drawn, (mean, scale))
                return GaussianSample(mean, scale, shaped, _statement_of(semantics, noise))
    return None


def _standard_normal(semantics: Semantics, expression: ast.expr) -> ast.Call | None:
    """The call that draws standard normal noise, behind names and moves."""
    value = semantics.value_of(expression)
    while isinstance(value, ast.Call):
        if semantics.is_named(value.func, *_NOISE) or _is_normal_of_numpy(semantics, value):
            return value
        match value:
            case ast.Call(func=ast.Attribute(attr="normal_"), args=[]):
                return value
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _MOVES:
                value = semantics.value_of(inner)
            case ast.Call(args=[inner]) if _wraps_data(semantics, value.func):
                value = semantics.value_of(inner)
            case _:
                return None
    return None


def _wraps_data(semantics: Semantics, function: ast.expr) -> bool:
    """Whether a function makes a tensor from data: ``torch.from_numpy``, ``FloatTensor``, the old ``Variable``."""
    names = semantics.names(function)
    return bool(names) and all(
        name in ("torch.autograd.Variable", "torch.from_numpy", "torch.as_tensor")
        or (name.startswith("torch.") and name.endswith(("Tensor", ".tensor")))
        for name in names
    )


def _is_normal_of_numpy(semantics: Semantics, call: ast.Call) -> bool:
    if semantics.is_named(call.func, "numpy.random.normal"):
        return [literal_of(item) for item in call.args[:2]] in ([], [0, 1])
    return semantics.is_named(call.func, "numpy.random.randn", "numpy.random.standard_normal")


def _is_learned_scale(semantics: Semantics, expression: ast.expr) -> bool:
    value = semantics.value_of(expression)
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _CHANGES_SHAPE:
                value = semantics.value_of(inner)
            case ast.Call():
                operand = applied(semantics, value, "exp", "softplus", "log1p")
                return operand is not None and literal_of(operand) is not None and not _is_number(semantics, operand)
            case _:
                return False


def _is_number(semantics: Semantics, expression: ast.expr) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and not kind.is_tensor


def _is_same_value(semantics: Semantics, one: ast.expr, other: ast.expr) -> bool:
    first, second = semantics.value_of(one), semantics.value_of(other)
    return first is not None and first is second


def _has_shape_of(drawn: ast.Call, parameters: tuple[ast.expr, ...]) -> bool:
    """Whether noise is drawn in the shape of the mean or the scale: ``torch.randn(std.size())``."""
    for node in ast.walk(drawn):
        match node:
            case ast.Attribute(value=base, attr="shape" | "size" | "new"):
                if any(same(base, parameter) for parameter in parameters):
                    return True
    return False


def _statement_of(semantics: Semantics, noise: ast.expr) -> ast.Assign | None:
    """The assignment that binds the noise, if it is one of a single name."""
    if not isinstance(noise, ast.Name):
        return None
    definitions = semantics.definitions(noise)
    if len(definitions) != 1 or not isinstance(definitions[0].node, ast.Assign):
        return None
    statement = definitions[0].node
    return statement if len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name) else None


def standard_kl(semantics: Semantics, expression: ast.expr) -> StandardKl | None:
    """The expression as the KL divergence of a normal from the standard normal, without its factor of one half."""
    parts = terms(expression)
    if len(parts) != 4:
        return None
    ones = [item for item in parts if literal_of(item[1]) == 1]
    if len(ones) != 1:
        return None
    sign = -ones[0][0]
    rest = [item for item in parts if item is not ones[0]]
    for logarithm in rest:
        if logarithm[0] != -sign:
            continue
        others = [item[1] for item in rest if item is not logarithm]
        if any(item[0] != sign for item in rest if item is not logarithm):
            continue
        for square, variance in (others, others[::-1]):
            mean = squared(semantics, square)
            if mean is not None and _is_variance(semantics, variance, logarithm[1]):
                exponent = applied(semantics, variance, "exp")
                named = exponent is not None and same(exponent, logarithm[1])
                return StandardKl(mean, logarithm[1] if named else None, sign)
    return None


def _is_variance(semantics: Semantics, variance: ast.expr, logarithm: ast.expr) -> bool:
    """Whether the second expression is the logarithm of the first."""
    exponent = applied(semantics, variance, "exp")
    if exponent is not None and same(exponent, logarithm):
        return True
    operand = applied(semantics, logarithm, "log")
    if operand is not None and same(without_epsilon(operand), variance):
        return True
    deviation, half = squared(semantics, variance), doubled(logarithm)
    if deviation is None or half is None:
        return False
    inner = applied(semantics, half, "log")
    exponential = applied(semantics, deviation, "exp")
    return (inner is not None and same(without_epsilon(inner), deviation)) or (
        exponential is not None and same(exponential, half)
    )


def gaussian_log_density(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a sum is the log-density of a normal: it holds log(2 pi) and a square."""
    parts = [term for _, term in terms(expression)]
    if len(parts) < 2 or not any(is_log_of_two_pi(semantics, part) for part in parts):
        return False
    return any(
        squared(semantics, node) is not None
        for part in parts
        if not is_log_of_two_pi(semantics, part)
        for node in ast.walk(part)
        if isinstance(node, ast.expr)
    )


def gaussian_entropy(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a sum is the entropy of a normal: ``0.5 + 0.5 * log(2 * pi) + log_std``."""
    parts = terms(expression)
    constants = [part for _, part in parts if literal_of(part) in (0.5, 1)]
    logarithms = [part for _, part in parts if is_log_of_two_pi(semantics, part)]
    return len(parts) == 3 and len(constants) == 1 and len(logarithms) == 1 and len({sign for sign, _ in parts}) == 1


def log_of_probabilities(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a value is a logarithm of probabilities: it comes out of ``log_softmax`` or ``log``."""
    names = LOG_SOFTMAXES | {"torch.log", "torch.Tensor.log"}
    operations = last_operations(semantics, expression)
    return bool(operations) and all(operation.name in names for operation in operations)


def categorical_entropy(semantics: Semantics, product: ast.BinOp) -> bool:
    """Whether a product is the inner part of ``-(p * log(p)).sum()``."""
    parts = factors(product)
    if len(parts) != 2 or _around(product) != (True, True) or _is_of_another_library(semantics, product):
        return False
    return any(_is_log_of(semantics, logarithm, value) for value, logarithm in (parts, parts[::-1]))


def categorical_divergence(semantics: Semantics, product: ast.BinOp) -> bool:
    """Whether a product is the inner part of ``(p * (log(p) - log(q))).sum()``, or of ``(p * log(p / q)).sum()``."""
    parts = factors(product)
    summed, negated = _around(product)
    if len(parts) != 2 or not summed or negated or _is_of_another_library(semantics, product):
        return False
    for value, other in (parts, parts[::-1]):
        match terms(other):
            case [(1, one), (-1, second)]:
                subtracted = semantics.value_of(second) or second
                is_log = applied(semantics, subtracted, "log") or log_of_probabilities(semantics, second)
                if is_log and _is_log_of(semantics, one, value):
                    return True
        match applied(semantics, other, "log"):
            case ast.BinOp(left=left, op=ast.Div()) if same(without_epsilon(left), value):
                return True
    return False


def _is_of_another_library(semantics: Semantics, product: ast.BinOp) -> bool:
    """Whether functions of NumPy or ``math`` compute a part: arrays, or a constant, have no distribution of torch."""
    calls = (node for node in ast.walk(product) if isinstance(node, ast.Call))
    return any(semantics.name(call.func).startswith(("numpy.", "math.")) for call in calls)


def _is_log_of(semantics: Semantics, logarithm: ast.expr, value: ast.expr) -> bool:
    one, other = semantics.value_of(logarithm), semantics.value_of(value)
    if one is None or other is None:
        return False
    operand = applied(semantics, one, "log")
    if operand is not None:
        inner = without_epsilon(operand)
        return same(inner, value) or _is_same_value(semantics, inner, value)
    exponent = applied(semantics, other, "exp")
    if exponent is not None and same(exponent, logarithm):
        return True
    first = [item for item in last_operations(semantics, logarithm) if item.name in LOG_SOFTMAXES]
    second = [item for item in last_operations(semantics, value) if item.name in SOFTMAXES]
    if len(first) != 1 or len(second) != 1:
        return False
    logits, others = first[0].operand, second[0].operand
    return logits is not None and others is not None and same(logits, others)


def _around(product: ast.expr) -> tuple[bool, bool]:
    """Whether a product is summed, and whether it is negated, by what stands around it."""
    summed = negated = False
    node: ast.AST = product
    holder = parent_of(product)
    while isinstance(holder, ast.expr):
        match holder:
            case ast.Attribute(attr="sum" | "mean") | ast.Call(func=ast.Attribute(attr="sum" | "mean")):
                summed = True
            case ast.Attribute(attr="neg"):
                negated = True
            case ast.UnaryOp(op=ast.USub()):
                negated = True
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                other = right if left is node else left
                value = literal_of(other)
                negated = negated or (isinstance(value, int | float) and value < 0)
        node, holder = holder, parent_of(holder)
    return summed, negated
