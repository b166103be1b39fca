from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_attribute_set, on_node, on_reference
from torchlint.semantics.kinds import What
from torchlint.semantics.narrowing import class_tested_around
from torchlint.semantics.nodes import shortened
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class DataAttribute(Rule):
    """## What it does

    Reports the attribute `.data` of a tensor or parameter, read or assigned.

    ## Why is this bad?

    `x.data` shares the memory of `x` and hides every change of it from autograd: a value that the backward pass still
    needs can be overwritten, and the gradients are wrong without an error. `x.detach()` shares the memory too, and the
    backward pass notices the change and raises. `with torch.no_grad():` is the way to change a parameter.

    ## Example

    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(3))
    snapshot = weight.data.clone()
    ```

    ## Use instead

    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(3))
    snapshot = weight.detach().clone()
    ```

    ## Exceptions

    Only what is known to be a tensor or a parameter is reported: batches, packed sequences, storages and other objects
    have a `data` of their own. An assignment has no fix, because it replaces the memory and `copy_` fills it. The first
    element of a loss (`loss.data[0]`) is told by `inert-legacy-switch`.

    ## References

    - [torch.Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "TL405"
    name = "data-attribute"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Changes through `.data` are hidden from autograd, and gradients can be wrong without an error."

    @on_reference("data")
    def check_read(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(node, ast.Attribute) or not _is_certain_tensor(node.value, unit):
            return
        holder = parent_of(node)
        if isinstance(holder, ast.Subscript) and isinstance(holder.slice, ast.Constant) and holder.slice.value == 0:
            return
        tensor = shortened(node.value, 40)
        message = (
            f"`{tensor}.data` shares the memory of `{tensor}` and hides changes from autograd: `{tensor}.detach()` "
            "shares it too, and the backward pass notices them."
        )
        fix = FixPlan(
            "Use `.detach()`", "unsafe", lambda edit: edit.replace(node, f"{edit.source(node.value)}.detach()")
        )
        yield self.found(node, message, fixes=[fix])

    @on_node(ast.AugAssign)
    @on_attribute_set(lambda name: name == "data")
    def check_write(self, statement: ast.Assign | ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if not isinstance(target, ast.Attribute) or target.attr != "data":
                continue
            if not _is_certain_tensor(target.value, unit):
                continue
            tensor = shortened(target.value, 40)
            message = (
                f"Assigning `{tensor}.data` replaces the values behind autograd: `{tensor}.copy_(...)` under "
                "`torch.no_grad()` changes them in place and is seen."
            )
            yield self.found(target, message)


def _is_certain_tensor(expression: ast.expr, unit: Unit) -> bool:
    """Parameters by any evidence, other tensors by proof: batches of unknown loaders have a `data` of their own."""
    if unit.semantics.names(expression):
        return False
    if _is_weight_of_tested_layer(expression, unit):
        return True
    kind = unit.semantics.kind(expression)
    return kind is not None and (kind.what is What.PARAMETER or (kind.is_tensor and kind.proven))


def _is_weight_of_tested_layer(expression: ast.expr, unit: Unit) -> bool:
    """Whether this is `m.weight` or `m.bias` under `isinstance(m, nn.Linear)`."""
    match expression:
        case ast.Attribute(value=ast.Name() as layer, attr="weight" | "bias"):
            tested = class_tested_around(unit.semantics, layer)
            return torch_api.module_facts(unit.semantics.name(tested)) is not None
        case _:
            return False
