"""calls.json: parameters and kind of result of each public function and class, and of each method of torch.Tensor.

Parameters come from `inspect.signature`, or, for what is written in C++, from the first line of the docstring, which is
where torch documents them. The kind of result is found by calling with typical arguments, or else from the docstring.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import signal
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import names
from .modules import constructor_parameters, parameter_list

# Modules whose public functions and classes are listed with their parameters.
LISTED = """
torch torch.amp torch.autograd torch.autograd.functional torch.backends.cudnn torch.compiler torch.cpu torch.cpu.amp
torch.cuda torch.cuda.amp torch.distributed torch.distributed.fsdp torch.distributions torch.export torch.fft torch.func
torch.jit torch.linalg torch.nested torch.nn torch.nn.attention torch.nn.functional torch.nn.init torch.nn.parallel
torch.nn.utils torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn
torch.nn.utils.stateless torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.profiler
torch.signal.windows torch.sparse torch.special torch.utils.checkpoint torch.utils.data torch.utils.dlpack
""".split()

# Not called to see what they return: they change the state of this process, read files, wait, or end it.
NOT_CALLED = re.compile(
    r"^(set_|save$|load$|_|init_|destroy|fork|spawn|seed$|manual_seed|use_det|compile$|hub|from_file|get_file_path"
    r"|prepare_mult|wait|import_|typename$|profiler_|unify_|parse_|merge_|vmap$|cond$|while_loop|autocast_|clear_|thread_safe)"
)


def listed() -> Iterator[tuple[str, Any]]:
    for module_name in LISTED:
        module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not callable(value) or isinstance(value, types.ModuleType):
                continue
            dotted = f"{module_name}.{name}"
            if isinstance(value, names.Indexed) and names.belongs_to_torch(value) and names.is_exported(dotted, value):
                yield dotted, value


def tensor_methods() -> Iterator[tuple[str, Any]]:
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name, None)
        if not name.startswith("_") and callable(value):
            yield name, value


SIGNATURE_LINE = r"^(?:\.\. (?:function|method):: |)(?:torch\.)?(?:[\w.]+\.)?{name}\((?P<parameters>.*?)\)(?: ?-> ?(?P<result>.+))?$"


def documented_signatures(name: str, doc: str | None) -> list[tuple[list[str], str | None]]:
    """(parameters, result) for each `name(a, b, *, c=None) -> Tensor` that stands on a line of the docstring."""
    found = []
    joined = re.sub(r",\s*\n\s+", ", ", doc or "")
    for match in re.finditer(SIGNATURE_LINE.format(name=re.escape(name)), joined, re.MULTILINE):
        found.append((split_parameters(match["parameters"]), match["result"]))
    return found


def split_parameters(text: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    cleaned = []
    for part in parts:
        # "int dim" and "dim: int = 0" and "dim=0" are all written in docstrings; "/" says positional only
        name = re.split(r"[=:]", part, maxsplit=1)[0].strip().strip("[]").split(" ")[-1].replace("\\", "")
        if re.fullmatch(r"\*{0,2}\w+|\*", name):
            cleaned.append(name)
    return cleaned


def parameters_of(name: str, value: Any) -> list[str] | None:
    if isinstance(value, type) and value.__module__.startswith("torch.nn.modules"):
        return constructor_parameters(name, value)
    from_code: list[str] | None = None
    with contextlib.suppress(ValueError, TypeError):
        from_code = parameter_list(inspect.signature(value))
        if from_code and from_code[0] == "self" and not isinstance(value, type):
            from_code = from_code[1:]
    if from_code and from_code != ["*args", "**kwargs"]:
        return from_code
    dispatched = torch._jit_internal.boolean_dispatched.get(value) if isinstance(value, types.FunctionType) else None
    if dispatched:
        return parameter_list(inspect.signature(dispatched["if_false"]))
    documented = [parameters for parameters, _ in documented_signatures(name, value.__doc__)]
    if not documented:
        return from_code
    best = documented[0]
    for other in documented[1:]:
        if other[: len(best)] == best:
            best = other
    return best


# Typical arguments by parameter name, tried in this order of settings; a missing name takes the next setting.
def settings() -> Iterator[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    square = torch.rand(4, 4, generator=generator) + 0.1
    index = torch.tensor([[0, 1, 2, 3]] * 4)
    common: dict[str, Any] = {
        "A": square, "B": square, "LD": square, "pivots": torch.tensor([1, 2, 3, 4], dtype=torch.int32), "LU_data": square,
        "LU_pivots": torch.tensor([1, 2, 3, 4], dtype=torch.int32), "alpha": 1, "axis": 0, "batch1": torch.rand(2, 4, 4),
        "batch2": torch.rand(2, 4, 4), "beta": 1, "boundaries": torch.tensor([0.0, 1.0]), "chunks": 2, "condition": square > 0.5,
        "dim": 0, "dim0": 0, "dim1": 1, "dims": (0,), "dtype": torch.float32, "end": 4, "equation": "ij->ji", "exponent": 2,
        "fill_value": 1.0, "high": 3, "index": index, "indices": torch.tensor([0, 1]), "indices_or_sections": 2, "input": square,
        "input1": square, "input2": square, "k": 2, "length": 2, "low": 0, "lr": 0.1, "mask": square > 0.5, "mat": square,
        "mat1": square, "mat2": square, "max": 1.0, "mean": square, "min": 0.0, "n": 2, "num_samples": 2, "obj": square, "operands": square,
        "order": 1, "other": square, "p": 2, "q": 0.5, "repeats": 2, "sections": 2, "self": square, "shape": (2, 8), "size": (4, 4), "sizes": (2, 2),
        "shifts": 1, "source": square, "split_size": 2, "split_size_or_sections": 2, "src": square, "start": 0, "std": square,
        "steps": 3, "step": 1, "tensor": square, "tensor1": square, "tensor2": square, "tensors": (square, square), "value": square,
        "values": torch.tensor([0.5, 0.6]), "vec": torch.rand(4), "vec1": torch.rand(4), "vec2": torch.rand(4), "vec2_": torch.rand(4), "weight": 0.5,
        "x": square, "y": square, "x1": square, "x2": square, "window_length": 4, "row": 3, "col": 3, "diagonal": 0, "dims0": (0,), "data": square,
        "target": square, "n_fft": 4, "prob": 0.5, "training": True, "from": 0, "to": 3, "sorted_sequence": torch.tensor([0.0, 0.5, 1.0]),
        "offset": 0, "count": 4, "lambd": 1.0, "median": 0.0, "sigma": 1.0, "signature": None, "func": None, "ndim": 2, "kernel_size": 2,
        "downscale_factor": 2, "upscale_factor": 2, "groups": 2, "num_classes": 5, "normalized_shape": (4,), "num_groups": 2, "variance": square,
        "var": square, "running_mean": torch.zeros(4), "running_var": torch.ones(4), "output_size": 2, "pad": (1, 1), "tau": square, "M": 4, "N": 4,
        "scale": 1.0, "zero_point": 0, "quant_min": 0, "quant_max": 255, "accumulate": False, "maxnorm": 1.0, "anchor": square, "positive": square, "negative": square,
        "theta": torch.rand(1, 2, 3), "grid": torch.rand(1, 4, 4, 2) , "driver": None, "inputs": square, "matrix": square, "L": square, "tol": 1e-6, "hermitian": False,
        "dimension": 0, "size0": 2, "sparse_dim": 1, "threshold": 0.5, "query": torch.rand(1, 4, 4), "key": torch.rand(1, 4, 4), "i": 0, "names": None, "dim_index": 0,
    }
    yield common
    cube = torch.rand(1, 4, 4, generator=generator)
    yield {**common, "input": cube, "self": cube, "weight": torch.rand(4, 4, 2), "other": cube, "target": cube}
    image = torch.rand(1, 4, 4, 4, generator=generator)
    yield {**common, "input": image, "self": image, "weight": torch.rand(4, 4, 2, 2), "size": (1, 4, 4, 4)}
    volume = torch.rand(1, 4, 4, 4, 4, generator=generator)
    yield {**common, "input": volume, "self": volume, "weight": torch.rand(4, 4, 2, 2, 2), "size": (1, 4, 4, 4, 4), "grid": torch.rand(1, 4, 4, 4, 3)}
    numbers = torch.tensor([1, 2, 3, 4])
    yield {**common, "input": numbers, "self": numbers, "other": numbers, "index": torch.tensor([0, 1]), "tensor": numbers, "x": numbers, "data": numbers}
    vector = torch.rand(4, generator=generator)
    flat = dict.fromkeys(("input", "self", "other", "tensor", "source", "src", "x", "vec"), vector)
    yield {**common, **flat, "mask": vector > 0.5, "index": torch.tensor([0, 1, 2, 3]), "size": 4, "value": 0.5, "mean": 0.0, "std": 1.0, "tensors": (vector, vector)}
    scalar = torch.tensor(0.5)
    yield {**common, "input": scalar, "self": scalar, "value": 1, "tensor": scalar}
    complexes = torch.rand(4, 4, dtype=torch.complex64, generator=generator)
    yield {**common, "input": complexes, "self": complexes}
    pairs = torch.rand(4, 2, generator=generator)
    yield {**common, "input": pairs, "self": pairs}
    booleans = square > 0.5
    yield {**common, "input": booleans, "self": booleans, "other": booleans}
    labels = torch.tensor([0, 1, 2, 3])
    yield {**common, "target": labels, "y": torch.ones(4), "weight": square}
    yield {**common, "target": torch.ones(4), "input": vector, "input1": square, "input2": square, "weight": torch.rand(4, 4)}
    yield {**common, "target": torch.ones(4, 4, dtype=torch.long), "weight": torch.rand(4, 4), "input": labels}
    yield {**common, "other": 2, "index": torch.tensor([0, 1, 2, 3]), "mat": cube, "weight": torch.rand(4), "source": square, "value": 1.0}
    yield {**common, "other": vector, "input": vector, "self": vector, "index": torch.tensor([0, 1])}
    grid = torch.rand(1, 4, 4, 4)
    yield {**common, "input": grid, "size": (1, 2, 4, 4), "output_size": (2, 2), "weight": None, "p": 0.5, "padding": 0}
    yield {**common, "input": square, "self": square.to_sparse(), "index": torch.tensor([0, 1])}


class TooSlow(Exception):
    pass


@contextlib.contextmanager
def at_most_seconds(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def required(parameters: list[str], value: Any, name: str) -> list[tuple[str, bool]]:
    """(parameter, keyword only) of the parameters without a default, as far as they can be told."""
    with contextlib.suppress(ValueError, TypeError):
        signature = inspect.signature(value)
        found = [
            (p.name, p.kind is p.KEYWORD_ONLY)
            for p in signature.parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name != "self"
        ]
        if found:
            return found
    match = re.search(SIGNATURE_LINE.format(name=re.escape(name)), re.sub(r",\s*\n\s+", ", ", value.__doc__ or ""), re.MULTILINE)
    text = match["parameters"] if match else ""
    result: list[tuple[str, bool]] = []
    for part in text.split(", "):
        if "=" in part or part.strip() == "*" or part.strip().startswith("**"):
            break if part.strip() == "*" else None  # noqa: B901
            continue
        bare = split_parameters(part)
        if bare:
            result.append((bare[0], False))
    return result
