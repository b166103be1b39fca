"""Which axis of a sequence counts the examples of a batch, by how its sizes are read and how it is arranged."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.scopes import Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: What the number of examples is called where the sizes of a sequence are unpacked.
BATCH_NAMES = frozenset(("b", "B", "bs", "bsz", "batch", "n_batch", "batch_size", "batchsize", "nbatch", "num_batch"))
_MOST_AXES = 3
_DEEPEST = 8
#: Layers of which the last axis is the one that they run along.
_ALONG_LAST = tuple(f"torch.nn.{name}1d" for name in ("Conv", "BatchNorm", "MaxPool", "AvgPool", "InstanceNorm"))
_FUNCTIONS_ALONG_LAST = tuple(
    f"torch.nn.functional.{name}" for name in ("conv1d", "max_pool1d", "avg_pool1d", "adaptive_avg_pool1d")
)
_ELEMENTWISE = frozenset("relu tanh sigmoid gelu silu leaky_relu elu dropout contiguous".split())


def names_batch_first(
    semantics: Semantics, sequence: ast.expr, parameter: ast.arg | None, method: FunctionNode
) -> ast.AST | None:
    """Where the first size of a sequence, or of the input that it comes from, is called the batch: the statement
    ``batch, steps, _ = x.shape`` or ``batch_size = x.size(0)``."""
    for target, owner in _first_sizes(method):
        if target.id not in BATCH_NAMES:
            continue
        reaching = semantics.definitions(sequence) if isinstance(sequence, ast.Name) else ()
        if reaching and reaching == semantics.definitions(owner):
            return _statement(owner)
        if parameter is not None and owner.id == parameter.arg:
            definitions = semantics.definitions(owner)
            if len(definitions) == 1 and definitions[0].node is parameter:
                return _statement(owner)
    return None


def _first_sizes(method: FunctionNode) -> Iterator[tuple[ast.Name, ast.Name]]:
    """What is given the first size of a tensor with at most three axes, and the tensor."""
    for node in nodes_within(method, ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as first, _, *more])], value=shape):
                owner = _shape_owner(shape)
                if owner is not None and len(more) < _MOST_AXES - 1:
                    yield first, owner
            case ast.Assign(targets=[ast.Name() as name], value=size):
                owner = first_size_owner(size)
                if owner is not None:
                    yield name, owner
            case _:
                pass


def first_size_owner(size: ast.expr) -> ast.Name | None:
    """``x`` of ``x.size(0)``, ``x.shape[0]`` or ``len(x)``."""
    match size:
        case ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="size"), args=[index]):
            return owner if literal_of(index) == 0 else None
        case ast.Subscript(value=ast.Attribute(value=ast.Name() as owner, attr="shape"), slice=index):
            return owner if literal_of(index) == 0 else None
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() as owner]):
            return owner
        case _:
            return None


def _shape_owner(shape: ast.expr) -> ast.Name | None:
    match shape:
        case (
            ast.Attribute(value=ast.Name() as owner, attr="shape")
            | ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="size"), args=[])
        ):
            return owner
        case _:
            return None


def is_first_size(semantics: Semantics, size: ast.expr) -> bool:
    """Whether a number is the first size of some tensor: ``x.size(0)``, or a name that is given it."""
    if first_size_owner(size) is not None:
        return True
    definitions = semantics.definitions(size) if isinstance(size, ast.Name) else ()
    return bool(definitions) and all(_is_first_of_shape(item) for item in definitions)


def _is_first_of_shape(definition: Definition) -> bool:
    value = definition.value
    if definition.kind is not Binding.ASSIGNMENT or value is None:
        return False
    if definition.path:
        return definition.path == (0,) and _shape_owner(value) is not None
    return first_size_owner(value) is not None


def is_joined_along_steps(semantics: Semantics, call: ast.Call) -> bool:
    """``torch.cat([start.unsqueeze(1), x], dim=1)``: one more step for each example, so that the steps are axis 1.
    So they are where they are stacked there (``torch.stack(steps, dim=1)``)."""
    if semantics.is_named(call.func, "torch.stack"):
        return literal_of(argument(call, 1, "dim")) == 1
    if not semantics.is_named(call.func, "torch.cat") or literal_of(argument(call, 1, "dim")) != 1 or not call.args:
        return False
    joined = call.args[0]
    if not isinstance(joined, ast.List | ast.Tuple):
        return False
    return any(_is_one_step(semantics, item) for item in joined.elts)


def _is_one_step(semantics: Semantics, element: ast.expr) -> bool:
    value = semantics.value_of(element)
    match value:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[axis]):
            return literal_of(axis) == 1
        case ast.Call():
            return is_repeated_for_batch(semantics, value)
        case _:
            return False


def is_repeated_for_batch(semantics: Semantics, call: ast.Call) -> bool:
    """``start.expand(x.size(0), -1, -1)``, ``query.repeat(batch, 1, 1)``: the same for each example of axis 0."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("expand", "repeat") or len(call.args) != 3:
        return False
    left = -1 if call.func.attr == "expand" else 1
    first, *others = call.args
    return all(literal_of(item) == left for item in others) and is_first_size(semantics, first)


