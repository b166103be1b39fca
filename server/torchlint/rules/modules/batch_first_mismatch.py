from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaded_batches import is_loaded_batch
from torchlint.idioms.modules.batch_axes import exchanges_last_axes, first_size_owner, names_batch_first
from torchlint.idioms.modules.batch_layouts import arranged_batch_first, calls_of_instances
from torchlint.idioms.modules.sequence_layers import (
    DEFAULT_LAYOUTS,
    TimeFirst,
    input_behind,
    is_default_layout,
    keeps_order,
    time_first_layers,
)
from torchlint.idioms.values.creations import creation_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_class, nodes_within, shortened
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Arguments of attention that are (batch, steps) in either layout, for the sequence that comes first.
_PADDING = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")
_POOLING = frozenset(("mean", "max", "sum", "amax"))


class BatchFirstMismatch(Rule):
    """## What it does

    Hints at a recurrent or attention layer that is built without `batch_first=True` and is given data whose first axis
    is the batch. One of these tells: the model is called with the batches of a `DataLoader`; what the layer gives is
    used as if the batch came first (`out[:, -1]` for the last step, `out.mean(dim=1)`, a state of `x.size(0)` rows);
    the input is made of images with the batch first (`image.flatten(2).transpose(1, 2)`); the mask of padding, which
    is (batch, steps) in any case, has its axes in the order of the input.

    ## Why is this bad?

    By default these layers take (steps, batch, features). Of batch-first data they take the examples for the steps of
    one sequence: attention looks at the other examples of the batch, a recurrent layer carries its state from one
    example to the next. The shapes fit, so nothing fails; the model trains badly, and its answers depend on the batch.

    ## Example

    ```python
    from torch import nn


    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(1000, 64)
            self.rnn = nn.LSTM(64, 64)
            self.out = nn.Linear(64, 2)

        def forward(self, tokens):
            states, _ = self.rnn(self.embed(tokens))
            return self.out(states[:, -1])
    ```

    ## Use instead

    ```python
    from torch import nn


    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(1000, 64)
            self.rnn = nn.LSTM(64, 64, batch_first=True)
            self.out = nn.Linear(64, 2)

        def forward(self, tokens):
            states, _ = self.rnn(self.embed(tokens))
            return self.out(states[:, -1])
    ```

    ## Exceptions

    `batch_first` that is given, either way; inputs that are transposed, permuted, reshaped or packed on their way to
    the layer; loaders with a `collate_fn` of their own; data that come from somewhere else and are used time-first.

    ## References

    - [torch.nn.LSTM](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html)
    - [torch.nn.TransformerEncoderLayer](https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html)
    """

    code = "TL126"
    name = "batch-first-mismatch"
    level = Level.HINT
    summary = "The layer takes (steps, batch, features), so it mixes the examples of a batch."

    @on_call(*DEFAULT_LAYOUTS)
    def check_script(self, built: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        call = _batch_given_to(built, unit)
        if call is not None and is_default_layout(built, unit.semantics):
            yield self.found(
                built,
                f"`{shortened(built, 60)}` takes (steps, batch, features) by default, but `{shortened(call, 60)}` gives"
                " it the batch of a loader, whose first axis is the batch: say `batch_first=True`, or transpose its"
                " input.",
                related=[(call, "runs here")],
            )

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        told: set[ast.Call] = set()
        for layer in time_first_layers(view):
            if layer.built in told:
                continue
            parameter = input_behind(view.semantics, layer.operand, layer.method)
            evidence = (
                _batch_first_use(view.semantics, layer)
                or _state_of_batch(view.semantics, layer, parameter)
                or _mask_of_batch(view.semantics, layer, parameter)
                or _loaded_call(view, layer, parameter)
                if parameter is not None
                else None
            ) or (_arranged(view.semantics, layer) or _named(view.semantics, layer, parameter))
            if evidence is None:
                continue
            told.add(layer.built)
            place, reason = evidence
            yield self.found(
                layer.built,
                f"`{shortened(layer.built, 60)}` takes (steps, batch, features) by default, but {reason}: "
                "say `batch_first=True`, or transpose its input.",
                related=[(layer.call, "runs here"), (place, "shows that the batch comes first")],
            )


def _batch_given_to(built: ast.Call, unit: Unit) -> ast.Call | None:
    """The call of a layer that a variable holds, outside of modules, with the batch of a loader."""
    semantics = unit.semantics
    holder = parent_of(built)
    match holder:
        case ast.Assign(targets=[ast.Name(id=name)]) if holder.value is built and enclosing_class(built) is None:
            pass
        case _:
            return None
    for call in semantics.module.calls_of(name):
        if call.args and isinstance(call.func, ast.Name) and is_loaded_batch(semantics, call.args[0]):
            definitions = semantics.definitions(call.func)
            if len(definitions) == 1 and definitions[0].node is holder:
                return call
    return None


def _batch_first_use(semantics: Semantics, layer: TimeFirst) -> tuple[ast.AST, str] | None:
    """A use of the sequence that the layer gives, which is right for batch-first data only."""
    for value in _uses(semantics, layer):
        holder = parent_of(value)
        match holder:
            case ast.Subscript(value=taken, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), index, *_])) if (
                taken is value and literal_of(index) in ((-1,) if layer.recurrent else (0, -1))
            ):
                return holder, f"`{shortened(holder, 60)}` takes a step of data whose batch comes first"
            case ast.Attribute(attr="transpose" | "permute"):
                call = parent_of(holder)
                if isinstance(call, ast.Call) and layer.recurrent and exchanges_last_axes(call):
                    return call, f"`{shortened(call, 60)}` takes the steps for the middle axis"
            case ast.Attribute(attr="bmm"):
                return holder, f"`{shortened(holder, 60)}` multiplies each example of data whose batch comes first"
            case ast.Attribute(attr=name) if name in _POOLING:
                call = parent_of(holder)
                if isinstance(call, ast.Call) and call.func is holder and _is_over_steps(argument(call, 0, "dim")):
                    return call, f"`{shortened(call, 60)}` pools over the steps of data whose batch comes first"
            case ast.Call(func=function) if semantics.name(function) in {f"torch.{name}" for name in _POOLING}:
                if holder.args[:1] == [value] and _is_over_steps(argument(holder, 1, "dim")):
                    return holder, f"`{shortened(holder, 60)}` pools over the steps of data whose batch comes first"
            case ast.Call(func=function) if semantics.is_named(function, "torch.bmm", "torch.baddbmm"):
                return holder, f"`{shortened(holder, 60)}` multiplies each example of data whose batch comes first"
    return None


