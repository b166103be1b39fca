"""Tensors that a function makes on the CPU out of nothing but sizes and numbers, in one step or through local names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

#: Methods and attributes with which a tensor is brought to a device.
MOVES = frozenset({"to", "cuda", "cpu", "type_as", "device", "xpu"})
#: How many local names lie between the value and where its tensor was made, at most.
_MOST_STEPS = 8


def is_made_here(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is a tensor of several numbers that is made on the CPU, from nothing that could be elsewhere."""
    if not _is_tensor(value, semantics):
        return False
    steps = _steps(value, semantics)
    return steps is not None and any(_makes_tensor(call, semantics) for step in steps for call in _calls(step))


def _is_tensor(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value is a tensor. A tensor that arithmetic makes with an unknown (``torch.arange(0, n) / n``) is one
    where the unknown is a size."""
    kind = semantics.kind(value)
    if kind is None or kind.what is not What.TENSOR:
        return False
    return kind.proven or all(_is_size(name, semantics) for name in _unknown_operands(value, semantics))


def _unknown_operands(value: ast.expr, semantics: Semantics) -> Iterator[ast.expr]:
    """The operands of arithmetic in a value, and in the local names it is computed from, of which nothing is known."""
    waiting, seen = [value], {value}
    while waiting:
        step = waiting.pop()
        for node in nodes_within(step, ast.BinOp, ast.Name):
            if isinstance(node, ast.BinOp):
                yield from (side for side in (node.left, node.right) if semantics.kind(side) is None)
                continue
            assert isinstance(node, ast.Name)
            for definition in semantics.definitions(node):
                if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
                    waiting += [definition.value] if definition.value not in seen else []
                    seen.add(definition.value)


def _is_size(operand: ast.expr, semantics: Semantics) -> bool:
    """Whether a parameter of the constructor says there how large a tensor is, too."""
    function = enclosing_function(operand)
    if not isinstance(operand, ast.Name) or function is None:
        return False
    return any(
        isinstance(item, ast.Name) and item.id == operand.id
        for call in _calls(function)
        if torch_api.factory_facts(semantics.name(call.func)) is not None
        for item in call.args
    )


def _steps(value: ast.expr, semantics: Semantics, depth: int = 0) -> list[ast.expr] | None:
    """A value and those of the local names that it is computed from; None if one of them may be elsewhere."""
    if depth > _MOST_STEPS or not isinstance(value, ast.Call | ast.BinOp | ast.Subscript | ast.UnaryOp | ast.Name):
        return None
    if any(_may_place(call, semantics) for call in _calls(value)):
        return None
    found: list[ast.expr] = [value]
    for node in nodes_within(value, ast.Name, ast.Attribute):
        assert isinstance(node, ast.Name | ast.Attribute)
        if not _may_be_elsewhere(node, semantics):
            continue
        if isinstance(node, ast.Attribute):
            if not _is_tensor(node.value, semantics):
                return None
            continue  # `table.T`: where that is, the tensor tells
        for definition in semantics.definitions(node):
            if definition.kind is not Binding.ASSIGNMENT or definition.value is None or definition.path:
                return None
            if enclosing_function(definition.value) is not enclosing_function(node):
                return None
            inner = _steps(definition.value, semantics, depth + 1)
            if inner is None:
                return None
            found += inner
    return found


def _calls(value: ast.AST) -> Iterator[ast.Call]:
    return (call for call in nodes_within(value, ast.Call) if isinstance(call, ast.Call))


def _may_place(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call says where its tensor goes, or makes a parameter (functions of ``torch.nn.init`` give it back)."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in MOVES:
        return True
    if any(item.arg in ("device", None) for item in call.keywords):
        return True
    name = semantics.name(call.func)
    return name == "torch.nn.Parameter" or name.startswith("torch.nn.init.")


def _makes_tensor(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call makes a tensor that has several numbers."""
    facts = torch_api.factory_facts(semantics.name(call.func))
    if facts is None or facts.like:
        return False
    return facts.name not in ("torch.tensor", "torch.as_tensor", "torch.from_numpy") or _has_several(call)


def _has_several(call: ast.Call) -> bool:
    """Whether the data of ``torch.tensor`` are a list that is written out."""
    return bool(call.args) and isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp)


def _may_be_elsewhere(node: ast.Name | ast.Attribute, semantics: Semantics) -> bool:
    """Whether a part of the expression is a tensor that somebody else made."""
    if not isinstance(node.ctx, ast.Load):
        return False
    kind = semantics.kind(node)
    return kind is not None and (kind.is_tensor or kind.is_module)
