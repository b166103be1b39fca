from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.values.einops_patterns import groups_of_axes
from torchlint.idioms.values.single_axes import axis_of_outputs, axis_that_is_made
from torchlint.idioms.values.tensor_sizes import sizes_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What is done with the output of one sample: it leaves torch or becomes one number.
_LEAVING = frozenset("item tolist numpy cpu detach data argmax".split())
#: How a batch is made of one sample.
_BATCHED = regex(r"unsqueeze_?\((dim=)?0\)|\[None")

#: What the author says where all axes are meant: "collapse all dimensions except time".
_ALL = regex(r"\b(all|every|any)\b.*\b(dim\w*|axis|axes)", re.IGNORECASE)


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
    `squeeze(0)`, or read out with `item()` or `numpy()`. A loss whose two sides are both squeezed compares the same
    numbers. There is a fix where the code shows which axis has length one.

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
        known = sizes is not None and None not in sizes
        if known or _is_one_sample(semantics, call, tensor) or _is_one_of_a_pair(semantics, call):
            return
        axis = axis_that_is_made(semantics, tensor)
        if axis is None:
            is_output, axis = axis_of_outputs(semantics, tensor)
            if not is_output and not _has_batch_by_pattern(semantics, tensor):
                return
        if (axis is None and not _is_in_forward(call) and _leaves(call)) or is_stated(call, _ALL):
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


def _has_batch_by_pattern(semantics: Semantics, tensor: ast.expr) -> bool:
    """Whether a pattern gives the value a batch axis, and none of length one: ``einsum(a, b, "n d, m d -> n m")``.

    A pattern that leaves one axis leaves nothing to squeeze but that one.
    """
    value = semantics.value_of(tensor)
    patterns: list[object] = []
    match value:
        case ast.Call() if semantics.is_named(value.func, "torch.einsum") and value.args:
            equation = semantics.literal(value.args[0])
            before, arrow, after = equation.partition("->") if isinstance(equation, str) else ("", "", "")
            patterns = [f"{' '.join(before.partition(',')[0])} -> {' '.join(after.strip())}"] if arrow else []
        case ast.Call() if semantics.is_named(value.func, "einops.einsum", "einops.reduce", "einops.rearrange"):
            patterns = [semantics.literal(item) for item in value.args]
    found = next((groups_of_axes(item) for item in patterns if isinstance(item, str) and "->" in item), None)
    if found is None:
        return False
    axes = [axis for group in found[1] for axis in group]
    if not all(found[1]) or not all(axis.isidentifier() for axis in axes):
        return False
    return len(axes) == 1 or (bool(axes) and (axes[0] in ("b", "B", "n", "N", "bs") or "batch" in axes[0]))


def _is_one_of_a_pair(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a loss is given two tensors that are both squeezed: a batch of one is one number on both sides."""
    holder = parent_of(call)
    return isinstance(holder, ast.Call) and any(
        isinstance(other, ast.Call)
        and other is not call
        and isinstance(other.func, ast.Attribute)
        and other.func.attr == "squeeze"
        and not other.args
        and not other.keywords
        for other in holder.args
    )


def _is_one_sample(semantics: Semantics, call: ast.Call, tensor: ast.expr) -> bool:
    """Whether the value was made of one sample (`model(x.unsqueeze(0))`), or is read out as one number."""
    holder = parent_of(call)
    if isinstance(holder, ast.Attribute) and holder.attr == "item":
        return True
    value = semantics.value_of(tensor)
    sources = [tensor, value, *(map(semantics.value_of, value.args) if isinstance(value, ast.Call) else [])]
    texts = [ast.unparse(source) for source in sources if source is not None]
    return any(_BATCHED.search(text) for text in texts) or _batches_itself(semantics, call)


def _batches_itself(semantics: Semantics, call: ast.Call) -> bool:
    """Whether the function around makes a batch of one somewhere, or takes one apart: `x.unsqueeze(0)`."""
    function = enclosing_function(call)
    return function is not None and any(
        isinstance(other, ast.Call)
        and isinstance(other.func, ast.Attribute)
        and other.func.attr in ("unsqueeze", "unsqueeze_", "squeeze")
        and bool(other.args)
        and semantics.literal(other.args[-1]) == 0
        for other in nodes_within(function, ast.Call)
    )


def _is_in_forward(call: ast.Call) -> bool:
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
