"""Tensors of shape (N, 1) and of shape (N,): the two that broadcast to (N, N) where they meet. The same for images of
one channel: (N, 1, H, W) and (N, H, W)."""

from __future__ import annotations

import ast
from enum import Enum

from torchlint.idioms.data.loaded_batches import is_loaded_batch, loaded_element
from torchlint.idioms.data.loaders import loaded_class, loader_argument
from torchlint.idioms.values.dataflow import shaping_operations
from torchlint.idioms.values.origins import origin_of
from torchlint.idioms.values.single_outputs import is_convolution, is_linear, is_matrix_behind, single_output
from torchlint.idioms.values.tables import Table, table_of
from torchlint.idioms.values.tensor_sizes import Sizes, sizes_of
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics

_DEEPEST = 6
_RESIZING = frozenset(
    f"torch.nn.{name}" for name in "functional.interpolate functional.upsample Upsample UpsamplingBilinear2d".split()
)
_ARRAYS = ("numpy.array", "numpy.asarray", "torch.from_numpy", "torch.tensor", "torch.as_tensor")
#: What makes a tensor of data.
_OF_DATA = tuple(f"torch.{name}" for name in "tensor from_numpy as_tensor FloatTensor Tensor LongTensor".split())
_KEEPS = frozenset("float double half long int to cuda cpu detach clone contiguous type type_as".split())


class Layout(Enum):
    """With an N that may be more than 1. The one-channel layouts broadcast with those without it."""

    COLUMN = "(N, 1)"
    ROW = "(N,)"
    IMAGES = "(N, 1, H, W)"
    PLAIN_IMAGES = "(N, H, W)"


#: The layouts of which each broadcasts with the other, and to what.
PAIRS = (
    (frozenset((Layout.COLUMN, Layout.ROW)), "(N, N)"),
    (frozenset((Layout.IMAGES, Layout.PLAIN_IMAGES)), "(N, N, H, W)"),
)


def layout_of(semantics: Semantics, expression: ast.expr, depth: int = 0) -> Layout | None:
    """Whether a tensor is certainly a column or a row of values, or images; None where that is not known."""
    if depth > _DEEPEST:
        return None
    made = output_layout(semantics, expression)
    if made is not None:
        return made
    sizes = sizes_of(semantics, expression)
    if sizes is not None:
        return _of_sizes(sizes)
    loaded = loaded_element(semantics, expression)
    if loaded is not None:
        return _of_loaded(semantics, *loaded, depth)
    value = semantics.value_of(expression)
    match value:
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in _KEEPS:
            return layout_of(semantics, receiver, depth + 1)
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if not semantics.names(value.func):
            return _reshaped(semantics, value, method, receiver, depth)
        case ast.Call(args=[data, *_]) if semantics.is_named(value.func, *_OF_DATA):
            return Layout.ROW if table_of(semantics, data) is Table.COLUMN else None
        case ast.Subscript(value=inner, slice=ast.Tuple(elts=[ast.Slice(), index])) if literal_of(index) in (0, -1):
            return Layout.ROW if layout_of(semantics, inner, depth + 1) is Layout.COLUMN else None
        case _:
            return None


def _of_sizes(sizes: Sizes) -> Layout | None:
    match sizes:
        case [first] if first != 1:
            return Layout.ROW
        case [first, 1] if first != 1:
            return Layout.COLUMN
        case [first, second, _] if first != 1 and second != 1:
            return Layout.PLAIN_IMAGES
        case [first, 1, _, _] if first != 1:
            return Layout.IMAGES
        case _:
            return None


def output_layout(semantics: Semantics, expression: ast.expr) -> Layout | None:
    """The layout of what a model makes of a batch: a column or images, for layers with one output."""
    if is_output_column(semantics, expression):
        return Layout.COLUMN
    return Layout.IMAGES if _is_output_image(semantics, expression, 0) else None


def _is_output_image(semantics: Semantics, expression: ast.expr, depth: int) -> bool:
    """Whether a tensor is what two-dimensional convolutions with one output make of a batch, perhaps resized."""
    if depth > _DEEPEST:
        return False
    operations = shaping_operations(semantics, expression)
    for item in operations:
        if item.name in _RESIZING:
            if item.operand is None or not _is_output_image(semantics, item.operand, depth + 1):
                return False
        elif (
            not item.name.endswith("2d")
            or not is_convolution(item)
            or single_output(semantics, item) is None
            or not _is_given_batch(semantics, item.operand, item.through, 4)
        ):
            return False
    return bool(operations)


