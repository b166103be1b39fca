from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.training.gradient_graph import is_foreign, loss_of
from torchlint.idioms.training.graph_cuts import Cut, cut_of
from torchlint.idioms.training.in_place import changes_in_place
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_method
from torchlint.semantics.index import index_of
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import element_of, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_DEEPEST = 6
_VARIABLE = ("torch.autograd.Variable", "torch.autograd.variable.Variable")
_COPIES = (*_VARIABLE, "torch.tensor", "torch.as_tensor")
_OBJECTIVE = regex(r"loss|cost|objective|criterion|error|penalty|energy|reward", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class _Leaf:
    """``node`` makes a value that was computed (``source``) a leaf that requires gradients; ``how`` it was cut."""

    node: ast.AST
    source: ast.expr
    how: str
    cut: ast.AST


class GraphCutThenRequiresGrad(Rule):
    """## What it does

    Reports a loss that was cut from its graph and then made to require gradients, so that `backward()` does not raise.

    ## Why is this bad?

    `requires_grad` does not bring the graph back: the loss is a leaf now. `backward()` runs, writes a gradient of one
    to the loss itself, and no parameter of the model receives any. Nothing is raised and nothing is learned.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion: torch.nn.MSELoss, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.tensor(criterion(model(inputs), targets), requires_grad=True)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion: torch.nn.MSELoss, optimizer):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    Inputs whose gradient is wanted (adversarial examples, saliency, style transfer), values that were not computed, and
    leaves whose `.grad` is read.

    ## References

    - [Autograd mechanics: setting requires_grad](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    - [Backward "succeeds" and nothing is learned](https://github.com/pytorch/pytorch/issues/92586)
    """

    code = "TL215"
    name = "graph-cut-then-requires-grad"
    level = Level.ERROR
    summary = "`backward()` succeeds and reaches no parameter."

    @on_method("backward", "manual_backward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        loss = loss_of(semantics, call)
        own = isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not is_foreign(semantics, call)
        passed_on = own and (bool(call.args) or any(item.arg == "gradient" for item in call.keywords))
        if loss is None or passed_on:
            return  # no loss, but the gradient of something else
        told: set[ast.AST] = set()
        for leaf in _leaves(semantics, loss, 0):
            if leaf.node not in told and _is_computed(semantics, leaf.source) and not _reads_gradient(semantics, loss):
                told.add(leaf.node)
                yield self._diagnosis(leaf, loss, call)

    def _diagnosis(self, leaf: _Leaf, loss: ast.expr, backward: ast.Call) -> Diagnosis:
        message = (
            f"This makes `{ast.unparse(loss)}` a leaf without a graph ({leaf.how}): `{ast.unparse(backward)}` reaches "
            "no parameter."
        )
        related: list[tuple[ast.AST, str]] = [(backward, "backpropagated here, in vain")]
        if leaf.cut is not leaf.node:
            related.insert(0, (leaf.cut, "cut from the graph here"))
        return self.found(leaf.node, message, related=related)


def _leaves(semantics: Semantics, value: ast.expr, depth: int) -> Iterator[_Leaf]:
    """The leaves in a loss that were made of computed values."""
    if depth > _DEEPEST:
        return
    match value:
        case ast.Name():
            yield from _made_to_require(semantics, value)
            for definition in semantics.definitions(value):
                if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
                    given = element_of(definition.value, definition.path)
                    if given is not None:
                        yield from _leaves(semantics, given, depth + 1)
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            yield from _leaves(semantics, left, depth + 1)
            yield from _leaves(semantics, right, depth + 1)
        case ast.Call(func=ast.Attribute(attr="mean" | "sum" | "to" | "cuda" | "cpu" | "float", value=inner)):
            yield from _leaves(semantics, inner, depth + 1)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled]):
            yield from _leaves(semantics, scaled, depth + 1)
        case ast.Call(func=ast.Attribute(attr="requires_grad_", value=inner)) if not _is_off(value):
            cut = cut_of(semantics, inner, targets_are_data=True)
            if cut is not None and cut.how:
                yield _Leaf(value, inner, cut.how, cut.node)
        case ast.Call():
            yield from _copy(semantics, value)