def _is_over_steps(dim: ast.expr | None) -> bool:
    return dim is not None and literal_of(dim) == 1


def _uses(semantics: Semantics, layer: TimeFirst) -> Iterator[ast.expr]:
    """The expressions that are the sequence which the layer gives: the call itself, uses of its variable, and what
    operations that leave the order of the axes make of it."""
    value: ast.expr = layer.call
    holder = parent_of(value)
    if layer.gives_tuple:
        match holder:
            case ast.Subscript(slice=ast.Constant(value=0)):
                value = holder
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as first, *_])]):
                yield from _all_uses(semantics, _reads(semantics, first, holder, layer.method), layer)
                return
            case ast.Assign(targets=[ast.Name() as name]):  # `out = self.attention(x, x, x)`, then `out[0]`
                for read in _reads(semantics, name, holder, layer.method):
                    element = parent_of(read)
                    if isinstance(element, ast.Subscript) and literal_of(element.slice) == 0:
                        yield from _all_uses(semantics, iter([element]), layer)
                return
            case _:
                return
    yield from _all_uses(semantics, iter([value]), layer)


def _all_uses(semantics: Semantics, values: Iterator[ast.expr], layer: TimeFirst) -> Iterator[ast.expr]:
    waiting = list(values)
    seen: set[ast.expr] = set()
    while waiting:
        value = waiting.pop(0)
        if value in seen:
            continue
        seen.add(value)
        yield value
        holder = parent_of(value)
        match holder:
            case ast.Assign(targets=[ast.Name() as name]):
                waiting += _reads(semantics, name, holder, layer.method)
            case ast.Call(args=[first, *_]) if first is value and keeps_order(semantics, holder):
                waiting.append(holder)
            case ast.BinOp(op=ast.Add()):
                waiting.append(holder)