def is_output_column(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a tensor is what linear layers with one output make of a batch, on all paths that lead to it."""
    operations = shaping_operations(semantics, expression)
    return bool(operations) and all(
        is_linear(item)
        and single_output(semantics, item) is not None
        and (is_matrix_behind(semantics, item) or _is_given_batch(semantics, item.operand, item.through))
        for item in operations
    )


def _is_given_batch(
    semantics: Semantics, operand: ast.expr | None, through: tuple[ast.Call, ...], rank: int = 2
) -> bool:
    """Whether the layer, or the model that it ends, is given a batch (with features, or of images)."""
    given = [call.args[0] for call in through if len(call.args) == 1]
    for value in (*given, *((operand,) if operand is not None else ())):
        sizes = sizes_of(semantics, value)
        if is_loaded_batch(semantics, value) or (sizes is not None and len(sizes) == rank and sizes[0] != 1):
            return True
        if rank == 2 and _is_matrix_of_table(semantics, value):
            return True
    return False


def _is_matrix_of_table(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a tensor is made of several columns of a table, with a row for each example."""
    value = semantics.value_of(expression)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS:
        value = semantics.value_of(value.func.value)
    if not isinstance(value, ast.Call) or not value.args or not semantics.is_named(value.func, *_OF_DATA):
        return False
    return table_of(semantics, value.args[0]) is Table.MATRIX


def _reshaped(semantics: Semantics, call: ast.Call, method: str, receiver: ast.expr, depth: int) -> Layout | None:
    literals = [literal_of(item) for item in call.args]
    match method, literals:
        case "squeeze", [] | [1] | [-1] if not call.keywords:
            return _without_channel(layout_of(semantics, receiver, depth + 1), literals)
        case "unsqueeze", [1] | [-1]:
            return _with_channel(layout_of(semantics, receiver, depth + 1), literals)
        case (("view" | "reshape"), [-1]):
            return Layout.ROW
        case "flatten", [] if not call.keywords:
            return Layout.ROW
        case (("view" | "reshape"), [first, 1]) if first != 1:
            return Layout.COLUMN
        case _:
            return None


def _without_channel(layout: Layout | None, axis: list[object]) -> Layout | None:
    if layout in (Layout.COLUMN, Layout.ROW):
        return Layout.ROW
    return Layout.PLAIN_IMAGES if layout is Layout.IMAGES and axis == [1] else None


def _with_channel(layout: Layout | None, axis: list[object]) -> Layout | None:
    if layout is Layout.ROW:
        return Layout.COLUMN
    return Layout.IMAGES if layout is Layout.PLAIN_IMAGES and axis == [1] else None


def _of_loaded(semantics: Semantics, loader: ast.Call, place: int, depth: int) -> Layout | None:
    """The layout of one element of what a loader gives: that of the dataset's tensor, a row for plain numbers."""
    dataset = semantics.value_of(loader_argument(loader, "dataset"))
    if isinstance(dataset, ast.Call) and semantics.is_named(dataset.func, "torch.utils.data.TensorDataset"):
        return layout_of(semantics, dataset.args[place], depth + 1) if place < len(dataset.args) else None
    owner = loaded_class(semantics, loader)
    getter = semantics.find_method(owner, "__getitem__") if owner is not None else None
    returned = semantics.returned_values(getter) if getter is not None else ()
    elements = [value.elts[place] for value in returned if isinstance(value, ast.Tuple) and place < len(value.elts)]
    if not elements or len(elements) != len(returned):
        return None
    if all(_is_gray_image(semantics, element, 0) for element in elements):
        return Layout.PLAIN_IMAGES
    rows = {_of_indexed(semantics, getter, element, depth) for element in elements}
    if rows != {None}:
        return rows.pop() if len(rows) == 1 else None
    kinds = [semantics.kind(element) for element in elements]
    is_numbers = all(kind is not None and kind.what is What.NUMBER and kind.proven for kind in kinds)
    return Layout.ROW if is_numbers else None


def _of_indexed(semantics: Semantics, getter: FunctionNode | None, element: ast.expr, depth: int) -> Layout | None:
    """The layout of a tensor that a dataset gives the rows of: ``self.y[index]``."""
    value = semantics.value_of(element)
    parameters = getter.args.args if getter is not None else []
    match value:
        case ast.Subscript(value=ast.Attribute() as whole, slice=ast.Name(id=index)) if (
            len(parameters) == 2 and index == parameters[1].arg
        ):
            return layout_of(semantics, origin_of(semantics, whole) or whole, depth + 1)
        case _:
            return None


def _is_gray_image(semantics: Semantics, expression: ast.expr | None, depth: int) -> bool:
    """Whether data are one image of one band, with rows and columns for its only axes: ``np.array(image.convert("L"))``
    and ``cv2.imread(path, cv2.IMREAD_GRAYSCALE)``, scaled or converted."""
    value = semantics.value_of(expression)
    if depth > _DEEPEST * 2:
        return False
    match value:
        case ast.BinOp(left=left, right=right, op=ast.Div() | ast.Mult() | ast.Sub() | ast.Add()):
            sides = [left, right] if isinstance(value.op, ast.Mult | ast.Add) else [left]
            other = right if sides == [left] or not isinstance(semantics.literal(left), int | float) else left
            image = left if other is right else right
            return isinstance(semantics.literal(other), int | float) and _is_gray_image(semantics, image, depth + 1)
        case ast.Call(args=[image, *_]) if semantics.is_named(value.func, *_ARRAYS):
            return _is_gray_image(semantics, image, depth + 1)
        case ast.Call(func=ast.Attribute(attr="convert"), args=[mode, *_]):
            return semantics.literal(mode) in ("L", "1", "I", "F", "P")
        case ast.Call(args=[_, flag]) if semantics.is_named(value.func, "cv2.imread"):
            return semantics.literal(flag) == 0 or semantics.is_named(flag, "cv2.IMREAD_GRAYSCALE")
        case ast.Call(func=ast.Attribute(value=image, attr=method)) if method in (*_KEEPS, "astype", "copy"):
            return _is_gray_image(semantics, image, depth + 1)
        case _:
            return False
