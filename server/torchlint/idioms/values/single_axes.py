"""Axes of length one that a layer or an operation certainly leaves, and how each is removed by name."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.idioms.modules.layer_sizes import layer_argument, sizes_of_construction
from torchlint.idioms.values.dataflow import Operation, last_operations
from torchlint.idioms.values.origins import arguments_after, operation_of
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of
from torchlint.torch_api import is_activation, is_torchvision_model, module_facts

_REDUCING = frozenset("sum mean amax amin prod norm std var argmax argmin any all logsumexp".split())
_POOLS = ("torch.nn.AdaptiveAvgPool", "torch.nn.AdaptiveMaxPool")
_MOST_ACTIVATIONS = 4


@dataclass(frozen=True)
class SingleAxis:
    """The axis of length one that a layer leaves: how it is removed by name, and why it is there."""

    removal: str
    why: str


def axis_of_outputs(semantics: Semantics, tensor: ast.expr) -> tuple[bool, SingleAxis | None]:
    """Whether a value is the output of a layer or a model on each path, and the axis of length one that it certainly
    has then. Activations change no shape and are looked through."""
    operations = [_before_activations(semantics, operation) for operation in last_operations(semantics, tensor)]
    if not operations or not all(_is_output(semantics, operation) for operation in operations):
        return False, None
    axes = [_axis_of_one(semantics, operation) for operation in operations]
    return True, axes[0] if all(found == axes[0] for found in axes) else None


def axis_that_is_made(semantics: Semantics, tensor: ast.expr) -> SingleAxis | None:
    """The axis of length one that an operation leaves on purpose, behind the batch axis: of a reduction with
    `keepdim=True`, of a `gather` of one element a row, of a product with one vector a sample."""
    value = semantics.value_of(tensor)
    operation, operand = operation_of(semantics, value)
    if not isinstance(value, ast.Call) or operand is None:
        return None
    given = arguments_after(semantics, value)
    named = {item.arg: item.value for item in value.keywords}
    dim = whole_number(named.get("dim") or (given[0] if given else None), semantics)
    if operation in _REDUCING and dim:
        keep = named.get("keepdim") or (given[1] if len(given) > 1 else None)
        if keep is not None and semantics.literal(keep) is True:
            return SingleAxis(f"squeeze({dim})", f"`{operation}` keeps")
    index = named.get("index") or (given[1] if len(given) > 1 else None)
    if operation == "gather" and dim and _added_axis(semantics, index) == dim:
        return SingleAxis(f"squeeze({dim})", "`gather` takes one element of")
    if operation in ("bmm", "matmul") and given and _added_axis(semantics, given[0]) in (2, -1):
        return SingleAxis("squeeze(-1)", f"`{operation}` with a vector leaves")
    return None


def _added_axis(semantics: Semantics, expression: ast.expr | None) -> int | None:
    """The axis of length one that was added to a tensor: 1 for `y.unsqueeze(1)` and `y.view(-1, 1)`."""
    value = semantics.value_of(expression)
    operation, _ = operation_of(semantics, value)
    if not isinstance(value, ast.Call):
        return None
    given = arguments_after(semantics, value)
    if operation == "unsqueeze":
        return whole_number(given[0] if given else argument(value, None, "dim"), semantics)
    if operation in ("view", "reshape") and [whole_number(item, semantics) for item in given] == [-1, 1]:
        return 1
    return None


def _before_activations(semantics: Semantics, operation: Operation) -> Operation:
    """The operation whose result an activation is given: `fc(x)` of `torch.sigmoid(fc(x))`."""
    for _ in range(_MOST_ACTIVATIONS):
        if not is_activation(operation.name):
            return operation
        before = _given_to(semantics, operation)
        if before is None:
            return operation
        operation = before
    return operation


def _given_to(semantics: Semantics, operation: Operation) -> Operation | None:
    if operation.operand is not None:
        found = last_operations(semantics, operation.operand)
        return found[0] if len(found) == 1 else None
    holder = parent_of(operation.node)
    if not isinstance(holder, ast.Call) or operation.node not in holder.args[1:]:
        return None
    before = holder.args[holder.args.index(operation.node) - 1]
    kind = semantics.kind(before)
    if kind is None or not kind.is_module or kind.class_node is not None or not isinstance(kind.node, ast.Call):
        return None
    return Operation(kind.origin, kind.node)


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


def _axis_of_one(semantics: Semantics, operation: Operation) -> SingleAxis | None:
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
            return SingleAxis("flatten(1)", f"`{short}` leaves behind each channel")
        return None
    if sizes_of_construction(build, operation.name, semantics).gives != 1:
        return None
    if short == "Linear":
        return SingleAxis("squeeze(-1)", "`Linear` makes of its one output")
    return SingleAxis("squeeze(1)", f"`{short}` makes of its one channel") if short.startswith("Conv") else None


def _build(semantics: Semantics, operation: Operation) -> ast.Call | None:
    """The construction of the layer: the operation's node where a container runs it, else what it calls was made of."""
    node = operation.node
    if not isinstance(node, ast.Call):
        return None
    if semantics.is_named(node.func, operation.name):
        return node
    kind = semantics.kind(node.func)
    return kind.node if kind is not None and isinstance(kind.node, ast.Call) else None
