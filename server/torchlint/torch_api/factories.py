"""The functions of torch 2.13 that make a tensor and take `device=`, found by calling them with it."""

from __future__ import annotations

from functools import cache

from torchlint.frozen import dataclass

from .calls import Signature
from .names import canonical
from .tables import table


@dataclass(frozen=True)
class FactoryFacts:
    """One function that makes a tensor, or one `torch.Tensor.new_*` method.

    `deterministic`: the call draws no random numbers. `like`: it takes shape, dtype or device from another tensor.
    """

    name: str
    deterministic: bool
    takes_device: bool
    takes_dtype: bool
    takes_requires_grad: bool
    like: bool
    signature: Signature

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that can be given by position, in order."""
        return self.signature.positional


@cache
def _facts(name: str) -> FactoryFacts | None:
    entry = table("factories").get(name)
    if entry is None:
        return None
    return FactoryFacts(
        name=name,
        deterministic=not entry.get("random", False),
        takes_device=True,
        takes_dtype=entry.get("dtype", False),
        takes_requires_grad=entry.get("requires_grad", False),
        like=entry.get("like", False),
        signature=Signature.parse(entry.get("parameters", "")),
    )


def factory_facts(name: str) -> FactoryFacts | None:
    """The facts of a tensor factory by any of its names, e.g. `torch.zeros`; None for anything else."""
    return _facts(canonical(name))
