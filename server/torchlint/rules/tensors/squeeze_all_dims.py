from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.fixes.editor import Editor
from torchlint.idioms.dataflow import Operation, last_operations
from torchlint.idioms.layer_sizes import layer_argument, sizes_of_construction, whole_number
from torchlint.idioms.tensor_sizes import sizes_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.semantics import Semantics, argument, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import is_torchvision_model, module_facts

#: What is done with the output of one sample: it leaves torch or becomes one number.
_LEAVING = frozenset("item tolist numpy cpu detach data argmax".split())
_POOLS = ("torch.nn.AdaptiveAvgPool", "torch.nn.AdaptiveMaxPool")


@dataclass(frozen=True)
class _Axis:
    """The axis of length one that a layer leaves: how it is removed by name, and why it is there."""

    removal: str
    why: str


class SqueezeAllDims(Rule):
    """## What it does

    Reports `squeeze()` without a dimension on the output of a layer or a model.

    ## Why is this bad?

    It removes every axis of length one. With a batch of one sample, as the last batch of an epoch may be, the batch
    axis goes too: the loss then broadcasts what is left against the targets, and a layer that follows raises or takes
    the features for a batch.

    ## Example

    ```python
    import torch
    from torch import nn


    class Regressor(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 1)

        def forward(self, x):
            return self.head(x).squeeze()
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    class Regressor(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 1)

        def forward(self, x):
            return self.head(x).squeeze(-1)
    ```

    ## Exceptions

    Scalars, parameters, tensors of known size, and single samples: what is made with `unsqueeze(0)`, taken apart with
    `squeeze(0)`, or read out with `item()` or `numpy()`. There is a fix where the code shows which axis has length one.

    ## References

    - [torch.squeeze](https://docs.pytorch.org/docs/stable/generated/torch.squeeze.html)
    """

    code = "TL408"
    name = "squeeze-all-dims"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "A batch of one sample loses its batch axis, too."

    @on_method("squeeze")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        if not call.args and not call.keywords and not unit.semantics.names(call.func):
            yield from self._check(call, call.func.value, unit)

    @on_call("torch.squeeze")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        tensor = argument(call, 0, "input")
        if tensor is not None and len(call.args) + len(call.keywords) == 1:
            yield from self._check(call, tensor, unit)

    def _check(self, call: ast.Call, tensor: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        kind = semantics.kind(tensor)
        if kind is not None and kind.what is not What.TENSOR:
            return
        sizes = sizes_of(semantics, tensor)
        if (sizes is not None and None not in sizes) or _is_one_sample(semantics, call, tensor):
            return
        operations = last_operations(semantics, tensor)
        if not operations or not all(_is_output(semantics, operation) for operation in operations):
            return
        axes = [_axis_of_one(semantics, operation) for operation in operations]
        axis = axes[0] if all(found == axes[0] for found in axes) else None
        inside = _is_in_forward(semantics, call)
        if axis is None and not inside and _leaves(call):
            return
        shown = ast.unparse(tensor)
        subject = f"of `{shown}` " if len(shown) <= 60 else ""
        message = f"`squeeze()` {subject}drops every axis of length one: in a batch of one sample the batch axis, too."
        fixes = []
        if axis is not None:
            message = f"{message[:-1]}. `{axis.removal}` drops the one that {axis.why}."
            fixes = [
                FixPlan(f"Use `.{axis.removal}`", "unsafe", lambda edit: _rewrite(edit, call, tensor, axis.removal))
            ]
        yield self.found(call, message, fixes=fixes)


def _is_output(semantics: Semantics, operation: Operation) -> bool:
    """Whether a value comes out of a layer or a model, and not out of a loss or a reduction to one number."""
    call = operation.node
    if not isinstance(call, ast.Call):
        return False
    name = operation.name
    if name == "torch.nn.Module" or is_torchvision_model(name):
        return True
    if name.startswith("torch.nn.") and not name.startswith("torch.nn.functional."):
        facts = module_facts(name)
        return facts is not None and facts.kind not in ("loss", "container", "recurrent")
    if name:
        return False
    kind = semantics.kind(call.func)
    if kind is None or kind.what is not What.MODULE or module_facts(kind.origin) is not None:
        return False
    return kind.class_node is None and not kind.origin.startswith("torch.nn.")


def _axis_of_one(semantics: Semantics, operation: Operation) -> _Axis | None:
    """The axis of length one that a layer certainly leaves."""
    facts = module_facts(operation.name)
    if facts is None or not isinstance(operation.node, ast.Call):
        return None
    build = _build(semantics, operation)
    if build is None:
        return None
    short = operation.name.removeprefix("torch.nn.")
    if operation.name.startswith(_POOLS):
        size = layer_argument(build, facts, "output_size")
        items = size.elts if isinstance(size, ast.Tuple | ast.List) else [size]
        if items and all(whole_number(item, semantics) == 1 for item in items):
            return _Axis("flatten(1)", f"`{short}` leaves behind each channel")
        return None
    if sizes_of_construction(build, operation.name, semantics).gives != 1:
        return None
    if short == "Linear":
        return _Axis("squeeze(-1)", "`Linear` makes of its one output")
    return _Axis("squeeze(1)", f"`{short}` makes of its one channel") if short.startswith("Conv") else None


def _build(semantics: Semantics, operation: Operation) -> ast.Call | None:
    """The construction of the layer: the operation's node where a container runs it, else what it calls was made of."""
    node = operation.node
    if not isinstance(node, ast.Call):
        return None
    if semantics.is_named(node.func, operation.name):
        return node
    kind = semantics.kind(node.func)
    return kind.node if kind is not None and isinstance(kind.node, ast.Call) else None


def _is_one_sample(semantics: Semantics, call: ast.Call, tensor: ast.expr) -> bool:
    """Whether the value was made of one sample (`model(x.unsqueeze(0))`), or is read out as one number."""
    holder = parent_of(call)
    if isinstance(holder, ast.Attribute) and holder.attr == "item":
        return True
    value = semantics.value_of(tensor)
    texts = [ast.unparse(tensor), ast.unparse(value) if value is not None else ""]
    for given in value.args if isinstance(value, ast.Call) else []:
        origin = semantics.value_of(given)
        texts.append(ast.unparse(origin) if origin is not None else "")
    return any("unsqueeze(" in text or "[None" in text or "squeeze_(" in text for text in texts) or _batches_itself(
        semantics, call
    )


def _batches_itself(semantics: Semantics, call: ast.Call) -> bool:
    """Whether the function around makes a batch of one somewhere, or takes one apart: `x.unsqueeze(0)`."""
    function = enclosing_function(call)
    return function is not None and any(
        isinstance(other, ast.Call)
        and isinstance(other.func, ast.Attribute)
        and other.func.attr in ("unsqueeze", "unsqueeze_", "squeeze")
        and len(other.args) > 0
        and semantics.literal(other.args[-1]) == 0
        for other in nodes_within(function, ast.Call)
    )


def _is_in_forward(semantics: Semantics, call: ast.Call) -> bool:
    function = enclosing_function(call)
    holder = enclosing_class(function) if function is not None else None
    return function is not None and function.name == "forward" and holder is not None


def _leaves(call: ast.Call) -> bool:
    """Whether the result leaves torch at once, as in a script that shows one sample."""
    holder = parent_of(call)
    return isinstance(holder, ast.Attribute) and holder.attr in _LEAVING


def _rewrite(edit: Editor, call: ast.Call, tensor: ast.expr, removal: str) -> None:
    text = edit.source(tensor)
    if not isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    edit.replace(call, f"{text}.{removal}")
