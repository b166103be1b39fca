"""Facts about the classes of torch.nn, measured on torch 2.13 by scripts/torch_index/modules.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final, Literal

from torchlint.frozen import dataclass

from .classes import role
from .names import canonical
from .tables import table

Answer = Literal["always", "never", "by-arguments"]


class Unknown:
    """The value of an argument that is given but cannot be read from the code."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True)
class ModuleFacts:
    """What is known of one class of torch.nn.

    `has_parameters`: whether an instance has parameters, over all constructor arguments.
    `mode_dependent`: whether forward does another thing in train() than in eval(), buffers included: "always" when it
    does with the default arguments (those in `mode_switch` can turn that off), "by-arguments" when only some arguments
    make it so (`torch.nn.LSTM(dropout=...)`, or what a container is given), "never" otherwise.
    `parameters_default`, `mode_default`: the answer when no optional argument is given.
    `parameters_switch`, `mode_switch`: arguments, each set by itself, that turn the default answer into its opposite.
    `parameters`: constructor parameters in order, without `self`; "*" stands before those that are keyword-only.
    `in_size`, `out_size`: the constructor parameters that say how large input and output are, where there are any.
    """

    name: str
    kind: str
    has_parameters: Answer
    mode_dependent: Answer
    parameters: tuple[str, ...]
    parameters_default: bool = False
    mode_default: bool = False
    has_buffers: bool = False
    parameters_switch: tuple[Mapping[str, Any], ...] = ()
    mode_switch: tuple[Mapping[str, Any], ...] = ()
    in_size: str | None = None
    out_size: str | None = None


@cache
def _facts(name: str) -> ModuleFacts | None:
    entry = table("modules").get(name)
    if entry is None:
        return None
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return ModuleFacts(name=name, **{"parameters": (), **values})


def module_facts(name: str) -> ModuleFacts | None:
    """The facts of a class of torch.nn, by any of its names; None for anything else."""
    canonical_name = canonical(name)
    return _facts(canonical_name) if canonical_name.startswith("torch.nn.") else None


def module_names() -> tuple[str, ...]:
    """The canonical names of all classes of torch.nn that facts are known of."""
    return tuple(table("modules"))


def has_parameters(name: str, given: Mapping[str, object] | None) -> bool | None:
    """Whether an instance made with these arguments has parameters; None where that cannot be told.

    `given` maps constructor parameters to literal values, or to UNKNOWN; None means that arguments are unpacked.
    """
    facts = module_facts(name)
    if facts is None:
        return None
    return _decide(facts.has_parameters, facts.parameters_default, facts.parameters_switch, given)


def is_mode_dependent(name: str, given: Mapping[str, object] | None) -> bool | None:
    """Whether train() and eval() make a difference for an instance made with these arguments; None: cannot be told.

    `given` maps constructor parameters to literal values, or to UNKNOWN; None means that arguments are unpacked.
    """
    facts = module_facts(name)
    if facts is None:
        return None
    return _decide(facts.mode_dependent, facts.mode_default, facts.mode_switch, given)


def _decide(
    answer: Answer, default: bool, switches: tuple[Mapping[str, Any], ...], given: Mapping[str, object] | None
) -> bool | None:
    if not switches:
        return None if answer == "by-arguments" else answer == "always"
    if given is None:
        return None
    satisfied = [all_of([_fits(given[p], v) if p in given else False for p, v in each.items()]) for each in switches]
    if True in satisfied:
        return not default
    return None if None in satisfied else default


def all_of(answers: list[bool | None]) -> bool | None:
    """Three-valued and: False if any is False, else None if any is None."""
    if False in answers:
        return False
    return None if None in answers else True


def _fits(value: object, sample: Any) -> bool | None:
    """Whether a literal does what the measured sample did; a sample of 0.5 stands for any probability above zero."""
    if isinstance(value, Unknown):
        return None
    if isinstance(sample, bool):
        return value == sample if isinstance(value, (bool, int)) else None
    if not isinstance(value, (int, float)):
        return None
    if isinstance(sample, int):
        return value >= sample
    return bool(value) == bool(sample)


def is_module_class(name: str) -> bool:
    """Whether the name is torch.nn.Module or a class of torch or torchvision that derives from it."""
    return role(name) in ("module", "transform")


@lru_cache(maxsize=1)
def _activation_names() -> frozenset[str]:
    classes = {name for name, entry in table("modules").items() if entry["kind"] == "activation"}
    plain = {name.rpartition(".")[2].lower() for name in classes} | {"gumbelsoftmax"}
    callables = [name for name in table("calls") if re.fullmatch(r"torch\.(nn\.functional\.|special\.)?[a-z]\w*", name)]
    callables += [f"torch.Tensor.{name}" for name in table("methods")]
    functions = {name for name in callables if name.rpartition(".")[2].replace("_", "") in plain}
    return frozenset(classes | functions)


def is_activation(name: str) -> bool:
    """Whether the name is an activation: a class (`torch.nn.ReLU`), or a function or method (`torch.relu_`)."""
    return canonical(name) in _activation_names()