def _reads(semantics: Semantics, target: ast.Name, statement: ast.AST, method: FunctionNode) -> Iterator[ast.Name]:
    """Where a variable is read that can only hold what a statement gives it."""
    for use in nodes_within(method, ast.Name):
        if isinstance(use, ast.Name) and use.id == target.id and isinstance(use.ctx, ast.Load):
            definitions = semantics.definitions(use)
            if len(definitions) == 1 and definitions[0].node is statement and definitions[0].kind is Binding.ASSIGNMENT:
                yield use


def _state_of_batch(semantics: Semantics, layer: TimeFirst, parameter: ast.arg) -> tuple[ast.AST, str] | None:
    """An initial state with as many rows as the input has in its first axis."""
    names = {parameter.arg, layer.operand.id if isinstance(layer.operand, ast.Name) else parameter.arg}
    given = argument(layer.call, 1, "hx")
    if not layer.recurrent or given is None:
        return None
    state = semantics.value_of(given)
    first = state.elts[0] if isinstance(state, ast.Tuple) and state.elts else state
    value = semantics.value_of(first)
    made = creation_of(semantics, value) if value is not None else None
    while made is None and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in ("to", "cuda", "requires_grad_"):
            return None
        value = value.func.value
        made = creation_of(semantics, value)
    sizes = made.args if made is not None else []
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        sizes = sizes[0].elts
    if made is None or len(sizes) != 3:
        return None
    rows = semantics.value_of(sizes[1])
    owner = first_size_owner(rows) if rows is not None else None
    if rows is None or owner is None or owner.id not in names:
        return None
    return made, f"`{shortened(made, 60)}` makes a state for `{shortened(rows, 60)}` examples"


def _mask_of_batch(semantics: Semantics, layer: TimeFirst, parameter: ast.arg) -> tuple[ast.AST, str] | None:
    """A mask of padding, which is (batch, steps), with the axes of the input in the same order: ``tokens == 0``."""
    name = next((name for name in _PADDING if argument(layer.call, None, name) is not None), None)
    given = argument(layer.call, None, name)
    mask = semantics.value_of(given)
    while isinstance(mask, ast.UnaryOp):
        mask = semantics.value_of(mask.operand)
    match mask:
        case (
            ast.Compare(left=data, comparators=[_])
            | ast.Call(func=ast.Attribute(value=data, attr="eq" | "ne" | "isnan"), args=[*_])
        ):
            pass
        case _:
            return None
    if given is None or input_behind(semantics, data, layer.method) is not parameter:
        return None
    return given, f"`{name}={shortened(given, 40)}` is (batch, steps), with the axes of the input in the same order"


def _arranged(semantics: Semantics, layer: TimeFirst) -> tuple[ast.AST, str] | None:
    """An input that was arranged with the batch first."""
    place = arranged_batch_first(semantics, layer.operand)
    if place is None:
        return None
    return place, f"`{shortened(place, 60)}` arranges its input with the batch first"


def _named(semantics: Semantics, layer: TimeFirst, parameter: ast.arg | None) -> tuple[ast.AST, str] | None:
    """Names that are given to the sizes of the input."""
    place = names_batch_first(semantics, layer.operand, parameter, layer.method)
    if place is None:
        return None
    return place, f"`{shortened(place, 60)}` finds the size of the batch in the first axis"


def _loaded_call(view: ClassView, layer: TimeFirst, parameter: ast.arg) -> tuple[ast.AST, str] | None:
    """A call of the module with a batch of a loader for this parameter of ``forward``."""
    semantics = view.semantics
    if layer.method.name != "forward":
        return None
    position = layer.method.args.args.index(parameter) - 1
    for call in calls_of_instances(semantics, view.node):
        value = argument(call, position, parameter.arg)
        if value is not None and is_loaded_batch(semantics, value):
            return call, f"`{shortened(call, 60)}` gives it the batch of a loader, whose first axis is the batch"
    return None
