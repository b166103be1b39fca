from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from torchlint.idioms.values.dataflow import last_operations
from torchlint.idioms.values.losses import loss_call
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_method, on_operation
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, shortened
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Losses that apply the sigmoid themselves, by the name that is called.
_FUNCTIONS = ("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss", "sigmoid_focal_loss")
_CLASSES = ("BCEWithLogitsLoss", "MultiLabelSoftMarginLoss")
_LOSSES = frozenset((*_FUNCTIONS, *_CLASSES))
_LINEAR = frozenset(f"torch.nn.{name}" for name in ("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d")) | {
    "torch.nn.functional.linear"
}
#: What leaves the values as they are, as far as a threshold is concerned.
_KEEPS = frozenset(
    "detach cpu cuda to float double half numpy view reshape squeeze unsqueeze flatten clone contiguous".split()
)
#: What puts the values of several batches one behind the other.
_JOINING = ("torch.cat", "torch.concat", "torch.concatenate", "torch.stack", "torch.vstack", "numpy.concatenate")
_GREATER = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_METHODS = ("gt", "ge", "lt", "le")


class ProbabilityThresholdOnLogits(Rule):
    """## What it does

    Reports `logits > 0.5` (any number between 0 and 1) and `torch.round(logits)`, where a loss takes the same values,
    or the output of the same model, as logits (`BCEWithLogitsLoss` and the like).

    ## Why is this bad?

    The loss applies the sigmoid, the comparison does not. A logit of 0.5 is a probability of 0.62: examples between are
    counted as negative, and the accuracy, F1 or the chosen labels are wrong although the model trains well.

    ## Example

    ```python
    import torch
    from torch import nn

    criterion = nn.BCEWithLogitsLoss()


    def evaluate(model, x, y):
        logits = model(x)
        loss = criterion(logits, y)
        accuracy = ((logits > 0.5) == y.bool()).float().mean()
        return loss, accuracy
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn

    criterion = nn.BCEWithLogitsLoss()


    def evaluate(model, x, y):
        logits = model(x)
        loss = criterion(logits, y)
        accuracy = ((torch.sigmoid(logits) > 0.5) == y.bool()).float().mean()
        return loss, accuracy
    ```

    Or `logits > 0`.

    ## Exceptions

    Values that no loss takes as logits (regression, least squares on 0 and 1); a sigmoid in between; other thresholds
    than a number between 0 and 1.

    ## References

    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL314"
    name = "probability-threshold-on-logits"
    level = Level.WARNING
    summary = "The threshold is meant for probabilities, but the values are logits."

    @on_operation(*_GREATER)
    def check_comparison(self, node: ast.Compare, unit: Unit) -> Iterator[Diagnosis]:
        for values, threshold in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
            yield from self._check(node, values, threshold, unit.semantics)

    @on_method(*_METHODS)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not unit.semantics.names(call.func):
            yield from self._check(call, call.func.value, call.args[0], unit.semantics)

    @on_call(*(f"torch.{name}" for name in _METHODS))
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if len(call.args) == 2:
            yield from self._check(call, call.args[0], call.args[1], unit.semantics)

    @on_method("round")
    def check_round(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if isinstance(call.func, ast.Attribute) and not call.args and not unit.semantics.names(call.func):
            yield from self._check(call, call.func.value, None, unit.semantics)

    @on_call("torch.round")
    def check_round_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        values = argument(call, 0, "input")
        if values is not None and len(call.args) + len(call.keywords) == 1:
            yield from self._check(call, values, None, unit.semantics)

    def _check(
        self, node: ast.expr, values: ast.expr, threshold: ast.expr | None, semantics: Semantics
    ) -> Iterator[Diagnosis]:
        """``threshold`` is None for rounding, which has one of 0.5."""
        number = semantics.literal(threshold) if threshold is not None else 0.5
        if not isinstance(number, float) or not 0 < number < 1:
            return
        loss = _loss_of_logits(semantics, values)
        if loss is None:
            return
        probability = f"{1 / (1 + math.exp(-number)):.2f}"
        yield self.found(
            node,
            f"`{shortened(node, 50)}` takes logits for probabilities: `{shortened(loss.func, 50)}` applies the sigmoid "
            f"to them, and a logit of {number} is a probability of {probability}. Compare with 0, or take the sigmoid "
            "first.",
            related=[(loss, "takes them as logits")],
        )


def _loss_of_logits(semantics: Semantics, values: ast.expr) -> ast.Call | None:
    """A call of a loss that takes the same values as logits, or the output of the model that made them."""
    base = _base(semantics, values)
    if base is None or not _may_have_logits(semantics):
        return None
    operations = last_operations(semantics, base)
    if not all(not item.name or item.name in _LINEAR or item.name in _JOINING for item in operations):
        return None
    is_linear = all(item.name in _LINEAR for item in operations)
    for call in _losses(semantics):
        loss = loss_call(semantics, call)
        prediction = _base(semantics, loss.prediction) if loss is not None else None
        if prediction is None:
            continue
        if _are_same(semantics, base, prediction) or (is_linear and _are_of_same_model(semantics, base, prediction)):
            return call
    return None


def _base(semantics: Semantics, expression: ast.expr) -> ast.Name | ast.Call | None:
    """The variable or call that values come from, behind changes of shape and place."""
    while True:
        match expression:
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPS and not semantics.names(
                expression.func
            ):
                expression = inner
            case ast.Attribute(value=inner, attr="data"):
                expression = inner
            case ast.Subscript(value=inner):
                expression = inner
            case ast.Call(args=[several, *_]) if semantics.is_named(expression.func, *_JOINING):
                element = _only_element(semantics, several)
                if element is None:
                    return None
                expression = element
            case ast.Name() | ast.Call():
                return expression
            case _:
                return None


def _only_element(semantics: Semantics, several: ast.expr) -> ast.expr | None:
    """What a list holds that is filled in one place: by ``outputs.append(out)`` in a loop, or by a comprehension."""
    value = semantics.value_of(several)
    match value, several:
        case ((ast.ListComp(elt=element) | ast.GeneratorExp(elt=element)), _):
            return element
        case ast.List(elts=[element]), _:
            return element
        case ast.List(elts=[]), ast.Name(id=name):
            function = enclosing_function(several)
            added = [
                call
                for method in ("append", "extend", "insert")
                for call in semantics.module.calls_of(method)
                if isinstance(call.func, ast.Attribute)
                and isinstance(call.func.value, ast.Name)
                and call.func.value.id == name
                and enclosing_function(call) is function
            ]
            match added:
                case [ast.Call(func=ast.Attribute(attr="append"), args=[element])]:
                    return element
    return None


def _may_have_logits(semantics: Semantics) -> bool:
    module = semantics.module
    return module.mentions_any_call(_LOSSES)


def _losses(semantics: Semantics) -> Iterator[ast.Call]:
    """The calls in the file that can only be losses on logits, by function or by an instance of the class."""
    module = semantics.module
    for name in _FUNCTIONS:
        yield from module.calls_of(name)
    for name in _CLASSES:
        for built in module.calls_of(name):
            match parent_of(built):
                case ast.Assign(targets=[ast.Name(id=target) | ast.Attribute(attr=target)], value=value) if (
                    value is built
                ):
                    for call in module.calls_of(target):
                        kind = semantics.kind(call.func)
                        if kind is not None and kind.node is built:
                            yield call
                case ast.Call(func=function) as call if function is built:
                    yield call


def _are_same(semantics: Semantics, one: ast.Name | ast.Call, other: ast.Name | ast.Call) -> bool:
    """Whether two uses of a variable have one value for certain: the same bindings reach them."""
    if not isinstance(one, ast.Name) or not isinstance(other, ast.Name) or one.id != other.id:
        return False
    if enclosing_function(one) is not enclosing_function(other):
        return False
    first, second = semantics.definitions(one), semantics.definitions(other)
    return len(first) == 1 and first == second


def _are_of_same_model(semantics: Semantics, one: ast.expr, other: ast.expr) -> bool:
    model = _model_of(semantics, one)
    return (
        model is not None and model is _model_of(semantics, other) and not _goes_to_another_loss(semantics, one, model)
    )


def _model_of(semantics: Semantics, expression: ast.expr) -> ast.AST | None:
    """The class of this file, or the construction, of the module whose output a value is."""
    value = semantics.value_of(expression)
    if not isinstance(value, ast.Call):
        return None
    owner = semantics.class_of_self(value.func)
    if owner is not None:
        return owner
    kind = semantics.kind(value.func)
    if kind is None or not kind.is_module:
        return None
    return kind.class_node or kind.node


def _goes_to_another_loss(semantics: Semantics, values: ast.expr, model: ast.AST) -> bool:
    """Whether the function gives outputs of the model to a loss that takes no logits, as in a regression: then it is
    another instance of the class that a loss takes logits of."""
    function = enclosing_function(values)
    for call in nodes_within(function, ast.Call) if function is not None else ():
        loss = loss_call(semantics, call) if isinstance(call, ast.Call) else None
        if loss is None or loss.name.rpartition(".")[2] in _LOSSES:
            continue
        prediction = _base(semantics, loss.prediction)
        if prediction is not None and _model_of(semantics, prediction) is model:
            return True
    return False
