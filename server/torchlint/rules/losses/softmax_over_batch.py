from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaded_batches import is_loaded_batch
from torchlint.idioms.modules.layer_sizes import sizes_of_construction
from torchlint.idioms.values.dataflow import Operation, last_operations, shaping_operations
from torchlint.idioms.values.single_outputs import (
    construction_of,
    is_convolution,
    is_linear,
    is_matrix_behind,
    layer_before,
)
from torchlint.idioms.values.softmaxes import (
    SOFTMAX_CALLS,
    SOFTMAX_LAYERS,
    SOFTMAX_METHODS,
    Softmax,
    softmax_function,
    softmax_method,
)
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What is done with the probabilities of one state: then there may be no batch.
_CHOOSES_ONE = ("Categorical", "multinomial", "choice")


class SoftmaxOverBatch(Rule):
    """## What it does

    Reports a softmax with `dim=0` where the first axis is the batch: after a linear layer or convolution in an
    `nn.Sequential`, on the output of a linear layer whose input was flattened, on what a model makes of a batch of a
    `DataLoader`.

    ## Why is this bad?

    The probabilities of one example no longer add up to 1; those of one class do, over the examples that happen to be
    in the batch. The model trains on that, and its answer for an example depends on its neighbours.

    ## Example

    ```python
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(dim=0))
    ```

    ## Use instead

    ```python
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(dim=-1))
    ```

    ## Exceptions

    A policy that chooses an action for one state (`Categorical`, `multinomial`), where nothing gives it a batch; scores
    of one value for each step or instance (`nn.Linear(n, 1)`: attention pooling); outputs of unknown shape.

    ## References

    - [torch.nn.Softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html)
    """

    code = "TL308"
    name = "softmax-over-batch"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The values that add up to 1 are those of different examples, not those of one."

    @on_call(*SOFTMAX_LAYERS)
    def check_layer(self, built: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        axis = argument(built, 0, "dim")
        if axis is None or literal_of(axis) != 0:
            return
        before = layer_before(semantics, built)
        if before is None or not _spreads_over_classes(semantics, before):
            return
        if is_linear(before) and _may_see_one_state(semantics, built):
            return
        yield self._reported(built, axis, before)

    @on_call(*SOFTMAX_CALLS)
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(softmax_function(call), unit.semantics)

    @on_method(*SOFTMAX_METHODS)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(softmax_method(unit.semantics, call), unit.semantics)

    def _check(self, softmax: Softmax | None, semantics: Semantics) -> Iterator[Diagnosis]:
        if softmax is None or softmax.axis is None or literal_of(softmax.axis) not in (0, -2):
            return
        source = _rows_are_examples(semantics, softmax.operand)
        if source is None and literal_of(softmax.axis) == 0:
            source = _output_for_batch(semantics, softmax.operand)
        if source is not None:
            yield self._reported(softmax.call, softmax.axis, source)

    def _reported(self, place: ast.Call, axis: ast.expr, source: Operation) -> Diagnosis:
        name = last_name(place.func) or "softmax"
        instead = "1" if is_convolution(source) else "-1"
        return self.found(
            place,
            f"`{name}` is taken over axis {ast.unparse(axis)}, which is the batch: what adds up to 1 are the values of "
            f"different examples. `dim={instead}` takes those of one.",
            related=[(source.node, "makes the values")],
            fixes=[FixPlan(f"Use `dim={instead}`", "unsafe", lambda edit: edit.replace(axis, instead))],
        )


def _rows_are_examples(semantics: Semantics, operand: ast.expr) -> Operation | None:
    """The linear layer that makes a matrix of a flattened batch: a row for each example."""
    operations = shaping_operations(semantics, operand)
    fits = (
        is_linear(item) and is_matrix_behind(semantics, item) and _spreads_over_classes(semantics, item)
        for item in operations
    )
    return operations[0] if operations and all(fits) else None


def _output_for_batch(semantics: Semantics, operand: ast.expr) -> Operation | None:
    """What a module makes of a batch that a loader gives."""
    value = semantics.value_of(operand)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "squeeze":
        value = semantics.value_of(value.func.value)
    if not isinstance(value, ast.Call) or len(value.args) != 1 or not is_loaded_batch(semantics, value.args[0]):
        return None
    kind = semantics.kind(value.func)
    if kind is None or not kind.is_module:
        return None
    last = last_operations(semantics, value)
    fits = all(is_linear(item) and _spreads_over_classes(semantics, item) for item in last)
    return Operation("", value) if fits or kind.class_node is None else None


def _spreads_over_classes(semantics: Semantics, operation: Operation) -> bool:
    """Whether a layer gives more than one value for each example, as far as its size is known."""
    if not is_linear(operation) and not is_convolution(operation):
        return False
    built = construction_of(semantics, operation)
    return built is None or sizes_of_construction(built, operation.name, semantics).gives != 1


def _may_see_one_state(semantics: Semantics, built: ast.Call) -> bool:
    """Whether the file chooses actions by probabilities, and nothing shows that the model is given a batch."""
    module = semantics.module
    if not any(module.mentions_call(name) for name in _CHOOSES_ONE):
        return False
    sequential = parent_of(built)
    match parent_of(sequential) if sequential is not None else None:
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return not any(_is_given_batch(semantics, call) for call in module.calls_of(name))
        case _:
            return True


def _is_given_batch(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a model is called with a tensor that is made of one row for each example."""
    if not call.args:
        return False
    if is_loaded_batch(semantics, call.args[0]):
        return True
    match semantics.value_of(call.args[0]):
        case ast.Call(args=[rows, *_]) as made if semantics.name(made.func).startswith("torch."):
            return isinstance(semantics.value_of(rows), ast.ListComp)
        case _:
            return False
