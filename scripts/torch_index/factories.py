"""factories.json: the functions of torch that make a tensor and take `device=`, found by calling them with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from . import trials
from .signatures import Parameter, listed, parameters_of, tensor_methods

# Functions whose required arguments have names that mean something else in a factory.
OWN: dict[str, tuple[Any, ...]] = {
    "arange": (4,),
    "as_tensor": ([1.0, 2.0],),
    "asarray": ([1.0, 2.0],),
    "bartlett_window": (4,),
    "empty_permuted": ((2, 3), (0, 1)),
    "empty_quantized": (),
    "empty_strided": ((2, 3), (3, 1)),
    "eye": (3,),
    "full": ((2, 3), 1.0),
    "full_like": (torch.ones(2, 3), 1.0),
    "general_cosine": (4,),
    "general_hamming": (4,),
    "nested_tensor": ([torch.ones(2)],),
    "as_nested_tensor": ([torch.ones(2)],),
    "new_empty_strided": ((2, 3), (3, 1)),
    "new_full": ((2, 3), 1.0),
    "new_tensor": ([1.0, 2.0],),
    "normal": (0.0, 1.0, (2, 3)),
    "randint": (0, 1000, (8, 8)),
    "randint_like": (torch.ones(8, 8), 1000),
    "randperm": (64,),
    "range": (0, 4),
    "scalar_tensor": (1.0,),
    "sparse_bsc_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 1, 1), (1, 1)),
    "sparse_bsr_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 1, 1), (1, 1)),
    "sparse_compressed_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1)),
    "sparse_coo_tensor": (torch.tensor([[0], [0]]), torch.ones(1), (1, 1)),
    "sparse_csc_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1)),
    "sparse_csr_tensor": (torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1)),
    "tensor": ([1.0, 2.0],),
    "tril_indices": (3, 3),
    "triu_indices": (3, 3),
}

# Arguments that must be given by name.
KEYWORDS: dict[str, dict[str, Any]] = {
    "general_cosine": {"a": [0.5, 0.5]},
    "sparse_compressed_tensor": {"layout": torch.sparse_csr},
}

# `torch.float32` for most, integers for those that only make integers.
DTYPES = (torch.float64, torch.int64)


def candidates() -> Iterator[tuple[str, Callable[..., Any]]]:
    prefixes = ("torch.fft.", "torch.signal.windows.", "torch.nested.")
    for dotted, value in listed():
        name = dotted.rpartition(".")[2]
        computing = dotted.count(".") == 1 or dotted.startswith(prefixes)
        if computing and not isinstance(value, type) and not trials.NOT_CALLED.match(name):
            yield dotted, value
    for name, _ in tensor_methods():
        if name.startswith("new_"):
            yield f"torch.Tensor.{name}", getattr(torch.ones(2, 3), name)


def working_arguments(dotted: str, value: Callable[..., Any], parameters: list[Parameter]) -> tuple[Any, ...] | None:
    """Positional arguments with which the function takes `device="cpu"` and returns one tensor."""
    name = dotted.rpartition(".")[2]
    attempts: list[tuple[Any, ...]] = [OWN[name]] if name in OWN else []
    if name not in OWN:
        required = [p for p in parameters if p.required]
        for values in trials.settings():
            with contextlib.suppress(KeyError):
                positional = [values[p.name] for p in required]
                if parameters and parameters[0].name == "*size":
                    positional = [values["size"]]
                attempts.append(tuple(positional))
    for arguments in attempts:
        if accepts(value, arguments, {"device": "cpu"}):
            return arguments
    return None


def accepts(value: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    with contextlib.suppress(Exception), trials.quiet():
        return isinstance(value(*arguments, **keywords), torch.Tensor)
    return False


def is_random(value: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Whether a call draws from torch's generator."""
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with trials.quiet():
        value(*arguments)
    return not torch.equal(before, torch.get_rng_state())


def build() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for dotted, value in candidates():
        name = dotted.rpartition(".")[2]
        parameters = parameters_of(dotted, value) or []
        if name in KEYWORDS:
            value = partial(value, **KEYWORDS[name])
        arguments = working_arguments(dotted, value, parameters)
        if arguments is None:
            continue
        facts: dict[str, Any] = {
            "random": is_random(value, arguments),
            "dtype": any(accepts(value, arguments, {"dtype": dtype}) for dtype in DTYPES),
            "requires_grad": accepts(value, arguments, {"requires_grad": True})
            or accepts(value, arguments, {"requires_grad": False}),
            "like": name.endswith("_like") or dotted.startswith("torch.Tensor."),
            "parameters": " ".join(p.name for p in parameters),
        }
        table[dotted] = {key: fact for key, fact in facts.items() if fact}
    return table
