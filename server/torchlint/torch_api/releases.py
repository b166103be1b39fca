"""Which public names torch has, and since which release (scripts/torch_index/releases.py: torch 1.0 to 2.13).

Only for the modules that users write; modules that make names up when asked (`torch.ops`) are not among them. Names are
dotted as code writes them: `torch.nn.functional.scaled_dot_product_attention`.
"""

from __future__ import annotations

import difflib
from functools import cache, lru_cache

from .calls import signature_of
from .tables import table
from .versions import versioned_name

#: Modules whose names in lower case that a class has too are modules (`torch.optim.adam`, `torch.utils.data.dataset`).
_OF_MODULES = frozenset(("torch.nn", "torch.optim", "torch.distributions", "torch.utils.data"))
#: How alike a name has to be to be what was meant.
_ALIKE = 0.8
#: Names that builds of torch for other hardware add to it, as their own packages say (torch_npu, torch_mlu, ...).
_OF_OTHER_BUILDS = frozenset(
    "npu hpu mlu musa gcu sdaa ipu vulkan xla privateuseone dml maia tpu rpu supa cnnl".split()
)


@cache
def newest_indexed() -> str:
    """The newest release that is indexed: "2.13"."""
    version: str = table("about")["torch"]
    return ".".join(version.split(".")[:2])


@cache
def indexed_modules() -> frozenset[str]:
    """The modules of torch whose public names are all known."""
    return frozenset(table("releases"))


@cache
def _names(module: str) -> frozenset[str]:
    return frozenset(table("releases")[module]["names"].split())


@cache
def _gone(module: str) -> frozenset[str]:
    return frozenset(table("releases")[module]["gone"].split())


@cache
def _since(module: str) -> dict[str, str]:
    entries: dict[str, str] = table("releases")[module]["since"]
    return {name: release for release, names in entries.items() for name in names.split()}


@lru_cache(maxsize=4096)
def is_unknown(name: str) -> bool:
    """Whether a public-looking name of an indexed module is in no indexed release."""
    module, _, last = name.rpartition(".")
    if module not in indexed_modules() or last.startswith("_") or last in _OF_OTHER_BUILDS:
        return False
    return last not in _names(module) and last not in _gone(module)


@lru_cache(maxsize=4096)
def class_meant_by(name: str) -> str:
    """The class that a call of a lower-case name means, where that is at most a module of torch (`torch.optim.adam`, or
    `torch.nn.linear`, which leaked in some old release); else an empty text."""
    module, _, last = name.rpartition(".")
    if module not in indexed_modules() or not last.islower() or signature_of(name) is not None:
        return ""
    meant = _folded_names(module).get(last.replace("_", ""), last)
    if meant.islower() or signature_of(f"{module}.{meant}") is None:
        return ""
    is_module = name in indexed_modules() or (module in _OF_MODULES and last in _names(module))
    return f"{module}.{meant}" if is_module or last in _gone(module) else ""


def since(name: str) -> str:
    """The first release that has a name; an empty text if that is not known, or older than the index."""
    module, _, last = name.rpartition(".")
    return _since(module).get(last, "") if module in indexed_modules() else ""


@cache
def _folded_names(module: str) -> dict[str, str]:
    """The names of a module that were not renamed, by how they are spelled without case and underscores."""
    folded: dict[str, str] = {}
    for known in sorted(_names(module), key=lambda item: (item.islower(), item)):
        if versioned_name(f"{module}.{known}") is None:
            folded.setdefault(known.lower().replace("_", ""), known)
    return folded


def _may_be_alike(one: str, other: str) -> bool:
    """Told of most names before they are compared: they are too long or short, or begin and end in other ways."""
    ends = one[:1] == other[:1] or one[-2:] == other[-2:]
    return ends and 2 * min(len(one), len(other)) >= _ALIKE * (len(one) + len(other))


@cache
def resembling(name: str) -> tuple[str, ...]:
    """What may have been meant by an unknown name: the closest name of the module first, then the same name in other
    modules of torch."""
    module, _, last = name.rpartition(".")
    folded = _folded_names(module)
    wanted = last.lower().replace("_", "")
    near = [known for known in folded if _may_be_alike(known, wanted)]
    close = [wanted] if wanted in folded else difflib.get_close_matches(wanted, near, n=2, cutoff=_ALIKE)
    elsewhere = (other for other in sorted(indexed_modules(), key=len) if other != module and last in _names(other))
    return (*(f"{module}.{folded[match]}" for match in close), *(f"{other}.{last}" for other in elsewhere))


@cache
def tails_with_release() -> tuple[str, ...]:
    """The last names of all names that are newer than the oldest indexed release."""
    return tuple(sorted({name for module in indexed_modules() for name in _since(module)}))
