"""Batch norms that get one value for each channel from one sample: behind a linear layer, or behind global pooling."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.idioms.modules.member_lists import members_of_call
from torchlint.idioms.values.dataflow import Operation, shaping_operations
from torchlint.idioms.values.single_outputs import construction_of
from torchlint.semantics.kinds import Kind
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_NORMS = tuple(f"torch.nn.BatchNorm{rank}d" for rank in (1, 2, 3))
_POOLS = tuple(f"torch.nn.Adaptive{kind}Pool{rank}d" for kind in ("Avg", "Max") for rank in (1, 2, 3))
_POOLING = tuple(f"torch.nn.functional.adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3))
_CONVOLUTIONS = tuple(f"torch.nn.Conv{rank}d" for rank in (1, 2, 3))
_KEEP_SHAPE = frozenset(
    f"torch.nn.{name}" for name in "Identity Dropout ReLU LeakyReLU ELU SELU GELU SiLU Tanh Sigmoid ReLU6 PReLU".split()
)
#: Models whose training raises for one sample, whatever it is: a branch of theirs pools all places before it
#: normalizes (torchvision 0.28, segmentation-models-pytorch 0.6).
_MODELS = frozenset(
    (
        *(f"torchvision.models.segmentation.deeplabv3_{name}" for name in ("resnet50", "resnet101")),
        "torchvision.models.segmentation.deeplabv3_mobilenet_v3_large",
        "torchvision.models.segmentation.deeplabv3.DeepLabHead",
        "torchvision.models.segmentation.deeplabv3.ASPP",
        "segmentation_models_pytorch.DeepLabV3",
        "segmentation_models_pytorch.DeepLabV3Plus",
    )
)
#: What a layer is given: one vector for a sample (behind a linear layer), or one place for each channel (behind
#: global pooling). "" is anything else.
_FLAT, _POINT = "flat", "point"
_DEEPEST = 4


def single_value_norms(semantics: Semantics, kind: Kind, depth: int = 0) -> Iterator[ast.Call]:
    """The constructions of such norms in a model, or of the library's model that has one."""
    if kind.origin in _MODELS and isinstance(kind.node, ast.Call):
        yield kind.node
    elif kind.class_node is not None:
        yield from _of_class(semantics, kind.class_node, depth)
    elif kind.origin == "torch.nn.Sequential" and isinstance(kind.node, ast.Call):
        yield from _of_members(semantics, members_of_call(kind.node, semantics), "")


def _of_class(semantics: Semantics, node: ast.ClassDef, depth: int) -> Iterator[ast.Call]:
    forward = semantics.find_method(node, "forward")
    if forward is not None:
        yield from _of_forward(semantics, forward)
    constructor = semantics.find_method(node, "__init__")
    if constructor is None or depth >= _DEEPEST:
        return
    for call in nodes_within(constructor, ast.Call):
        assert isinstance(call, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
            if any(base == "torch.nn.Sequential" for base in semantics.ancestors(node)):
                yield from _of_members(semantics, call.args, "")
        elif _is_built_always(call, constructor):
            inner = semantics.local_class(call.func)
            if inner is not None and inner is not node:
                yield from _of_class(semantics, inner, depth + 1)
            elif semantics.name(call.func) in _MODELS:
                yield call


def _is_built_always(call: ast.Call, constructor: FunctionNode) -> bool:
    holder = parent_of(call)
    while holder is not None and holder is not constructor:
        if isinstance(holder, ast.If | ast.IfExp):
            return False
        holder = parent_of(holder)
    return True


def _of_forward(semantics: Semantics, forward: FunctionNode) -> Iterator[ast.Call]:
    """The norms that ``forward`` applies to such values, and those in its Sequentials."""
    for call in nodes_within(forward, ast.Call):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
            continue
        kind = semantics.kind(call.func)
        if kind is None or not isinstance(kind.node, ast.Call):
            continue
        if kind.origin in _NORMS:
            if _state_of(semantics, call.args[0], 0) == (_FLAT if kind.origin == _NORMS[0] else _POINT):
                yield kind.node
        elif kind.origin == "torch.nn.Sequential":
            yield from _of_members(
                semantics, members_of_call(kind.node, semantics), _state_of(semantics, call.args[0], 0)
            )


def _of_members(semantics: Semantics, members: Sequence[ast.expr | None], state: str) -> Iterator[ast.Call]:
    for layer in members:
        made = semantics.value_of(layer)
        name = semantics.name(made.func) if isinstance(made, ast.Call) else ""
        if not isinstance(made, ast.Call):
            state = ""
        elif name in _NORMS:
            if state == (_FLAT if name == _NORMS[0] else _POINT):
                yield made
        else:
            state = _after(semantics, made, name, state)


def _after(semantics: Semantics, built: ast.Call, name: str, state: str) -> str:
    """What a layer makes of what it is given."""
    if name == "torch.nn.Linear":
        return "" if state == _POINT else _FLAT
    if name in _POOLS:
        return _POINT if _is_one(semantics, argument(built, 0, "output_size")) else ""
    if name == "torch.nn.Flatten":
        return _FLAT if state and not built.args and not built.keywords else ""
    if name in _CONVOLUTIONS:
        return _POINT if state == _POINT and _keeps_point(semantics, built) else ""
    return state if name in _KEEP_SHAPE else ""


def _keeps_point(semantics: Semantics, convolution: ast.Call) -> bool:
    """Whether a convolution of one place gives one place."""
    kernel = semantics.literal(argument(convolution, 2, "kernel_size"))
    padding = argument(convolution, 4, "padding")
    return not has_unknown_arguments(convolution) and kernel in (1, (1, 1)) and padding is None


def _is_one(semantics: Semantics, size: ast.expr | None) -> bool:
    return size is not None and semantics.literal(size) in (1, (1,), (1, 1), (1, 1, 1))


def _state_of(semantics: Semantics, expression: ast.expr, depth: int) -> str:
    """What a value is on all paths that lead to it."""
    operations = shaping_operations(semantics, expression) if depth < _DEEPEST * 2 else ()
    states = {_state_after(semantics, operation, depth) for operation in operations}
    return states.pop() if len(states) == 1 else ""


def _state_after(semantics: Semantics, operation: Operation, depth: int) -> str:
    if operation.name in _POOLING and isinstance(operation.node, ast.Call):
        return _POINT if _is_one(semantics, argument(operation.node, 1, "output_size")) else ""
    if operation.name == "torch.Tensor.mean" and isinstance(operation.node, ast.Call):
        axes = literal_of(argument(operation.node, 0, "dim"))
        kept = literal_of(argument(operation.node, 1, "keepdim"))
        return _POINT if kept is True and axes in ((2, 3), [2, 3], (-2, -1), [-2, -1], (-1, -2), [-1, -2]) else ""
    built = construction_of(semantics, operation)
    if operation.name == "torch.nn.Linear":
        return _FLAT
    if built is None:
        return ""
    inner = _state_of(semantics, operation.operand, depth + 1) if operation.operand is not None else ""
    return inner if operation.name in _NORMS else _after(semantics, built, operation.name, inner)
