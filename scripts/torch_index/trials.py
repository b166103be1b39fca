"""Calls of torch functions with typical arguments, to see what they return and whether they change their input."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from . import examples
from .signatures import Parameter

# Not called: they change the state of this process, touch files or other processes, wait, or need a callable.
NOT_CALLED = re.compile(
    r"^(set_|save$|load$|_|init_|destroy|fork|spawn|seed$|manual_seed|use_det|compile$|hub|from_file|get_file_path"
    r"|prepare_mult|wait|import_|typename$|profiler_|unify_|parse_|merge_|vmap$|cond$|while_loop|autocast_|clear_"
    r"|thread_safe|is_vulkan|share_memory_|resize_|module_load|from_blob)"
)

GENERATOR = torch.Generator().manual_seed(0)


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=GENERATOR) + 0.1


def common() -> dict[str, Any]:
    """A value for each parameter name that torch's functions use, fitting an input of 4 x 4 numbers."""
    square = rand(4, 4)
    pivots = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    values: dict[str, Any] = dict.fromkeys(
        "A B LD LU_data input input1 input2 mat mat1 mat2 mean std obj other self source src tensor tensor1 tensor2"
        " value x y x1 x2 data target variance var tau anchor positive negative inputs matrix L weights"
        " log_probs".split(),
        square,
    )
    values.update(dict.fromkeys(["vec", "vec1", "vec2", "running_mean", "running_var"], rand(4)))
    values.update(dict.fromkeys(["batch1", "batch2"], rand(2, 4, 4)))
    values.update(
        dict.fromkeys("alpha beta axis dim dim1 order step scale row col n_fft steps lambd max sigma".split(), 1)
    )
    values.update(dict.fromkeys("dim0 start low i from median min offset zero_point diagonal quant_min".split(), 0))
    values.update(
        dict.fromkeys("chunks exponent k n num_samples p repeats sections split_size indices_or_sections".split(), 2)
    )
    values.update(dict.fromkeys("split_size_or_sections length ndim kernel_size downscale_factor groups".split(), 2))
    values.update(dict.fromkeys("end high window_length count to M N num_classes size0 upscale_factor".split(), 4))
    values.update(dict.fromkeys(["condition", "mask"], square > 0.5), LU_pivots=pivots, pivots=pivots, quant_max=255)
    values.update(size=(4, 4), shape=(2, 8), sizes=(2, 2), dims=(0,), shifts=1, pad=(1, 1), normalized_shape=(4,))
    values.update(tensors=(square, square), operands=square, equation="ij->ji", dtype=torch.float32, fill_value=1.0)
    values.update(
        index=torch.zeros(4, 4, dtype=torch.long), indices=torch.tensor([0, 1]), values=rand(2), prob=0.5, q=0.5
    )
    values.update(boundaries=torch.tensor([0.0, 1.0]), sorted_sequence=torch.tensor([0.0, 0.5, 1.0]), weight=0.5)
    values.update(theta=rand(1, 2, 3), grid=rand(1, 4, 4, 2), query=rand(1, 4, 4), key=rand(1, 4, 4), training=True)
    values.update(num_groups=2, output_size=2, threshold=0.5, threshold_=0.5, maxnorm=1.0, tol=1e-6, sparse_dim=1)
    values.update(input_lengths=torch.tensor([4]), target_lengths=torch.tensor([2]), lower=0.1, upper=0.3, dimension=0)
    values.update(device_type="cpu")
    return values


