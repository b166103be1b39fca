from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit


class AutogradVariable(Rule):
    """## What it does

    Reports calls of `torch.autograd.Variable`.

    ## Why is this bad?

    Variables and tensors are one thing since torch 0.4. `Variable(x)` makes another tensor over the same memory, cut
    from the graph of `x`: on data it does nothing, on the output of a model it silently stops the gradients.

    ## Example

    ```python
    from torch.autograd import Variable

    images = Variable(images)
    ```

    ## Use instead

    ```python
    from torch.autograd import Variable

    images = images
    ```

    ## Exceptions

    Tests of the type (`isinstance(x, Variable)`) and annotations. The fix wants a reader: where the argument has a
    graph, the tensor itself keeps it, and `.detach()` is what the code does today.

    ## References

    - [torch.autograd: Variable](https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated)
    """

    code = "TL010"
    name = "autograd-variable"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "A `Variable` is a plain tensor that is cut from the graph of its argument."

    @on_call("torch.autograd.Variable")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if in_version_fallback(unit.semantics, call):
            return
        yield self.found(
            call,
            "`Variable` only wraps a tensor in another one, cut from its graph: use the tensor itself.",
            fixes=_fixes(call),
            deprecated=True,
        )


def _fixes(call: ast.Call) -> list[FixPlan]:
    data = argument(call, 0, "data")
    if data is None or has_unknown_arguments(call) or len(call.args) > 2:
        return []
    known = {item.arg for item in call.keywords}
    if not known <= {"data", "requires_grad", "volatile"}:
        return []
    requires_grad = argument(call, 1, "requires_grad")
    wanted = literal_of(requires_grad) if requires_grad is not None else False
    if wanted is False:
        return [FixPlan("Use the tensor itself", "unsafe", lambda edit: edit.replace_by_operand(call, data))]
    if wanted is True:
        return [FixPlan("Use `.requires_grad_()`", "unsafe", lambda edit: _require_grad(edit, call, data))]
    return []


def _require_grad(edit: Editor, call: ast.Call, data: ast.expr) -> None:
    text = edit.source(data)
    if not isinstance(data, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    edit.replace(call, f"{text}.requires_grad_()")
