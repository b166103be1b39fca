"""Running small programs with torch, and comparing what they leave. Whatever imports this is skipped without torch."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-torch` runs these")

_SEED = 20
_ABSENT = "nothing is called `result`"


@dataclass(frozen=True)
class Run:
    """What a program left in ``result``, what it raised, and what it warned of."""

    result: Any
    error: Exception | None
    warnings: tuple[str, ...]


def run(text: str) -> Run:
    """Run a program from its text with the same seeds as any other."""
    namespace: dict[str, Any] = {"__name__": "program"}
    error = None
    with warnings.catch_warnings(record=True) as caught, _fresh_torch(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            exec(compile(text, "program.py", "exec"), namespace)
        except Exception as raised:
            error = raised
    return Run(namespace.get("result", _ABSENT), error, tuple(str(warning.message) for warning in caught))


@contextmanager
def _fresh_torch() -> Iterator[None]:
    """Seeds, and the switches of torch that a program may leave set."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else the second program of a process would be silent
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        torch.set_warn_always(always)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(False)
        torch.autograd.set_detect_anomaly(False)


def differences(before: object, after: object, *, exact: bool, place: str = "result") -> list[str]:
    """Where two results differ, in words; ``exact`` asks for equal bits, else for equal numbers up to rounding."""
    if isinstance(before, torch.nn.Module) and isinstance(after, torch.nn.Module):
        return differences(list(before.parameters()), list(after.parameters()), exact=exact, place=f"{place}'s weights")
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        return _tensor_differences(before, after, exact, place)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(before) != list(after):
            return [f"{place}: keys {list(before)} became {list(after)}"]
        parts = [(f"{place}[{key!r}]", before[key], after[key]) for key in before]
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        if len(before) != len(after):
            return [f"{place}: {len(before)} elements became {len(after)}"]
        parts = [(f"{place}[{number}]", *both) for number, both in enumerate(zip(before, after, strict=True))]
    elif isinstance(before, float) and isinstance(after, float) and not exact:
        return [] if after == pytest.approx(before, nan_ok=True) else [f"{place}: {before} became {after}"]
    else:
        equal = type(before) is type(after) and (before == after or (before != before and after != after))
        return [] if equal else [f"{place}: {before!r} became {after!r}"]
    return [difference for name, old, new in parts for difference in differences(old, new, exact=exact, place=name)]


def _tensor_differences(before: Any, after: Any, exact: bool, place: str) -> list[str]:
    for attribute in ("dtype", "shape", "device", "requires_grad", "is_sparse"):
        old, new = getattr(before, attribute), getattr(after, attribute)
        if old != new:
            return [f"{place}.{attribute}: {old} became {new}"]
    if before.device.type == "meta":
        return []
    try:
        tolerance = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(after, before, equal_nan=True, **tolerance)
    except AssertionError as error:
        return [f"{place}: {error}"]
    return []
