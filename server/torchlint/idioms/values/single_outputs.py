"""Axes that hold one value for certain: the output of ``nn.Linear(n, 1)``, of a convolution to one channel, ..."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint import torch_api
from torchlint.idioms.modules.layer_sizes import sizes_of_construction
from torchlint.idioms.modules.member_lists import members_of_call
from torchlint.idioms.values.dataflow import Operation, shaping_operations
from torchlint.regex import regex
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_CONVOLUTION = regex(r"torch\.nn\.(Lazy)?Conv(Transpose)?([123])d")
_LINEAR = ("torch.nn.Linear", "torch.nn.LazyLinear", "torch.nn.Bilinear")
_KEEPDIM = frozenset("sum mean amax amin norm logsumexp std var prod".split())
#: Layers that keep a matrix a matrix.
_KEEPS_MATRIX = frozenset(
    f"torch.nn.{name}"
    for name in "Linear Dropout ReLU LeakyReLU ELU SELU GELU SiLU Tanh Sigmoid BatchNorm1d LayerNorm Identity".split()
)
_RESHAPES = ("torch.Tensor.view", "torch.Tensor.reshape", "torch.reshape")
_DEEPEST = 8


def construction_of(semantics: Semantics, operation: Operation) -> ast.Call | None:
    """The call that makes the layer of an operation (``nn.Linear(8, 1)``); None where there is none or several."""
    if not operation.name.startswith("torch.nn.") or not isinstance(operation.node, ast.Call):
        return None
    if semantics.name(operation.node.func) == operation.name:
        return operation.node
    kind = semantics.kind(operation.node.func)
    if kind is None or not kind.proven or kind.origin != operation.name or not isinstance(kind.node, ast.Call):
        return None
    return kind.node


def single_output(semantics: Semantics, operation: Operation) -> ast.Call | None:
    """The construction of the layer, if the operation is a linear layer or convolution with one output."""
    if operation.name not in _LINEAR and _CONVOLUTION.fullmatch(operation.name) is None:
        return None
    built = construction_of(semantics, operation)
    if built is None or sizes_of_construction(built, operation.name, semantics).gives != 1:
        return None
    return built


def single_column(operation: Operation) -> ast.Call | None:
    """The call, if the operation makes a matrix of one column: ``logits.view(-1, 1)``."""
    call = operation.node
    if not isinstance(call, ast.Call) or operation.name not in _RESHAPES or has_unknown_arguments(call):
        return None
    sizes = _sizes(call, operation.name.startswith("torch.Tensor."))
    return call if len(sizes) == 2 and literal_of(sizes[1]) == 1 else None


def is_linear(operation: Operation) -> bool:
    """Whether the operation is a linear layer: its outputs stand in the last axis."""
    return operation.name in _LINEAR


def is_convolution(operation: Operation) -> bool:
    """Whether the operation is a convolution: its channels stand behind the batch."""
    return _CONVOLUTION.fullmatch(operation.name) is not None


def reason_for_one(semantics: Semantics, expression: ast.expr, dim: int) -> ast.AST | None:
    """What makes the axis ``dim`` of a tensor one value long, on all paths that lead to it; None if that is not sure.

    It is the construction of a layer, or the call that added or kept the axis.
    """
    operations = shaping_operations(semantics, expression)
    reasons = [_reason(semantics, operation, dim) for operation in operations]
    return reasons[0] if reasons and None not in reasons else None


def _reason(semantics: Semantics, operation: Operation, dim: int) -> ast.AST | None:
    built = single_output(semantics, operation)
    if built is not None:
        return built if _is_output_axis(semantics, operation, dim) else None
    call = operation.node
    if not isinstance(call, ast.Call) or has_unknown_arguments(call):
        return None
    tail = operation.name.rpartition(".")[2]
    is_method = operation.name.startswith("torch.Tensor.")
    if not is_method and operation.name != f"torch.{tail}":
        return None
    if tail in ("view", "reshape"):
        sizes = _sizes(call, is_method)
        return call if -len(sizes) <= dim < len(sizes) and literal_of(sizes[dim]) == 1 else None
    axis = argument(call, 0 if is_method else 1, "dim")
    if axis is None or literal_of(axis) != dim:
        return None
    if tail == "unsqueeze":
        return call
    return call if tail in _KEEPDIM and literal_of(argument(call, None, "keepdim")) is True else None


def _is_output_axis(semantics: Semantics, operation: Operation, dim: int) -> bool:
    convolution = _CONVOLUTION.fullmatch(operation.name)
    if convolution is not None:
        return dim in (1, -1 - int(convolution.group(3)))
    return dim == -1 or (dim == 1 and is_matrix_behind(semantics, operation))


def is_matrix_behind(semantics: Semantics, operation: Operation, depth: int = 0) -> bool:
    """Whether what a linear layer gives has two axes for certain, because what it is given was made flat."""
    if operation.operand is not None:
        return is_matrix(semantics, operation.operand, depth + 1)
    holder = parent_of(operation.node)
    if not isinstance(holder, ast.Call) or not semantics.is_named(holder.func, "torch.nn.Sequential"):
        return False
    before = holder.args[: holder.args.index(operation.node)] if operation.node in holder.args else []
    return _ends_flat(semantics, before)


def _ends_flat(semantics: Semantics, members: Sequence[ast.expr]) -> bool:
    """Whether the members of a Sequential make a matrix of whatever they are given."""
    for member in reversed(members):
        kind = semantics.kind(member)
        name = kind.origin if kind is not None else ""
        if name == "torch.nn.Flatten":
            return isinstance(member, ast.Call) and not member.args and not member.keywords
        if name not in _KEEPS_MATRIX:
            return False
    return False


def is_matrix(semantics: Semantics, expression: ast.expr, depth: int = 0) -> bool:
    """Whether a tensor has two axes for certain: it was flattened, or viewed as a matrix, and kept one."""
    if depth > _DEEPEST:
        return False
    operations = shaping_operations(semantics, expression)
    return bool(operations) and all(_gives_matrix(semantics, operation, depth) for operation in operations)


def _gives_matrix(semantics: Semantics, operation: Operation, depth: int) -> bool:
    call = operation.node
    if not isinstance(call, ast.Call) or has_unknown_arguments(call):
        return False
    match operation.name:
        case name if name in _RESHAPES:
            return len(_sizes(call, operation.name.startswith("torch.Tensor."))) == 2
        case "torch.Tensor.flatten" | "torch.flatten":
            position = 0 if operation.name.startswith("torch.Tensor.") else 1
            start = argument(call, position, "start_dim")
            return literal_of(start) == 1 and argument(call, position + 1, "end_dim") is None
        case "torch.nn.Flatten":
            built = construction_of(semantics, operation)
            return built is not None and not built.args and not built.keywords
        case name if name in _KEEPS_MATRIX:
            return is_matrix_behind(semantics, operation, depth)
        case _:
            return False


def _sizes(call: ast.Call, is_method: bool) -> Sequence[ast.expr]:
    """The sizes that ``view`` or ``reshape`` is given."""
    given = call.args if is_method else call.args[1:]
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        return given[0].elts
    return given


def layer_before(semantics: Semantics, member: ast.expr) -> Operation | None:
    """The layer that gives the member of a ``nn.Sequential(...)`` its input, behind what keeps the shape."""
    for before in reversed(_members_before(semantics, member)):
        kind = semantics.kind(before) if before is not None else None
        if kind is None or before is None or not kind.proven:
            return None
        facts = torch_api.module_facts(kind.origin)
        if facts is None:
            return None
        if facts.kind not in ("activation", "dropout") or kind.origin.endswith(("Softmax", "GLU", "Attention")):
            return Operation(kind.origin, before)
    return None


def _members_before(semantics: Semantics, member: ast.expr) -> Sequence[ast.expr | None]:
    """The layers before one in the ``nn.Sequential`` that it is given to, or that a list is which it is put into."""
    holder = parent_of(member)
    if isinstance(holder, ast.Call) and semantics.is_named(holder.func, "torch.nn.Sequential"):
        return holder.args[: holder.args.index(member)] if member in holder.args else ()
    function = enclosing_function(member)
    if function is None:
        return ()
    for call in nodes_within(function, ast.Call):
        if isinstance(call, ast.Call) and semantics.is_named(call.func, "torch.nn.Sequential"):
            members = members_of_call(call, semantics)
            if member in members:
                return members[: members.index(member)]
    return ()


def one_before(semantics: Semantics, member: ast.expr, dim: int) -> ast.AST | None:
    """As ``reason_for_one``, for the input of a member of a ``nn.Sequential(...)``."""
    operation = layer_before(semantics, member)
    return _reason(semantics, operation, dim) if operation is not None else None
