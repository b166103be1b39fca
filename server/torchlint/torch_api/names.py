"""Canonical names: the one public name under which torchlint knows each class and function of torch and torchvision.

Found by object identity in torch 2.13 (scripts/torch_index/names.py): of the public names that lead to one object the
shortest wins, and a name that a module only imported for its own use never does. Choices made by hand:
`torch.amp.autocast` (also `torch.autocast`), `torch.amp.GradScaler` (also `torch.GradScaler`), and where torch and
torch.nn.functional share a function (`conv2d`) the documented `torch.nn.functional` name. dtypes go by their long name:
`torch.half` is `torch.float16`. `torch.cuda.amp.*` are objects, and names, of their own.
"""

from __future__ import annotations

from functools import lru_cache

from .tables import table

# Objects of their own that do the same, and are documented as interchangeable (torch 2.13, torch.nn.functional).
_SAME_RESULT: tuple[frozenset[str], ...] = tuple(
    frozenset({f"torch.{name}", f"torch.nn.functional.{name}"})
    for name in (
        "sigmoid",
        "tanh",
        "relu",
        "softmax",
        "log_softmax",
        "celu",
        "selu",
        "rrelu",
        "hardshrink",
        "threshold",
    )
)


@lru_cache(maxsize=1)
def _aliases() -> dict[str, str]:
    flat: dict[str, str] = {}
    for source in ("names", "torchvision_names"):
        for module, entries in table(source).items():
            for name, target in entries.items():
                flat[f"{module}.{name}"] = target
    return flat


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """The canonical form of a dotted name; a name that is not known is returned as it is.

    Attributes follow their owner: `torch.nn.modules.loss.CrossEntropyLoss.forward` is
    `torch.nn.CrossEntropyLoss.forward`. A module's own name (`torch.nn.modules.loss`) is left alone.
    """
    if not name.startswith("torch"):
        return name
    aliases = _aliases()
    owner, rest = name, ""
    while owner:
        found = aliases.get(owner)
        if found is not None:
            return found + rest
        owner, dot, attribute = owner.rpartition(".")
        rest = dot + attribute + rest
    return name


def aliases(name: str) -> frozenset[str]:
    """Other canonical names of functions that compute the same, e.g. `torch.tanh` for `torch.nn.functional.tanh`."""
    for group in _SAME_RESULT:
        if name in group:
            return group - {name}
    return frozenset()


@lru_cache(maxsize=16)
def functions_in(module: str) -> frozenset[str]:
    """The bare names of the public functions and classes that can be reached in a module of torch (`relu`)."""
    own = (name[len(module) + 1 :] for name in table("calls") if name.startswith(f"{module}."))
    return frozenset(table("names").get(module, ())) | frozenset(name for name in own if "." not in name)
