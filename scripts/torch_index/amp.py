"""amp.json: the deprecated names of torch.cuda.amp and torch.cpu.amp, and what replaces them since when.

That a name is deprecated, and that the replacement knows the arguments by the same names, is checked by running torch.
Which release was the first to have the replacement, and to deprecate the old name, was read from the Python sources in
the wheels of torch 1.9.0, 1.10.0, 1.11.0, 1.12.0, 2.2.0, 2.3.0 and 2.4.0: 1.10 has `torch.autocast` and no
`torch.amp`, which came with 1.12; `torch.amp.GradScaler` is not in 2.2; `torch.amp.custom_fwd` is not in 2.3; the
warnings are not in 2.3.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .signatures import parameters_of

# old name -> replacement, its first release, device type, and the parameter of the replacement that takes the device
TABLE: dict[str, tuple[str, str, str, str]] = {
    "torch.cpu.amp.GradScaler": ("torch.amp.GradScaler", "2.3", "cpu", "device"),
    "torch.cpu.amp.autocast": ("torch.amp.autocast", "1.12", "cpu", "device_type"),
    "torch.cuda.amp.GradScaler": ("torch.amp.GradScaler", "2.3", "cuda", "device"),
    "torch.cuda.amp.autocast": ("torch.amp.autocast", "1.12", "cuda", "device_type"),
    "torch.cuda.amp.custom_bwd": ("torch.amp.custom_bwd", "2.4", "cuda", "device_type"),
    "torch.cuda.amp.custom_fwd": ("torch.amp.custom_fwd", "2.4", "cuda", "device_type"),
}

DEPRECATED_SINCE = "2.4"


def resolve(dotted: str) -> Any:
    value: Any = torch
    for part in dotted.split(".")[1:]:
        value = getattr(value, part)
    return value


def warns(dotted: str) -> bool:
    """Whether a plain call of the old name gives a FutureWarning that says that it is deprecated."""
    arguments = (lambda *_: None,) if "custom" in dotted else ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resolve(dotted)(*arguments)
    return any(issubclass(w.category, FutureWarning) and "deprecated" in str(w.message) for w in caught)


def parameter_names(dotted: str) -> list[str]:
    return [p.name for p in parameters_of(dotted, resolve(dotted)) or []]


def build() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for old, (new, since, device, parameter) in TABLE.items():
        old_parameters, new_parameters = parameter_names(old), parameter_names(new)
        if not warns(old):
            raise AssertionError(f"{old} no longer warns: read its release notes")
        if parameter not in new_parameters:
            raise AssertionError(f"{new} has no parameter {parameter}")
        if set(old_parameters) - set(new_parameters):
            raise AssertionError(f"{new} lacks parameters of {old}: {old_parameters}")
        table[old] = {
            "deprecated_since": DEPRECATED_SINCE,
            "device": device,
            "device_parameter": parameter,
            "old_parameters": " ".join(old_parameters),
            "new_parameters": " ".join(new_parameters),
            "replacement": new,
            "replacement_since": since,
        }
    return table
