from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.test_code import is_in_test
from torchlint.idioms.values.dataflow import last_operations
from torchlint.idioms.values.densities import (
    GaussianSample,
    StandardKl,
    categorical_divergence,
    categorical_entropy,
    gaussian_entropy,
    gaussian_log_density,
    gaussian_sample,
    log_of_probabilities,
    may_have_densities,
    standard_kl,
)
from torchlint.idioms.values.formulas import applied, complement, factors, same, terms, without_epsilon
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method, on_operation
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_SAMPLES = frozenset(("torch.multinomial", "torch.Tensor.multinomial"))
_HALF = (0.5, -0.5)


class HandWrittenDistribution(Rule):
    """## What it does

    Points out a sample, log-probability, entropy or KL divergence of a normal, categorical or Bernoulli distribution
    that is written out by hand: `mu + eps * std`, the Gaussian log-density, `multinomial` with `log` and `gather`, the
    KL term of a VAE.

    ## Why is this bad?

    It works, and is easy to get wrong: a sign, a factor of one half, a standard deviation in the place of a variance.
    `torch.distributions` has tested and numerically stable versions that name what is meant, broadcast, check their
    arguments and keep the gradient (`rsample`).

    ## Example

    ```python
    import torch


    def reparameterize(mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std
    ```

    ## Use instead

    ```python
    import torch


    def reparameterize(mu, logvar):
        std = torch.exp(0.5 * logvar)
        return torch.distributions.Normal(mu, std).rsample()
    ```

    ## Exceptions

    Functions that use `torch.distributions` already, and distributions of your own. Noise of a fixed strength
    (`x + 0.1 * torch.randn_like(x)`), the forward noise of diffusion models (`a * x0 + b * noise`) and initialisers.

    ## References

    - [torch.distributions](https://docs.pytorch.org/docs/stable/distributions.html)
    """

    code = "TL315"
    name = "hand-written-distribution"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "`torch.distributions` has this sample, density, entropy or divergence, tested and stable."

    @on_operation(ast.Mult, ast.Add, ast.Sub)
    def check_formula(self, node: ast.BinOp, unit: Unit) -> Iterator[Diagnosis]:
        if not may_have_densities(unit):
            return
        if isinstance(node.op, ast.Mult):
            found = _product(node, unit)
        elif isinstance(node.op, ast.Add | ast.Sub) and not _is_inner_sum(node):
            found = _sum(node, unit)
        else:
            return
        if found is not None and not _uses_distributions(node, unit):
            message, fixes = found
            yield self.found(node, message, fixes=fixes)

    @on_method("add", "add_")
    def check_chain(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        """``eps.mul(std).add_(mu)`` and ``mu.pow(2).add_(logvar.exp()).mul_(-1).add_(1).add_(logvar)``."""
        if _is_inner_sum(call):
            return
        found = _sum(call, unit)
        if found is not None and not _uses_distributions(call, unit):
            yield self.found(call, found[0], fixes=found[1])

    @on_method("gather")
    def check_gather_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if not unit.semantics.names(call.func):
            yield from self._gather(call, call.func.value, argument(call, 1, "index"), unit)

    @on_call("torch.gather")
    def check_gather(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._gather(call, argument(call, 0, "input"), argument(call, 2, "index"), unit)

    def _gather(
        self, call: ast.Call, log_probabilities: ast.expr | None, index: ast.expr | None, unit: Unit
    ) -> Iterator[Diagnosis]:
        if log_probabilities is None or index is None:
            return
        if not log_of_probabilities(unit.semantics, log_probabilities) and not _is_in_log(call, unit):
            return
        samples = last_operations(unit.semantics, index)
        if not samples or any(sample.name not in _SAMPLES for sample in samples):
            return
        if _uses_distributions(call, unit):
            return
        message = (
            "This is the log-probability of a categorical sample, written by hand: "
            "`torch.distributions.Categorical` has `sample` and `log_prob`."
        )
        yield self.found(call, message, related=[(samples[0].node, "the sample")])

    @on_operation(ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    def check_bernoulli_sample(self, node: ast.Compare, unit: Unit) -> Iterator[Diagnosis]:
        if not unit.semantics.module.mentions_call("rand_like"):
            return
        for noise, probability in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
            drawn = isinstance(noise, ast.Call) and unit.semantics.is_named(noise.func, "torch.rand_like")
            like = argument(noise, 0, "input") if drawn and isinstance(noise, ast.Call) else None
            if like is not None and same(like, probability) and not _uses_distributions(node, unit):
                message = (
                    "This is a Bernoulli sample, written by hand: `torch.bernoulli` draws it, and "
                    "`torch.distributions.Bernoulli` has its `log_prob` and `entropy` too."
                )
                yield self.found(node, message)


def _is_in_log(call: ast.Call, unit: Unit) -> bool:
    """Whether the logarithm is taken of what was gathered: ``torch.log(p.gather(1, action))``."""
    holder = parent_of(call)
    if isinstance(holder, ast.Attribute):
        holder = parent_of(holder)
    return isinstance(holder, ast.expr) and applied(unit.semantics, holder, "log") is call


_Found = tuple[str, list[FixPlan]]


def _sum(node: ast.expr, unit: Unit) -> _Found | None:
    semantics = unit.semantics
    sample = gaussian_sample(semantics, node)
    if sample is not None:
        message = (
            "This is a sample of a normal distribution, reparameterised by hand: "
            "`torch.distributions.Normal(...).rsample()` draws it and keeps the gradient."
        )
        return message, _sample_fixes(node, sample, unit)
    divergence = standard_kl(semantics, node)
    if divergence is not None:
        message = (
            "This is the KL divergence of a normal distribution from the standard normal, written by hand: "
            "`torch.distributions.kl_divergence` computes it."
        )
        return message, _kl_fixes(node, divergence, unit)
    if gaussian_log_density(semantics, node):
        return (
            "This is the log-density of a normal distribution, written by hand: "
            "`torch.distributions.Normal(...).log_prob` computes it."
        ), []
    if gaussian_entropy(semantics, node):
        return (
            "This is the entropy of a normal distribution, written by hand: "
            "`torch.distributions.Normal(...).entropy` computes it."
        ), []
    if _is_bernoulli_log_probability(node, unit):
        return (
            "This is the log-probability of a Bernoulli variable, written by hand: "
            "`torch.distributions.Bernoulli(...).log_prob` computes it without overflow."
        ), []
    return None


def _product(node: ast.BinOp, unit: Unit) -> _Found | None:
    if categorical_divergence(unit.semantics, node):
        if is_in_test(unit.semantics, node):
            return None  # what a test expects is computed in another way on purpose
        return (
            "This is the KL divergence of two categorical distributions, written by hand: "
            "`torch.distributions.kl_divergence` computes it."
        ), []
    if not categorical_entropy(unit.semantics, node):
        return None
    return (
        "This is the entropy of a categorical distribution, written by hand: "
        "`torch.distributions.Categorical(...).entropy` computes it."
    ), []


def _is_inner_sum(node: ast.expr) -> bool:
    """Whether a sum is part of a longer one, which is looked at as a whole."""
    match parent_of(node):
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return True
        case ast.Attribute(attr="add" | "add_" | "sub" | "sub_"):
            return True
        case ast.Attribute(attr="mul" | "mul_" | "neg" | "neg_") as method:
            call = parent_of(method)
            return isinstance(call, ast.Call) and (not call.args or literal_of(call.args[0]) == -1)
        case ast.UnaryOp(op=ast.USub()) as negation:
            return _is_inner_sum(negation)
        case _:
            return False


def _is_bernoulli_log_probability(node: ast.expr, unit: Unit) -> bool:
    """``x * log(p) + (1 - x) * log(1 - p)``."""
    pair = terms(node)
    if len(pair) != 2 or pair[0][0] != pair[1][0]:
        return False
    found: list[tuple[ast.expr, ast.expr]] = []
    for _, term in pair:
        match factors(term):
            case [one, other]:
                for value, logarithm in ((one, other), (other, one)):
                    probability = applied(unit.semantics, logarithm, "log")
                    if probability is not None:
                        found.append((value, without_epsilon(probability)))
                        break
    if len(found) != 2:
        return False
    for (value, probability), (other_value, other_probability) in (found, found[::-1]):
        left, right = complement(other_value), complement(without_epsilon(other_probability))
        if left is not None and right is not None and same(left, value) and same(right, probability):
            return True
    return False


def _uses_distributions(node: ast.AST, unit: Unit) -> bool:
    """Whether the function around a node uses ``torch.distributions``, or belongs to a distribution of this file."""
    semantics = unit.semantics
    holder = enclosing_class(node)
    if holder is not None and any(name.startswith("torch.distributions.") for name in semantics.ancestors(holder)):
        return True
    function = enclosing_function(node)
    nodes = (
        nodes_within(function, ast.Name, ast.Attribute) if function is not None else unit.all(ast.Name, ast.Attribute)
    )
    return any(
        isinstance(other, ast.Name | ast.Attribute)
        and any(name.startswith("torch.distributions.") for name in semantics.names(other))
        for other in nodes
    )


# -- fixes ----------------------------------------------------------------------------------------------------------


def _sample_fixes(node: ast.expr, sample: GaussianSample, unit: Unit) -> list[FixPlan]:
    if not sample.shaped_like_parameters:
        return []
    return [
        FixPlan("Draw from `torch.distributions.Normal`", "unsafe", lambda edit: _draw(edit, node, sample, unit)),
    ]


def _draw(edit: Editor, node: ast.expr, sample: GaussianSample, unit: Unit) -> None:
    normal = edit.spell("torch.distributions.Normal")
    edit.replace(node, f"{normal}({edit.source(sample.mean)}, {edit.source(sample.scale)}).rsample()")
    if sample.noise_statement is not None and _is_used_once(sample.noise_statement, unit):
        edit.remove_statement(sample.noise_statement)


def _is_used_once(statement: ast.Assign, unit: Unit) -> bool:
    target = statement.targets[0]
    function = enclosing_function(statement)
    if not isinstance(target, ast.Name) or function is None:
        return False
    names = [node for node in nodes_within(function, ast.Name) if isinstance(node, ast.Name) and node.id == target.id]
    return len(names) == 2  # the binding and the sample


def _kl_fixes(node: ast.expr, divergence: StandardKl, unit: Unit) -> list[FixPlan]:
    """Replaces the whole ``-0.5 * torch.sum(1 + logvar - ...)``: without the factor it is no divergence."""
    if divergence.log_variance is None:
        return []
    inner: ast.expr = node
    reduction: ast.Call | None = None
    holder = parent_of(inner)
    if isinstance(holder, ast.Attribute) and holder.attr in ("sum", "mean"):
        holder = parent_of(holder)
    if isinstance(holder, ast.Call):
        reduction = holder
        inner, holder = holder, parent_of(holder)
    match holder:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            factor = literal_of(left if right is inner else right)
        case _:
            return []
    if factor not in _HALF or (factor == 0.5) != (divergence.sign == 1):
        return []
    whole = holder
    return [
        FixPlan(
            "Use `torch.distributions.kl_divergence`",
            "unsafe",
            lambda edit: _use_kl(edit, whole, reduction, node, divergence),
        )
    ]


def _use_kl(
    edit: Editor, whole: ast.expr, reduction: ast.Call | None, formula: ast.expr, divergence: StandardKl
) -> None:
    normal = edit.spell("torch.distributions.Normal")
    exponential, log_variance = edit.spell("torch.exp"), divergence.log_variance
    assert log_variance is not None
    variance = edit.source(log_variance)
    if not isinstance(log_variance, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        variance = f"({variance})"
    posterior = f"{normal}({edit.source(divergence.mean)}, {exponential}(0.5 * {variance}))"
    text = f"{edit.spell('torch.distributions.kl_divergence')}({posterior}, {normal}(0.0, 1.0))"
    if reduction is not None:
        (start, end), (outer, _) = edit.span(formula), edit.span(reduction)
        source = edit.source(reduction)
        before, after = source[: start - outer], source[end - outer :]
        if isinstance(reduction.func, ast.Attribute) and reduction.func.value is formula:
            before, after = before.removesuffix("("), after.removeprefix(")")
        text = before + text + after
    edit.replace(whole, text)
