from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import last_name
from torchlint.semantics.unit import Unit
from torchlint.torch_api import tensor_method

_TYPE_TESTS = frozenset(("isinstance", "is_tensor", "type", "hasattr", "issubclass"))
_FOR_OLD_RELEASES = regex(r"compatib", re.IGNORECASE)


class TensorCopyConstruct(Rule):
    """## What it does

    Reports `torch.tensor(t)` where `t` is a tensor already.

    ## Why is this bad?

    It copies the tensor and cuts it from its graph, in a way that hides both, and torch warns about it each time.
    `t.detach().clone()` says the same, and `t` alone is often enough.

    ## Example

    ```python
    import torch

    weights = torch.ones(3)
    copied = torch.tensor(weights)
    ```

    ## Use instead

    ```python
    import torch

    weights = torch.ones(3)
    copied = weights.detach().clone()
    ```

    ## Exceptions

    Values that may be a list or a number: only what is proven to be a tensor is reported. A parameter that is annotated
    as a tensor has to be used as one too, and one whose type is tested is left alone, as is code that a comment calls
    compatible with something. With `dtype`, `device` or
    `requires_grad` there is no fix.

    ## References

    - [torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
    """

    code = "TL402"
    name = "tensor-copy-construct"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "The tensor is copied and cut from its graph; torch warns about this spelling."

    @on_call("torch.tensor")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        data = argument(call, 0, "data")
        kind = unit.semantics.kind(data)
        if data is None or kind is None or not kind.is_tensor or not kind.proven:
            return
        only_annotated = kind.evidence == "annotated" and isinstance(data, ast.Name | ast.Subscript)
        if _is_type_tested(data, unit) or (only_annotated and not _is_used_as_tensor(data, unit)):
            return
        if is_stated(call, _FOR_OLD_RELEASES):
            return  # `clip_grad_norm_` gave a number once
        shown = ast.unparse(data)
        subject = f"`{shown}`" if len(shown) <= 50 else "its argument"
        message = (
            f"`{ast.unparse(call.func)}` copies {subject}, which is a tensor already, and cuts the graph: "
            "`.detach().clone()` says so."
        )
        fixes = []
        if len(call.args) + len(call.keywords) == 1:
            fixes = [FixPlan("Use `.detach().clone()`", "safe", lambda edit: _clone(edit, call, data))]
        yield self.found(call, message, fixes=fixes)


def _is_type_tested(data: ast.expr, unit: Unit) -> bool:
    """Whether the function asks what the value is, so that here it may be something else."""
    function = enclosing_function(data)
    if function is None:
        return False
    text = ast.dump(data)
    return any(
        isinstance(node, ast.Call)
        and node.args
        and last_name(node.func) in _TYPE_TESTS
        and ast.dump(node.args[0]) == text
        for node in nodes_within(function, ast.Call)
    )


def _is_used_as_tensor(data: ast.expr, unit: Unit) -> bool:
    """Whether the function calls a method of tensors on a parameter: an annotation alone does not keep lists out."""
    function = enclosing_function(data)
    if function is None or not isinstance(data, ast.Name):
        return False
    facts = [tensor_method(method) for method in unit.semantics.methods_called_on(data.id, function)]
    return any(entry is not None and not {"list", "dict", "str"} & set(entry.also_on) for entry in facts)


def _clone(edit: Editor, call: ast.Call, data: ast.expr) -> None:
    text = edit.source(data)
    if not isinstance(data, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    edit.replace(call, f"{text}.detach().clone()")
