from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training.requires_grad import graph_of
from torchlint.idioms.values.devices import device_evidence
from torchlint.idioms.values.origins import operation_of, origin_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_reference
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.scopes import Binding, Definition, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class GradOfNonLeaf(Rule):
    """## What it does

    Reports `x.grad` where `x` was computed from a tensor that requires gradients, so that it is no leaf of the graph.

    ## Why is this bad?

    Backward passes keep the gradients of leaves only: of any other tensor `grad` is `None`, and torch warns. It happens
    most when a leaf is moved or scaled in the line that makes it: `torch.randn(3, requires_grad=True).cuda()` is a copy
    on the GPU, and the leaf is lost. The same is true of `w = w - lr * w.grad` from the second step on.

    ## Example

    ```python
    import torch

    x = torch.randn(3, requires_grad=True).cuda()
    x.sum().backward()
    print(x.grad)
    ```

    ## Use instead

    ```python
    import torch

    x = torch.randn(3, device="cuda", requires_grad=True)
    x.sum().backward()
    print(x.grad)
    ```

    ## Exceptions

    Tensors that are told to keep their gradient by `retain_grad()`, and code that expects the warning or states in an
    `assert` that there is none.

    ## References

    - [torch.Tensor.grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.grad.html)
    - [torch.Tensor.is_leaf](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html)
    """

    code = "TL415"
    name = "grad-of-non-leaf"
    level = Level.WARNING
    summary = "Gradients are kept of leaves only: here `grad` is `None`."

    @on_reference("grad")
    def check(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name | ast.Attribute):
            return
        semantics, tensor = unit.semantics, node.value
        if semantics.names(tensor) or _keeps_gradient(semantics, tensor) or _is_meant(node):
            return
        shown = ast.unparse(tensor)
        found = _derivation(semantics, tensor)
        if found is None:
            return
        computed, why = found
        message = f"`{shown}` is no leaf: {why}. Gradients are kept of leaves only, so `{shown}.grad` is `None`."
        yield self.found(node, message, related=[(computed, f"`{shown}` is computed here")])


def _derivation(semantics: Semantics, tensor: ast.expr) -> tuple[ast.AST, str] | None:
    """Where a tensor was computed from one that requires gradients, and how."""
    graph = graph_of(semantics, tensor)
    value = origin_of(semantics, tensor)
    if graph is not None and graph.leaf is False and graph.node is not tensor:
        return value or graph.node, "it is computed from what requires gradients"
    if graph is not None and graph.leaf is None and isinstance(value, ast.Call) and _moves(semantics, value):
        operation, _ = operation_of(semantics, value)
        return value, f"`{operation}` makes a copy on another device"
    if isinstance(tensor, ast.Name):
        return _rebound(semantics, tensor)
    return None


def _moves(semantics: Semantics, call: ast.Call) -> bool:
    operation, _ = operation_of(semantics, call)
    if operation == "cuda":
        return True
    if operation != "to" or len(call.args) != 1:
        return False
    return semantics.literal(call.args[0]) != "cpu" and device_evidence(semantics, call.args[0]) is not None


def _rebound(semantics: Semantics, tensor: ast.Name) -> tuple[ast.AST, str] | None:
    """``w = w - lr * w.grad`` in a loop: the second time round `w` is what was computed."""
    definitions = semantics.definitions(tensor)
    leaves = [item for item in definitions if _is_leaf(semantics, item)]
    others = [item for item in definitions if item not in leaves]
    if not leaves or len(others) != 1:
        return None
    value = others[0].value
    if others[0].kind is not Binding.ASSIGNMENT or others[0].path or not isinstance(value, ast.BinOp):
        return None
    names = [value.left, value.right]
    if any(isinstance(side, ast.Name) and side.id == tensor.id for side in names):
        return value, "from the second time round the loop it is the result of this computation"
    return None


def _is_leaf(semantics: Semantics, definition: Definition) -> bool:
    if definition.kind is not Binding.ASSIGNMENT or definition.path or definition.value is None:
        return False
    graph = graph_of(semantics, definition.value)
    return graph is not None and graph.leaf is True


def _keeps_gradient(semantics: Semantics, tensor: ast.expr) -> bool:
    """Whether something in the file tells a tensor of this name to keep its gradient."""
    name = last_name(tensor)
    for method in ("retain_grad", "register_hook", "requires_grad_"):
        for call in semantics.module.calls_of(method):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (
                name
                and last_name(receiver) == name
                and (method != "requires_grad_" or enclosing_function(call) is enclosing_function(tensor))
            ):
                return True
    return False


def _is_meant(node: ast.AST) -> bool:
    """Whether the code expects the warning, or states that there is no gradient."""
    if is_expected_to_raise(node):
        return True
    holder = parent_of(node)
    while holder is not None and not isinstance(holder, ast.stmt):
        if isinstance(holder, ast.Call) and getattr(holder.func, "attr", "").startswith("assert"):
            return True
        holder = parent_of(holder)
    return isinstance(holder, ast.Assert)