def _copy(semantics: Semantics, call: ast.Call) -> Iterator[_Leaf]:
    """``torch.tensor(loss, requires_grad=True)``, ``Variable(loss, requires_grad=True)``, ``nn.Parameter(loss)``."""
    required = any(item.arg == "requires_grad" and semantics.literal(item.value) is True for item in call.keywords)
    by_default = semantics.is_named(call.func, "torch.nn.Parameter", "torch.nn.parameter.Parameter")
    if not call.args or not (by_default or (required and semantics.is_named(call.func, *_COPIES))):
        return
    shown = ast.unparse(call.func)
    yield _Leaf(call, call.args[0], f"`{shown}` copies the value without its graph", call)


def _made_to_require(semantics: Semantics, name: ast.Name) -> Iterator[_Leaf]:
    """``loss.requires_grad = True`` on what the loss is where it is backpropagated, and that has no graph."""
    definitions = set(semantics.definitions(name))
    cuts: list[tuple[ast.expr, Cut]] = []
    for definition in definitions:
        given = element_of(definition.value, definition.path) if definition.value is not None else None
        if given is None or definition.kind is not Binding.ASSIGNMENT:
            return
        cut = cut_of(semantics, given, targets_are_data=True)
        if cut is None or not cut.how:
            return
        cuts.append((given, cut))
    changes = changes_in_place(semantics, name)
    if not cuts or not all(map(_is_about_requiring, changes)):
        return
    for change in changes:
        target = change.func if isinstance(change, ast.Call) else change
        assert isinstance(target, ast.Attribute)
        if isinstance(target.value, ast.Name) and set(semantics.definitions(target.value)) == definitions:
            given, cut = cuts[0]
            if not _is_off(change):
                yield _Leaf(change, given, cut.how, cut.node)


def _is_about_requiring(change: ast.AST) -> bool:
    match change:
        case ast.Attribute(attr="requires_grad") | ast.Call(func=ast.Attribute(attr="requires_grad_")):
            return True
        case _:
            return False


def _is_off(change: ast.AST) -> bool:
    """``requires_grad_(False)``."""
    match change:
        case ast.Call(args=[ast.Constant(value=False)]):
            return True
        case ast.Call(keywords=[ast.keyword(value=ast.Constant(value=False))]):
            return True
        case _:
            return False


def _is_computed(semantics: Semantics, source: ast.expr) -> bool:
    """Whether a value is what a module, a loss or an objective gave, not an input or a constant."""
    queue, seen = [source], set[ast.AST]()
    while queue:
        expression = queue.pop()
        for node in nodes_within(expression, ast.Call, ast.Name):
            if node in seen or len(seen) > 200:
                continue
            seen.add(node)
            if isinstance(node, ast.Call) and _computes(semantics, node):
                return True
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                queue.extend(
                    definition.value
                    for definition in semantics.definitions(node)
                    if definition.kind in (Binding.ASSIGNMENT, Binding.AUGMENTED) and definition.value is not None
                )
    return False


def _computes(semantics: Semantics, call: ast.Call) -> bool:
    name = semantics.name(call.func)
    if torch_api.is_loss_function(name):
        return True
    kind = semantics.kind(call.func)
    if kind is not None and kind.what in (What.MODULE, What.LOSS):
        return True
    called = last_name(call.func)
    known = name.startswith(("torch.", "numpy."))
    return bool(call.args) and not known and _OBJECTIVE.search(called) is not None


def _reads_gradient(semantics: Semantics, loss: ast.expr) -> bool:
    """Whether the gradient of a leaf is looked at: ``loss.grad``."""
    names = {node.id for node in nodes_within(loss, ast.Name) if isinstance(node, ast.Name)}
    function = enclosing_function(loss)
    attributes: Iterator[ast.AST] = (
        nodes_within(function, ast.Attribute)
        if function is not None
        else (node for part in semantics.module.own_code() for node in index_of(part).all(ast.Attribute))
    )
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        for node in attributes
    )