def settings() -> Iterator[Mapping[str, Any]]:
    """Sets of arguments, tried in this order until a call succeeds."""

    def with_input(chosen: Any, /, **others: Any) -> dict[str, Any]:
        same = dict.fromkeys(("input", "self", "x", "tensor", "data"), chosen)
        return {**common(), **same, **others}

    vector, numbers = rand(4), torch.tensor([1, 2, 3, 4])
    first_two = torch.tensor([0, 1])
    yield common()
    yield with_input(rand(1, 4, 4), weight=rand(4, 4, 2), other=rand(1, 4, 4), target=rand(1, 4, 4))
    yield with_input(rand(1, 4, 4, 4), weight=rand(4, 4, 2, 2), size=(1, 4, 4, 4))
    yield with_input(rand(1, 4, 4, 4, 4), weight=rand(4, 4, 2, 2, 2), size=(1, 4, 4, 4, 4), grid=rand(1, 4, 4, 4, 3))
    yield with_input(numbers, other=numbers, index=first_two, weight=rand(4, 4), value=1, source=numbers[:2])
    yield with_input(
        vector, other=vector, source=vector, src=vector, mask=vector > 0.5, size=4, value=0.5, mean=0.0, std=1.0
    )
    yield with_input(vector, vec=vector, index=numbers - 1, tensors=(vector, vector), values=vector, weight=rand(4))
    yield with_input(
        rand(4, 4), index=first_two, source=rand(2, 4), src=rand(2, 4), tensor=rand(2, 4), value=1.0, other=2
    )
    yield with_input(torch.tensor(0.5), value=1)
    yield with_input(torch.rand(4, 4, dtype=torch.complex64, generator=GENERATOR))
    yield with_input(rand(4, 2))
    yield with_input(rand(4, 4) > 0.5, other=rand(4, 4) > 0.5)
    yield with_input(rand(4, 4), target=numbers - 1, y=torch.ones(4), weight=rand(4, 4))
    yield with_input(vector, target=torch.ones(4), weight=rand(4, 4), input1=rand(4, 4), input2=rand(4, 4))
    yield with_input(rand(1, 2, 4, 4), size=(1, 2, 4, 4), output_size=(2, 2), weight=None, p=0.5, padding=0)
    yield with_input(rand(4, 4).to_sparse(), index=first_two)
    yield with_input(vector, index=(first_two,), indices=(first_two,), values=rand(2), value=rand(2), scale=0.1)
    yield with_input(
        rand(1, 8, 4), output_size=(4, 4), tensors=[rand(4), rand(4)], input2=rand(4, 4), kernel_size=(2, 2)
    )


class TooSlowError(Exception):
    """A call took longer than it may."""


@contextlib.contextmanager
def quiet(seconds: int = 2) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)


ARGUMENTS = examples.arguments()
KEYWORDS = examples.keywords()


def attempt(function: Callable[..., Any], parameters: list[Parameter], values: Mapping[str, Any]) -> Any:
    """The result of one call with a value for each required parameter; raises whatever the call raises."""
    positional: list[Any] = []
    keywords: dict[str, Any] = dict(KEYWORDS.get(function.__name__, {}))
    keyword_only = False
    for name, required in parameters:
        if name.startswith("*"):
            bare = name.strip("*")
            if bare in ("tensors", "operands") and not name.startswith("**"):
                positional.extend(values["tensors"])
            elif bare in ("size", "sizes", "shape", "dims") and not name.startswith("**"):
                positional.append(values[bare])
            keyword_only = True
        elif required and keyword_only:
            keywords[name] = values[name]
        elif required:
            positional.append(values[name])
    with quiet():
        return function(*positional, **keywords)


def results(function: Callable[..., Any], parameters: list[Parameter]) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """(arguments, result) of each call that succeeds."""
    name = function.__name__
    if name in ARGUMENTS:
        with contextlib.suppress(Exception), quiet():
            yield {}, function(*ARGUMENTS[name], **KEYWORDS.get(name, {}))
    for values in settings():
        with contextlib.suppress(Exception):
            yield values, attempt(function, parameters, values)


def kind_of(result: Any) -> str:
    """ "tensor", "tensors" (a tuple or list of them), "number" (bool, int, float, complex) or "other"."""
    if isinstance(result, torch.Tensor):
        return "tensor"
    if isinstance(result, (tuple, list)) and result and any(isinstance(each, torch.Tensor) for each in result):
        return "tensors"
    if isinstance(result, (bool, int, float, complex)):
        return "number"
    return "other"


def documented_kind(result: str | None) -> str | None:
    """The same, from what a docstring or an annotation says after "->"."""
    if result is None:
        return None
    text = result.strip().strip("`").removeprefix("torch.")
    if re.fullmatch(r"Tensor|LongTensor|BoolTensor|(Tensor or |Tensor, )?Tensor.{0,3}", text) and "," not in text:
        return "tensor"
    if re.search(r"Tensor", text) and re.match(r"[(\[]|[Tt]uple|[Ll]ist|seq|Sequence|.*Tensors", text):
        return "tensors"
    if re.fullmatch(r"(bool|int|float|Number|complex)( or .{1,8})?", text):
        return "number"
    return "other" if not re.search("Tensor", text) else None
