from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.values.tensors_made_here import MOVES, is_made_here
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import AttributeWrite, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What only looks at a tensor, wherever it is.
_LOOKS = frozenset({"shape", "size", "dtype", "dim", "ndim", "numel", "item", "tolist", "data_ptr", "numpy"})
#: Methods with which a class moves its tensors itself.
_OWN_WAY = frozenset({"_apply", "to", "cuda", "half", "float", "__setattr__", "__getattr__"})
_FRAMEWORKS = ("pytorch_lightning.", "lightning.")


class UnregisteredTensor(Rule):
    """## What it does

    Reports a tensor that a module makes in its constructor, keeps as a plain attribute and computes with in `forward`.

    ## Why is this bad?

    Only parameters and buffers follow the module. After `model.to("cuda")` the tensor is still on the CPU, and
    `forward` raises "Expected all tensors to be on the same device". `model.half()` leaves it in float32, and the state
    dict does not have it.

    ## Example

    ```python
    import torch
    import torch.nn as nn


    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.mask = torch.tril(torch.ones(size, size))

        def forward(self, scores):
            return scores * self.mask
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn


    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(size, size)), persistent=False)

        def forward(self, scores):
            return scores * self.mask
    ```

    With `persistent=False` the tensor follows the module but is not saved, so that checkpoints of before still load.

    ## Exceptions

    Tensors that are moved where they are used, made with a device, or written again later; tensors of one number, and
    single elements (`schedule[epoch]`), which may stay on the CPU; Lightning modules; classes that move their tensors
    themselves.

    ## References

    - [torch.nn.Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL104"
    name = "unregistered-tensor"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "A plain tensor of a module stays where it was made when the module is moved."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        constructor = view.method("__init__")
        if constructor is None or any(method.name in _OWN_WAY for method in view.methods):
            return
        if any(name.startswith(_FRAMEWORKS) for name in view.semantics.ancestors(view.node)):
            return
        for name in view.attributes:
            writes = view.writes(name)
            if len(writes) != 1 or enclosing_function(writes[0].statement) is not constructor:
                continue
            if not _is_plain_tensor(writes[0], view.semantics):
                continue
            use = _use_in_forward(name, view)
            if use is not None:
                yield self._diagnosis(writes[0], use)

    def _diagnosis(self, write: AttributeWrite, use: ast.Attribute) -> Diagnosis:
        statement, value = write.statement, write.value
        assert value is not None
        fixes = []
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            title = f'Register it: `register_buffer("{write.name}", ..., persistent=False)`'
            fixes = [
                FixPlan(
                    title,
                    "unsafe",
                    lambda edit: edit.replace(
                        statement,
                        f'{write.base}.register_buffer("{write.name}", {edit.source(value)}, persistent=False)',
                    ),
                )
            ]
        return self.found(
            write.target,
            f"`self.{write.name}` is a plain tensor: it stays on the CPU when the module is moved to another device.",
            related=[(use, "`forward` computes with it here")],
            fixes=fixes,
        )


def _is_plain_tensor(write: AttributeWrite, semantics: Semantics) -> bool:
    """Whether a tensor of several numbers is made on the CPU, from nothing that could be elsewhere."""
    value = write.value
    return value is not None and not write.path and not write.augmented and is_made_here(value, semantics)


def _use_in_forward(name: str, view: ClassView) -> ast.Attribute | None:
    """Where ``forward``, or a method that it calls, computes with an attribute; None if it moves it anywhere."""
    found: ast.Attribute | None = None
    for method in sorted(view.called_from("forward") - view.called_from("__init__"), key=lambda one: one.lineno):
        for node in self_attributes(method):
            if node.attr != name:
                continue
            if not isinstance(node.ctx, ast.Load):
                return None
            for use in _uses(node, method):
                if _is_moved(use, view.semantics):
                    return None
                if found is None and _computes(use, view.semantics):
                    found = node
    return found


def _uses(node: ast.Attribute, method: FunctionNode) -> list[ast.expr]:
    """Where a method uses what it reads: at the place, or all uses of the variable that holds it, or a part of it."""
    read: ast.expr = node
    parent = parent_of(node)
    while isinstance(parent, ast.Subscript) and parent.value is read and not _may_be_one_number(parent):
        read, parent = parent, parent_of(parent)
    match parent:
        case ast.Assign(targets=[ast.Name(id=held)], value=value) if value is read:
            names = (name for name in nodes_within(method, ast.Name) if isinstance(name, ast.Name))
            return [name for name in names if name.id == held and isinstance(name.ctx, ast.Load)]
        case _:
            return [node]


def _is_moved(node: ast.expr, semantics: Semantics) -> bool:
    """Whether a use is followed by a move (``self.mask[:n].to(x.device)``), or hands the tensor to who may move it."""
    current: ast.AST = node
    parent = parent_of(current)
    while isinstance(parent, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(parent, ast.Attribute) and parent.attr in MOVES:
            return True
        if isinstance(parent, ast.Call) and parent.func is not current:
            return _may_move(parent, semantics)
        if isinstance(parent, ast.Subscript) and parent.value is not current:
            return False
        current, parent = parent, parent_of(parent)
    if isinstance(parent, ast.keyword):
        call = parent_of(parent)
        return not isinstance(call, ast.Call) or _may_move(call, semantics)
    return isinstance(parent, ast.Assign | ast.Return)


def _may_move(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call may move the tensor it is given: all but functions of torch, layers and methods of tensors."""
    if semantics.name(call.func).startswith("torch.") or _is_layer(call, semantics):
        return False
    if not isinstance(call.func, ast.Attribute) or call.func.attr in MOVES:
        return True
    kind = semantics.kind(call.func.value)
    return kind is None or not kind.is_tensor


def _is_layer(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a layer of torch that has weights is called."""
    kind = semantics.kind(call.func)
    return (
        kind is not None
        and kind.proven
        and kind.is_module
        and kind.class_node is None
        and kind.origin.startswith("torch.nn.")
        and state_of(kind, semantics) is State.WEIGHTS
    )


def _may_be_one_number(part: ast.Subscript) -> bool:
    """Whether a part may be a single element, which may stay on the CPU: so may ``table[i]``, but not ``table[:n]``."""
    given = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
    return not any(
        isinstance(item, ast.Slice) or (isinstance(item, ast.Constant) and item.value in (None, ...)) for item in given
    )


def _computes(node: ast.expr, semantics: Semantics) -> bool:
    """Whether a use is an operand beside another tensor."""
    current: ast.AST = node
    parent = parent_of(current)
    while isinstance(parent, ast.Subscript | ast.Attribute | ast.Call):
        if isinstance(parent, ast.Attribute) and parent.attr in _LOOKS:
            return False
        if isinstance(parent, ast.Call) and parent.func is not current:
            if _is_layer(parent, semantics):
                return True
            name = semantics.name(parent.func)
            return name.startswith("torch.") and len(parent.args) > 1 and torch_api.returns_tensor(name)
        if isinstance(parent, ast.Subscript) and (parent.value is not current or _may_be_one_number(parent)):
            return False
        current, parent = parent, parent_of(parent)
    if isinstance(parent, ast.BinOp):
        other = parent.right if parent.left is current else parent.left
        kind = semantics.kind(other)
        return kind is not None and kind.is_tensor
    return False
