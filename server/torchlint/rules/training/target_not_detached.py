from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.idioms.modules.asked_modules import AskedModules, network_of
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.gradient_graph import is_foreign, loss_of
from torchlint.idioms.training.graph_sources import Sources, sources_of
from torchlint.idioms.training.leaves import may_freeze
from torchlint.idioms.training.parameter_copies import parameter_copies
from torchlint.idioms.values.formulas import factors, squared, terms
from torchlint.idioms.values.origins import RESHAPING
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.scopes import dotted, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_DEEPEST = 6
_DISCOUNT = regex(r"gamma|discount", re.IGNORECASE)
_ON_PURPOSE = regex(r"residual|both sides|double gradient", re.IGNORECASE)
_LOSSES = frozenset(("mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"))
_LOSS_CLASSES = frozenset(("torch.nn.MSELoss", "torch.nn.SmoothL1Loss", "torch.nn.HuberLoss", "torch.nn.L1Loss"))
_UNKNOWN_LOSS = regex(r"crit|loss|mse|huber", re.IGNORECASE)
_SAME = RESHAPING | {"float", "double", "to", "cuda", "cpu", "clone"}


@dataclass(frozen=True, eq=False, slots=True)
class _Bootstrap:
    """``discounted``: the term of a target that a network made (``gamma * q(next)``); ``call`` of that network, and
    ``prediction``: the call of a network on the other side."""

    discounted: ast.expr
    call: ast.Call
    prediction: ast.Call

    @property
    def is_same(self) -> bool:
        return network_of(self.call) == network_of(self.prediction)