def is_cut_into_steps(semantics: Semantics, call: ast.Call) -> bool:
    """``x.view(-1, 28, 28)``: how many steps an example has is known, so that the axis left open is the batch."""
    match call:
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[open_axis, steps, features]):
            sizes = [semantics.literal(item) for item in (steps, features)]
            return literal_of(open_axis) == -1 and all(isinstance(size, int) and size > 1 for size in sizes)
        case _:
            return False


def is_sequence_of_channels(semantics: Semantics, call: ast.Call) -> bool:
    """``self.conv(x).transpose(1, 2)``: what a convolution gives is (batch, channels, steps), and its last two axes
    are exchanged."""
    if not isinstance(call.func, ast.Attribute) or not exchanges_last_axes(call):
        return False
    return _is_along_last(semantics, call.func.value, 0)


def exchanges_last_axes(call: ast.Call) -> bool:
    """``x.transpose(1, 2)`` or ``x.permute(0, 2, 1)``."""
    if not isinstance(call.func, ast.Attribute):
        return False
    given = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args
    axes = tuple(literal_of(item) for item in given)
    if call.func.attr in ("transpose", "swapaxes"):
        return axes in ((1, 2), (2, 1), (-1, -2), (-2, -1), (1, -1), (-1, 1))
    return call.func.attr == "permute" and axes == (0, 2, 1)


def _is_along_last(semantics: Semantics, expression: ast.expr, depth: int) -> bool:
    """Whether a value comes out of a convolution, norm or pooling along one axis."""
    if depth > _DEEPEST:
        return False
    match expression:
        case ast.Name():
            definitions = semantics.definitions(expression)
            return bool(definitions) and all(
                item.kind is Binding.ASSIGNMENT
                and not item.path
                and item.value is not None
                and _is_along_last(semantics, item.value, depth + 1)
                for item in definitions
            )
        case ast.Call(func=function):
            name = semantics.name(function)
            if name in _FUNCTIONS_ALONG_LAST:
                return True
            kind = semantics.kind(function)
            if kind is not None and kind.proven and kind.is_module:
                if kind.origin in _ALONG_LAST:
                    return True
                if kind.origin == "torch.nn.Sequential" and isinstance(kind.node, ast.Call):
                    return _ends_along_last(semantics, kind.node)
            return _is_elementwise(semantics, expression) and any(
                _is_along_last(semantics, item, depth + 1)
                for item in (*expression.args[:1], *([function.value] if isinstance(function, ast.Attribute) else []))
            )
        case _:
            return False


def _ends_along_last(semantics: Semantics, sequential: ast.Call) -> bool:
    """Whether a ``Sequential`` that is written out has such a layer, and none that arranges its output anew."""
    names = [semantics.name(layer.func) for layer in sequential.args if isinstance(layer, ast.Call)]
    if len(names) != len(sequential.args):
        return False
    return any(name in _ALONG_LAST for name in names) and not any("latten" in name for name in names)


def _is_elementwise(semantics: Semantics, call: ast.Call) -> bool:
    name = semantics.name(call.func)
    if name.startswith("torch."):
        return name.rpartition(".")[2] in _ELEMENTWISE
    kind = semantics.kind(call.func)
    if kind is not None and kind.is_module:
        facts = torch_api.module_facts(kind.origin)
        return facts is not None and facts.kind in ("activation", "dropout")
    return isinstance(call.func, ast.Attribute) and call.func.attr in _ELEMENTWISE


def _statement(node: ast.AST) -> ast.AST:
    current: ast.AST = node
    while not isinstance(current, ast.stmt):
        parent = parent_of(current)
        if parent is None:
            return node
        current = parent
    return current
