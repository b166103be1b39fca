from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_keyword
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_WRAPPER = "torch.nn.DataParallel"
_FUNCTION = "torch.nn.parallel.data_parallel"
#: What takes `find_unused_parameters`, for itself or for the wrapper that it makes later.
_TAKES_FLAG = (
    "torch.nn.parallel.DistributedDataParallel",
    "accelerate.DistributedDataParallelKwargs",
    "accelerate.utils.DistributedDataParallelKwargs",
    "pytorch_lightning.strategies.DDPStrategy",
    "lightning.strategies.DDPStrategy",
    "lightning.pytorch.strategies.DDPStrategy",
    "lightning.fabric.strategies.DDPStrategy",
)
_GIVES_REASON = regex(r"unused|un-used|not used|some parameters|frozen|needed|required|necessary", re.IGNORECASE)
_GIVES_REASON_FOR_THREADS = regex(r"checkpoint|state.?dict|prefix|module\.|keys|legacy", re.IGNORECASE)


class DataParallel(Rule):
    """## What it does

    Points out `torch.nn.DataParallel`, and `find_unused_parameters=True` of `DistributedDataParallel`.

    ## Why is this bad?

    `DataParallel` drives all GPUs from threads of one Python process, which take turns; in each forward pass it copies
    the model to every GPU, and the first one gathers all outputs. `DistributedDataParallel`, with one process for each
    GPU, is faster even on one machine. Buffers that the replicas change, such as those of `BatchNorm`, are lost but for
    the first GPU's.

    `find_unused_parameters=True` walks the autograd graph in every iteration to look for parameters that got no
    gradient. Where there are none, that is time for nothing; torch warns of it once.

    ## Example

    ```python
    import torch

    model = torch.nn.DataParallel(model)
    ```

    ## Use instead

    ```python
    import torch

    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    ```

    ## Exceptions

    `DataParallel` with one device, which only adds `module.` to the keys of a state dict; a flag whose value is not
    `True` itself, that a comment gives a reason for, or whose model is a class of the file that leaves layers out under
    a condition.

    ## References

    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [Getting started with DistributedDataParallel](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html)
    """

    code = "TL609"
    name = "data-parallel"
    level = Level.HINT
    summary = "One process for all GPUs, or a search for unused parameters in each step, costs time."

    @on_call(_WRAPPER, _FUNCTION)
    def check_wrapper(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        place = 1 if semantics.is_named(call.func, _WRAPPER) else 2
        if _is_one_device(semantics, argument(call, place, "device_ids")):
            return
        if is_stated(call, _GIVES_REASON_FOR_THREADS):
            return
        message = (
            f"`{ast.unparse(call.func)}` drives all GPUs from one process and copies the model in each forward pass: "
            "`DistributedDataParallel` is faster, also on one machine."
        )
        yield self.found(call, message)

    @on_keyword(lambda name: name == "find_unused_parameters")
    def check_flag(self, keyword: ast.keyword, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        call = parent_of(keyword)
        if not isinstance(call, ast.Call) or literal_of(keyword.value) is not True:
            return
        if not semantics.is_named(call.func, *_TAKES_FLAG) or is_stated(call, _GIVES_REASON):
            return
        if _may_leave_parameters_out(semantics, argument(call, 0, "module")):
            return
        message = (
            "`find_unused_parameters=True` walks the graph in every iteration: it is needed only where some parameters "
            "get no gradient."
        )
        yield self.found(keyword, message)


def _is_one_device(semantics: Semantics, devices: ast.expr | None) -> bool:
    """Whether a list of devices is known to have one element."""
    value = semantics.value_of(devices)
    if isinstance(value, ast.List | ast.Tuple):
        return len(value.elts) == 1 and not isinstance(value.elts[0], ast.Starred)
    literal = semantics.literal(devices) if devices is not None else UNKNOWN
    return isinstance(literal, list | tuple) and len(literal) == 1


def _may_leave_parameters_out(semantics: Semantics, module: ast.expr | None) -> bool:
    """Whether the wrapped module is of a class of this file whose ``forward`` goes different ways."""
    kind = semantics.kind(module) if module is not None else None
    if kind is None or kind.class_node is None:
        return False
    forward = semantics.find_method(kind.class_node, "forward")
    return forward is not None and any(
        True for _ in nodes_within(forward, ast.If, ast.IfExp, ast.While, ast.Match, ast.Continue, ast.Break)
    )
