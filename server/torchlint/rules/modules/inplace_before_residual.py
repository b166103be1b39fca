from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes import Editor
from torchlint.idioms.modules.inplace_activations import (
    Held,
    InPlace,
    inplace_activations,
    may_work_in_place,
    tensor_of,
    tensors_of,
)
from torchlint.idioms.modules.layer_order import applied
from torchlint.idioms.values.iterators import can_follow
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_function
from torchlint.semantics.nodes import contains, enclosing_class, enclosing_function, is_static, nodes_within, shortened
from torchlint.semantics.scopes import Binding, Definition, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_ADDING = frozenset(("torch.add", "torch.cat", "torch.concat", "torch.concatenate"))
_ADDING_TAILS = frozenset(name.rpartition(".")[2] for name in _ADDING)


class InplaceBeforeResidual(Rule):
    """## What it does

    Reports activations that work in place on a tensor that is added (or concatenated) afterwards as the residual.

    ## Why is this bad?

    The activation overwrites the tensor. What is added is no longer the input of the block but what the activation made
    of it: a `relu` cuts off all negative values of the skip connection. Nothing raises.

    ## Example

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU(inplace=True)
            self.conv = nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            out = self.conv(self.relu(x))
            return out + x
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()
            self.conv = nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            out = self.conv(self.relu(x))
            return out + x
    ```

    ## Exceptions

    A residual that was copied before (`x.clone()`), an activation whose result is not used, so that it stands there for
    what it does in place, a tensor that a `relu` made before, and variables whose tensor cannot be told.

    ## References

    - [In-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd)
    - [torch.nn.ReLU](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html)
    """

    code = "TL120"
    name = "inplace-before-residual"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = (
        "The activation overwrites the tensor that is added afterwards: the skip connection carries another value."
    )

    @on_function()
    def check(self, function: FunctionNode, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not may_work_in_place(semantics):
            return
        additions = list(_added(function, semantics))
        if not additions or is_static(function):
            return
        changes = list(inplace_activations(function, semantics))
        added = [(operand, node, tensors_of(operand, semantics)) for operand, node in additions if changes]
        for change in changes:
            if enclosing_function(change.call) is not function or isinstance(parent_of(change.call), ast.Expr):
                continue
            tensor = tensor_of(change.operand, semantics)
            if tensor is not None and _is_rectified(tensor, change, semantics):
                continue
            for operand, addition, held in added:
                same = _holds(held, tensor, change.call) if tensor is not None else _is_same(change, operand, semantics)
                if same and _runs_before(change.call, addition, operand.id):
                    yield self._change(change, operand, addition, function)
                    break

    def _change(self, change: InPlace, operand: ast.expr, addition: ast.AST, function: FunctionNode) -> Diagnosis:
        shown, name = shortened(change.call, 60), ast.unparse(operand)
        related: list[tuple[ast.AST, str]] = [(addition, f"`{name}` is used here, and is changed by then")]
        own = change.switch is change.call or enclosing_class(change.switch) is enclosing_class(function)
        if change.switch is not change.call:
            related.append((change.switch, "made to work in place here"))
        fixes = [FixPlan("Let it make a new tensor", "unsafe", lambda edit: _mend(edit, change))] if own else []
        return self.found(
            change.call,
            f"`{shown}` works in place: it changes `{name}`, which is the residual afterwards.",
            related=related,
            fixes=fixes,
        )


def _added(function: FunctionNode, semantics: Semantics) -> Iterator[tuple[ast.Name, ast.AST]]:
    """The variables that a function adds or concatenates, each with the addition."""
    for node in nodes_within(function, ast.BinOp, ast.AugAssign, ast.Call):
        operands: list[ast.expr] = []
        match node:
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                operands = [left, right]
            case ast.AugAssign(op=ast.Add(), target=target, value=value):
                operands = [target, value]
            case ast.Call(func=ast.Attribute(value=receiver, attr="add" | "add_"), args=[other]):
                operands = [receiver, other]
            case ast.Call(args=[first, *rest]) if _may_add(node) and semantics.is_named(node.func, *_ADDING):
                operands = list(first.elts) if isinstance(first, ast.List | ast.Tuple) else [first, *rest]
        for operand in operands:
            if isinstance(operand, ast.Name) and enclosing_function(node) is function:
                yield operand, node


def _may_add(call: ast.Call) -> bool:
    return not isinstance(call.func, ast.Attribute) or call.func.attr in _ADDING_TAILS


def _holds(held: tuple[Held, ...], tensor: Definition, change: ast.Call) -> bool:
    """Whether a variable that can hold these tensors holds one of them on a path that leads over a change of it."""
    return any(
        found is tensor and all(_on_one_path(step.node, change) for step in passed_on) for found, passed_on in held
    )


def _is_same(change: InPlace, added: ast.Name, semantics: Semantics) -> bool:
    """Whether two uses of a variable in one turn of a loop see the same bindings: ``x = x + block(x)``."""
    changed = change.operand
    if not isinstance(changed, ast.Name) or changed.id != added.id:
        return False
    definitions = semantics.definitions(changed)
    if set(definitions) != set(semantics.definitions(added)):
        return False
    if any(_is_rectified(item, change, semantics) for item in definitions):
        return False
    loop = _loop_around(changed)
    return (
        loop is not None
        and loop is _loop_around(added)
        and any(item.kind is Binding.ASSIGNMENT and contains(loop, item.node) for item in definitions)
    )


def _loop_around(node: ast.AST) -> ast.AST | None:
    current = parent_of(node)
    while current is not None and not isinstance(current, ast.For | ast.While | FunctionNode):
        current = parent_of(current)
    return current if isinstance(current, ast.For | ast.While) else None


def _on_one_path(one: ast.AST, other: ast.AST) -> bool:
    first, second = sorted((one, other), key=_place)
    return can_follow(first, second)


def _place(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _runs_before(change: ast.Call, addition: ast.AST, name: str) -> bool:
    """Whether a change happens before an addition is done, on one path that leaves ``name`` as it is: inside of the
    addition, or in a statement before."""
    if contains(addition, change):
        return True
    return _place(change) < _place(addition) and can_follow(change, addition, name)


def _is_rectified(tensor: Definition, change: InPlace, semantics: Semantics) -> bool:
    """Whether a ``relu`` made the tensor, so that another one changes nothing."""
    if tensor.value is None or "relu" not in change.name.lower() or "leaky" in change.name.lower():
        return False
    made = applied(tensor.value, semantics)
    return made is not None and made.name in ("torch.nn.ReLU", "torch.nn.ReLU6", "torch.nn.Sigmoid")


def _mend(edit: Editor, change: InPlace) -> None:
    """Take ``inplace=True`` away, or call the function without the underscore."""
    switch = change.switch
    for item in switch.keywords:
        if item.arg == "inplace":
            edit.remove_argument(switch, item.value)
            return
    positional = [item for item in switch.args if isinstance(item, ast.Constant) and item.value is True]
    if positional:
        edit.replace(positional[-1], "False")
        return
    called = last_name(switch.func)
    edit.rename_called(switch, called.rstrip("_"))
