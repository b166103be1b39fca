"""What is known of a tensor behind a layer: how many dimensions it has, how many channels, how many features."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import prod

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.layer_order import Applied
from torchlint.idioms.modules.layer_sizes import LayerSizes, layer_argument, sizes_of_construction, whole_number
from torchlint.regex import regex
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
        case "Flatten":
            return _flattened(shape, layer)
        case _ if facts.kind in ("pooling", "upsampling", "padding"):
            return _resampled(shape, layer, head, semantics)
        case _ if facts.name in _IDENTITY or (facts.kind in _KEEPING_KINDS and facts.name not in _NOT_KEEPING):
            return shape
        case _:
            return Shape()


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


def _mapped(shape: Shape, layer: Applied, sizes: LayerSizes) -> Shape | Misfit:
    known, takes = shape.features, sizes.takes
    if known is not None and takes is not None and known != takes and shape.last is not None:
        return Misfit(layer, shape.last, f"takes {takes} features, but gets {known}")
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
    known, takes = shape.features, sizes.takes
    if known is not None and takes is not None and known != takes and shape.last is not None:
        return Misfit(layer, shape.last, f"takes {takes} features, but gets {known}")
    return shape


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