class TargetNotDetached(Rule):
    """## What it does

    Reports a temporal-difference target (`reward + gamma * q(next_state)`) that is compared with a prediction of the
    network being trained while it carries its own graph.

    ## Why is this bad?

    The target is meant as a constant. With its graph, `backward()` also moves the value of the next state towards that
    of this one: learning is slower, and can diverge. Where the target comes from a separate network (a hint), only the
    time and the memory of its graph are wasted.

    ## Example

    ```python
    import torch
    import torch.nn.functional as F


    def learn(q: torch.nn.Module, optimizer, state, action, reward, next_state, gamma):
        target = reward + gamma * q(next_state).max(1).values
        loss = F.mse_loss(q(state).gather(1, action).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn.functional as F


    def learn(q: torch.nn.Module, optimizer, state, action, reward, next_state, gamma):
        target = reward + (gamma * q(next_state).max(1).values).detach()
        loss = F.mse_loss(q(state).gather(1, action).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Computing the target under `torch.no_grad()` also saves the memory of its graph.

    ## Exceptions

    Targets that are detached anywhere on their way into the loss, target networks whose parameters are frozen, residual
    gradients that a comment or name speaks of, and losses that are to flow through a critic (DDPG, SAC).

    ## References

    - [Reinforcement learning (DQN) tutorial](https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html)
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    """

    code = "TL220"
    name = "target-not-detached"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The target is part of the graph: gradients are computed through it too."

    @on_method("backward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        loss = loss_of(semantics, call) if not is_foreign(semantics, call) else None
        if loss is None:
            return
        modules = AskedModules(semantics)
        told: set[ast.AST] = set()
        for operation in tuple(sources_of(semantics, loss, trained=modules).operations):
            for found in _bootstraps(semantics, operation, modules):
                if found.discounted in told or is_stated(found.discounted, _ON_PURPOSE):
                    continue
                told.add(found.discounted)
                if found.is_same:
                    yield self._diagnosis(found, call)
                elif _is_copy(semantics, found) and not may_freeze(semantics):
                    yield self._wasted(found, call)

    def _diagnosis(self, found: _Bootstrap, backward: ast.Call) -> Diagnosis:
        network = network_of(found.call) or ast.unparse(found.call.func)
        message = (
            f"The target `{ast.unparse(_target(found))}` is not cut from the graph: `{ast.unparse(backward)}` trains "
            f"`{network}` to change it, too."
        )
        return self._found(found, message, backward)

    def _wasted(self, found: _Bootstrap, backward: ast.Call) -> Diagnosis:
        network = network_of(found.call) or ast.unparse(found.call.func)
        message = (
            f"`{ast.unparse(backward)}` goes through `{network}`, which is not trained: the graph of the target only "
            "costs time and memory."
        )
        return self._found(found, message, backward, Severity.HINT)

    def _found(
        self, found: _Bootstrap, message: str, backward: ast.Call, severity: Severity | None = None
    ) -> Diagnosis:
        related: list[tuple[ast.AST, str]] = [
            (found.call, "the value of the next state, with its graph"),
            (found.prediction, "the prediction"),
            (backward, "backpropagated here"),
        ]
        fix = FixPlan("Detach the value of the next state", "unsafe", lambda edit: _detach(edit, found.discounted))
        return self.found(_target(found), message, related=related, fixes=[fix], severity=severity)


def _bootstraps(semantics: Semantics, operation: ast.Call | ast.BinOp, modules: AskedModules) -> Iterator[_Bootstrap]:
    """The targets that an operation compares with predictions, if it is a regression loss or a square."""
    compared = _compared(semantics, operation)
    sources: dict[ast.expr, Sources] = {}
    for sign, term in compared:
        if not _is_discounted(semantics, term):
            continue
        bootstrapped = _sources(semantics, term, modules, sources)
        if not bootstrapped.calls:
            continue
        others = [
            call
            for other_sign, other in compared
            if other_sign != sign
            for call in _sources(semantics, other, modules, sources).calls
        ]
        if others:
            pairs = ((call, other) for call in bootstrapped.calls for other in others)
            same = next((pair for pair in pairs if network_of(pair[0]) == network_of(pair[1]) is not None), None)
            call, prediction = same or (next(iter(bootstrapped.calls)), others[0])
            yield _Bootstrap(term, call, prediction)


def _sources(semantics: Semantics, term: ast.expr, modules: AskedModules, known: dict[ast.expr, Sources]) -> Sources:
    if term not in known:
        known[term] = sources_of(semantics, term, trained=modules)
    return known[term]


def _compared(semantics: Semantics, operation: ast.Call | ast.BinOp) -> list[tuple[int, ast.expr]]:
    """The terms of prediction minus target (or the other way) in a regression loss or the square of a difference."""
    base = squared(semantics, operation)
    if base is not None:
        return _terms(semantics, base, 1, 0)
    if isinstance(operation, ast.Call) and len(operation.args) >= 2 and _is_regression(semantics, operation):
        return [*_terms(semantics, operation.args[0], 1, 0), *_terms(semantics, operation.args[1], -1, 0)]
    return []


def _is_regression(semantics: Semantics, call: ast.Call) -> bool:
    name = semantics.name(call.func)
    if name:
        return torch_api.is_loss_function(name) and name.rpartition(".")[2] in _LOSSES
    kind = semantics.kind(call.func)
    if kind is not None:
        return kind.what is What.LOSS and kind.origin in _LOSS_CLASSES
    return bool(_UNKNOWN_LOSS.search(last_name(call.func)))


def _terms(semantics: Semantics, expression: ast.expr, sign: int, depth: int) -> list[tuple[int, ast.expr]]:
    """The terms of a sum, through names and changes of shape."""
    found: list[tuple[int, ast.expr]] = []
    for own, term in terms(expression, sign):
        inner: ast.expr | None = term
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _SAME:
            inner = inner.func.value
        inner = semantics.value_of(inner)
        if isinstance(inner, ast.Call) and len(inner.args) == 3 and semantics.is_named(inner.func, "torch.where"):
            for chosen in inner.args[1:]:  # ``torch.where(done, reward, reward + gamma * value)``
                found.extend(_terms(semantics, chosen, own, depth + 1))
            continue
        if inner is None or inner is term or depth > _DEEPEST:
            found.append((own, term))
        else:
            found.extend(_terms(semantics, inner, own, depth + 1))
    return found


def _is_discounted(semantics: Semantics, term: ast.expr) -> bool:
    """Whether a term is a product with a discount factor: by its name, or a literal a little below one."""
    found = factors(term)
    return len(found) > 1 and any(_is_discount(semantics, factor) for factor in found)


def _is_discount(semantics: Semantics, factor: ast.expr) -> bool:
    match factor:
        case ast.Name(id=name) | ast.Attribute(attr=name) if _DISCOUNT.search(name):
            return True
        case ast.BinOp(op=ast.Pow(), left=left):
            return _is_discount(semantics, left)
        case _:
            value = semantics.literal(factor)
            return isinstance(value, float) and 0.7 <= value < 1


def _is_copy(semantics: Semantics, found: _Bootstrap) -> bool:
    """Whether the network of the target is one that another's parameters are copied into."""
    target = network_of(found.call)
    return target is not None and any(dotted(copy.target) == target for copy in parameter_copies(semantics))


def _target(found: _Bootstrap) -> ast.expr:
    """The sum that a discounted term stands in, or the term."""
    parent = parent_of(found.discounted)
    return parent if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add) else found.discounted


def _detach(edit: Editor, term: ast.expr) -> None:
    is_product = isinstance(term, ast.BinOp)
    edit.wrap(term, "(" if is_product else "", ").detach()" if is_product else ".detach()")
