"""Losses of torch 2.13, and what they expect as their first argument (scripts/torch_index/losses.py)."""

from __future__ import annotations

from typing import Literal

from .names import canonical
from .tables import table

LossInput = Literal["logits", "log-probabilities", "probabilities"]


def is_loss_class(name: str) -> bool:
    """Whether the name is a loss that is a module, e.g. `torch.nn.MSELoss`."""
    name = canonical(name)
    return name in table("losses") and name in table("modules")


def is_loss_function(name: str) -> bool:
    """Whether the name is a loss that is a function, e.g. `torch.nn.functional.mse_loss`."""
    name = canonical(name)
    return name in table("losses") and name not in table("modules")


def loss_expects(name: str) -> LossInput | None:
    """What the loss, class or function, takes as its prediction; None for losses of plain values and other names."""
    found: LossInput | None = table("losses").get(canonical(name))
    return found
