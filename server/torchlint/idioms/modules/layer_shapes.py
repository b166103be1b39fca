"""What is known of a tensor behind a layer: how many dimensions it has, how many channels, how many features."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.layer_order import ATTENTION, Applied
from torchlint.idioms.modules.layer_sizes import (
    LayerSizes,
    layer_argument,
    size_of_state,
    sizes_of_construction,
)
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.regex import regex
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.semantics import Semantics

_DIMENSIONS = regex(r"([123])d$")
#: Layers that keep the shape whatever it is. Others of these kinds (GLU) are not looked at.
_KEEPING_KINDS = frozenset(("activation", "dropout"))
_NOT_KEEPING = frozenset(("torch.nn.GLU", "torch.nn.PReLU", "torch.nn.MultiheadAttention"))
_IDENTITY = frozenset(("torch.nn.Identity", "torch.nn.LocalResponseNorm"))


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
    """What is known of a batch: ``rank`` dimensions, ``channels`` in the second, ``features`` in the last; None where
    nothing is. ``places`` is how many elements a channel has. ``source`` is the layer that decided the rank and the
    channels, ``last`` the one that decided the features."""

    rank: int | None = None
    channels: int | None = None
    features: int | None = None
    places: int | None = None
    source: Applied | None = None
    last: Applied | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Misfit:
    """A layer that raises for the shape that ``source`` gives; ``wrong`` says why, in words for a message."""

    layer: Applied
    source: Applied
    wrong: str


def after(shape: Shape, layer: Applied, semantics: Semantics) -> Shape | Misfit:
    """What a layer makes of a shape, or why it cannot take it."""
    facts = torch_api.module_facts(layer.name)
    if facts is None:
        return Shape()
    if layer.build is not None and has_unknown_arguments(layer.build):
        return Shape()
    sizes = sizes_of_construction(layer.build, layer.name, semantics) if layer.build is not None else LayerSizes()
    found = _DIMENSIONS.search(layer.name)
    places = int(found.group(1)) if found is not None else 0
    head = facts.name.removeprefix("torch.nn.").removeprefix("Lazy")
    match head:
        case _ if head.startswith("Conv"):
            return _convolved(shape, layer, sizes, places)
        case "Linear":
            return _mapped(shape, layer, sizes)
        case _ if head.startswith(("BatchNorm", "SyncBatchNorm")):
            return _normed(shape, layer, sizes, places)
        case _ if head.startswith("InstanceNorm"):
            affine = layer_argument(layer.build, facts, "affine") if layer.build is not None else None
            checked = sizes if affine is not None and semantics.literal(affine) is True else LayerSizes()
            return _normed(shape, layer, checked, places, flat=False)
        case "GroupNorm":
            return _checked(shape, layer, sizes.takes) or shape
        case "PReLU":
            count = layer_argument(layer.build, facts, "num_parameters") if layer.build is not None else None
            number = whole_number(count, semantics)
            return (_checked(shape, layer, number) if number != 1 else None) or shape
        case "LayerNorm" | "RMSNorm":
            return _layer_normed(shape, layer, sizes)
        case "Embedding":
            return Shape(features=sizes.gives, last=layer)
        case _ if facts.kind == "recurrent":
            single = head in ("RNNCell", "GRUCell")  # the others give a tuple: `part_of_tuple`
            return _featured(shape, layer, sizes.takes) or (
                Shape(features=sizes.gives, last=layer) if single else Shape()
            )
        case "Flatten":
            return _flattened(shape, layer)
        case _ if facts.name in ATTENTION:
            width = _width(layer, semantics)
            wrong = _featured(shape, layer, width)
            if wrong is not None or head == "MultiheadAttention":  # it gives a tuple: `part_of_tuple`
                return wrong or Shape()
            return Shape(shape.rank, features=width, last=layer)
        case _ if facts.kind in ("pooling", "upsampling", "padding"):
            return _resampled(shape, layer, head, semantics)
        case _ if facts.name in _IDENTITY or (facts.kind in _KEEPING_KINDS and facts.name not in _NOT_KEEPING):
            return shape
        case _:
            return Shape()


def _width(layer: Applied, semantics: Semantics) -> int | None:
    """How many features a layer of a transformer takes and gives."""
    build, name = layer.build, layer.name
    if name == "torch.nn.TransformerEncoder" and build is not None:
        inner = semantics.kind(argument(build, 0, "encoder_layer"))
        build, name = (inner.node, inner.origin) if inner is not None else (None, "")  # type: ignore[assignment]
    facts = torch_api.module_facts(name)
    if facts is None or not isinstance(build, ast.Call) or name not in ATTENTION:
        return None
    return whole_number(layer_argument(build, facts, facts.parameters[0]), semantics)


def part_of_tuple(layer: Applied, path: Sequence[int | None], semantics: Semantics) -> Shape | None:
    """What is known of a part of ``(output, state)``, or ``(output, (hidden, cell))``, of a recurrent layer, and of
    ``(output, weights)`` of attention. The output has the features of both directions, a state those of one."""
    facts = torch_api.module_facts(layer.name)
    build = layer.build
    if layer.name == "torch.nn.MultiheadAttention":
        width = _width(layer, semantics) if tuple(path) == (0,) else None
        return Shape(3, features=width, last=layer) if width is not None else None
    if facts is None or facts.kind != "recurrent" or facts.name.endswith("Cell") or build is None:
        return None
    if has_unknown_arguments(build):
        return None
    of_state: tuple[int, ...] = (1, 0) if facts.name == "torch.nn.LSTM" else (1,)
    features: int | None = None
    if tuple(path) == (0,):
        features = sizes_of_construction(build, layer.name, semantics).gives
    elif tuple(path) == of_state:
        features = size_of_state(build, layer.name, semantics)
    return Shape(3, features=features, last=layer) if features is not None else None


def indexed(shape: Shape, index: ast.expr) -> Shape | None:
    """What is known of a part of a batch whose features are all kept: ``output[:, -1]`` of three dimensions."""
    steps = index.elts if isinstance(index, ast.Tuple) else [index]
    if shape.rank is None or shape.features is None or len(steps) > shape.rank:
        return None
    if len(steps) == shape.rank and not _is_all(steps[-1]):
        return None
    if not all(isinstance(step, ast.Slice) or isinstance(literal_of(step), int) for step in steps):
        return None
    taken = sum(not isinstance(step, ast.Slice) for step in steps)
    return Shape(shape.rank - taken, features=shape.features, last=shape.last) if taken < shape.rank - 1 else None


def _is_all(step: ast.expr) -> bool:
    return isinstance(step, ast.Slice) and step.lower is None and step.upper is None and step.step is None


def reshaped(call: ast.expr | None, semantics: Semantics) -> Shape | None:
    """What is known of ``x.view(-1, 320)``: as many features as its last number says."""
    match call:
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[ast.Tuple(elts=sizes)], keywords=[]):
            pass
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, _, *_] as sizes, keywords=[]):
            pass
        case _:
            return None
    features = whole_number(sizes[-1], semantics) if sizes else None
    if features is None or features < 1 or any(isinstance(size, ast.Starred) for size in sizes):
        return None
    here = Applied(call)
    flat = len(sizes) == 2
    return Shape(len(sizes), features if flat else None, features, source=here, last=here)


def _convolved(shape: Shape, layer: Applied, sizes: LayerSizes, places: int) -> Shape | Misfit:
    rank = places + 2
    if shape.rank is not None and shape.rank not in (rank, rank - 1):
        return _wrong_rank(shape, layer, f"{rank} dimensions")
    if shape.rank == rank:
        wrong = _checked(shape, layer, sizes.takes)
        if wrong is not None:
            return wrong
    if shape.rank == rank - 1:
        return Shape()  # taken as one example without a batch
    return Shape(rank, sizes.gives, source=layer)


def _featured(shape: Shape, layer: Applied, takes: int | None) -> Misfit | None:
    """What is wrong with the features of a shape, for a layer that takes so many."""
    known = shape.features
    if known is None or takes is None or known == takes or shape.last is None:
        return None
    return Misfit(layer, shape.last, f"takes {takes} features, but gets {known}")


def _mapped(shape: Shape, layer: Applied, sizes: LayerSizes) -> Shape | Misfit:
    wrong = _featured(shape, layer, sizes.takes)
    if wrong is not None:
        return wrong
    flat = shape.rank == 2
    source, channels = (layer, sizes.gives) if flat else (shape.source, shape.channels)
    return Shape(shape.rank, channels, sizes.gives, source=source, last=layer)


def _normed(shape: Shape, layer: Applied, sizes: LayerSizes, places: int, flat: bool = True) -> Shape | Misfit:
    """Batch and instance norms: of a fixed number of dimensions, with the channels in the second."""
    if not places:  # SyncBatchNorm takes any
        return _checked(shape, layer, sizes.takes) or shape
    rank = places + 2
    allowed = (rank, 2) if flat and places == 1 else (rank,) if flat else (rank, rank - 1)
    if shape.rank is not None and shape.rank not in allowed:
        wanted = "2 or 3 dimensions" if places == 1 else f"{rank} dimensions"
        return _wrong_rank(shape, layer, wanted)
    wrong = _checked(shape, layer, sizes.takes)
    if wrong is not None:
        return wrong
    if shape.rank is None:
        if places == 1 or not flat:
            return shape  # two dimensions or three: where the channels stand is not known
        return Shape(rank, sizes.gives, shape.features, source=layer, last=shape.last)
    return shape


def _checked(shape: Shape, layer: Applied, takes: int | None) -> Misfit | None:
    """What is wrong with the channels of a shape, for a layer that takes so many."""
    if shape.rank is None or shape.channels is None or takes is None or shape.channels == takes or shape.source is None:
        return None
    noun = "features" if shape.rank == 2 else "channels"
    return Misfit(layer, shape.source, f"takes {takes} {noun}, but gets {shape.channels}")


def _wrong_rank(shape: Shape, layer: Applied, wanted: str) -> Shape | Misfit:
    if shape.source is None:
        return Shape()
    return Misfit(layer, shape.source, f"takes {wanted}, but gets {shape.rank}")


def _layer_normed(shape: Shape, layer: Applied, sizes: LayerSizes) -> Shape | Misfit:
    return _featured(shape, layer, sizes.takes) or shape


def _flattened(shape: Shape, layer: Applied) -> Shape:
    if layer.build is not None and (layer.build.args or layer.build.keywords):
        return Shape()
    if shape.rank is None:
        return Shape()
    if shape.rank == 2:
        return shape
    count = shape.channels * shape.places if shape.channels is not None and shape.places is not None else None
    source = shape.source if count is not None else layer
    return Shape(2, count, count, source=source, last=source)


def _resampled(shape: Shape, layer: Applied, head: str, semantics: Semantics) -> Shape:
    """Pooling, upsampling and padding change the places; pooling to a fixed size says how many there are."""
    if shape.rank is None or shape.rank < 3 or "return_indices" in _keywords(layer) or _pads_other(head, shape.rank):
        return Shape()
    found = _DIMENSIONS.search(head)
    if not head.startswith("Adaptive") or found is None or int(found.group(1)) != shape.rank - 2:
        return replace(shape, features=None, places=None)
    facts = torch_api.module_facts(f"torch.nn.{head}")
    size = semantics.literal(_output_size(layer, facts)) if facts is not None else None
    sides = list(size) if isinstance(size, tuple | list) else [size] * int(found.group(1))
    numbers = [side for side in sides if isinstance(side, int) and not isinstance(side, bool)]
    if not numbers or len(numbers) < len(sides):
        return replace(shape, features=None, places=None)
    return replace(shape, features=numbers[-1], places=prod(numbers), last=layer)


def _output_size(layer: Applied, facts: torch_api.ModuleFacts) -> ast.expr | None:
    """The size that an adaptive pooling is made with, or that its function is given behind the input."""
    if layer.build is not None:
        return layer_argument(layer.build, facts, "output_size")
    return argument(layer.node, 1, "output_size") if isinstance(layer.node, ast.Call) else None


def _pads_other(head: str, rank: int) -> bool:
    """Whether a layer works on more dimensions than the batch has places."""
    found = _DIMENSIONS.search(head)
    return found is not None and int(found.group(1)) != rank - 2


def _keywords(layer: Applied) -> set[str | None]:
    return {item.arg for item in layer.build.keywords} if layer.build is not None else set()
