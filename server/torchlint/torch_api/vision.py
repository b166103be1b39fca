"""Arguments of torchvision's model builders before 0.13, and what they mean now (scripts/torch_index/vision.py)."""

from __future__ import annotations

from functools import cache

from .tables import table


@cache
def model_builders() -> tuple[str, ...]:
    """The canonical names of the builders of models that accept the old arguments."""
    return tuple(table("torchvision_weights"))


def weights_of(builder: str) -> dict[str, tuple[str, str]]:
    """Old argument (`pretrained`) -> new argument (`weights`) and the dotted name of the weights that True means, an
    empty text where torchvision has none or finds them by other arguments. Empty for other names."""
    return {old: (new, weights) for old, (new, weights) in table("torchvision_weights").get(builder, {}).items()}
