"""The deprecated names of torch.cuda.amp and torch.cpu.amp and what replaces them (scripts/torch_index/amp.py)."""

from __future__ import annotations

from functools import cache

from torchlint.frozen import dataclass

from .calls import Signature
from .names import canonical
from .tables import table


@dataclass(frozen=True)
class AmpReplacement:
    """What to write instead of a deprecated name.

    `replacement` exists from torch `replacement_since` on; the old name warns from `deprecated_since` on. `device` goes
    to the parameter `device_parameter` of the replacement, which knows all other parameters by their old names but not
    in the old order: arguments given by position must become keywords.
    """

    name: str
    replacement: str
    replacement_since: str
    deprecated_since: str
    device: str
    device_parameter: str
    old: Signature
    new: Signature


@cache
def _replacement(name: str) -> AmpReplacement | None:
    entry = table("amp").get(name)
    if entry is None:
        return None
    return AmpReplacement(
        name=name,
        replacement=entry["replacement"],
        replacement_since=entry["replacement_since"],
        deprecated_since=entry["deprecated_since"],
        device=entry["device"],
        device_parameter=entry["device_parameter"],
        old=Signature.parse(entry["old_parameters"]),
        new=Signature.parse(entry["new_parameters"]),
    )


def amp_replacement(name: str) -> AmpReplacement | None:
    """The replacement of a deprecated name, by any of its names (`torch.cuda.amp.autocast`); None for others."""
    return _replacement(canonical(name))
