from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.torch_api.known import is_dtype

#: What each device type takes (torch 2.13, torch/amp/autocast_mode.py; CUDA takes any dtype without a check).
_DTYPES = dict.fromkeys(("cpu", "mps", "xpu"), ("torch.bfloat16", "torch.float16"))
#: CPU autocast takes float16 from this release on (pytorch/pytorch#112484).
_HALF_ON_CPU = "2.2"


class AutocastDtype(Rule):
    """## What it does

    Reports `torch.autocast` with a dtype that the device type does not support: anything but `bfloat16` and `float16`
    on `cpu`, `mps` and `xpu`, and `float16` on `cpu` in projects for torch before 2.2.

    ## Why is this bad?

    Autocast then warns "the target dtype is not supported. Disabling autocast" and does nothing: the block runs in the
    dtypes of its tensors, usually float32. CUDA does not check, so that code that was only moved to another device
    behaves differently there. To run a block in float32 on purpose, say `enabled=False`.

    ## Example

    ```python
    import torch

    with torch.autocast("cpu", dtype=torch.float32):
        output = model(images)
    ```

    ## Use instead

    ```python
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(images)
    ```

    ## Exceptions

    A device type or dtype that is not written there, contexts that are switched off, and `float16` on the CPU where
    nothing says for which torch the project is.

    ## References

    - [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
    """

    code = "TL709"
    name = "autocast-dtype"
    level = Level.WARNING
    summary = "Autocast warns and turns itself off when the device does not support its dtype."

    @on_call("torch.amp.autocast", "torch.cpu.amp.autocast")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        of_cpu = semantics.is_named(call.func, "torch.cpu.amp.autocast")
        device = "cpu" if of_cpu else semantics.literal(argument(call, 0, "device_type"))
        given = argument(call, 1, "dtype")
        if not isinstance(device, str) or device not in _DTYPES or given is None or has_unknown_arguments(call):
            return
        enabled = argument(call, 0 if of_cpu else 2, "enabled")
        if enabled is not None and semantics.literal(enabled) is not True:
            return
        dtype = semantics.name(given) or semantics.name(semantics.value_of(given))
        if not _is_refused(device, dtype, unit):
            return
        if is_expected_to_raise(call) or in_version_fallback(semantics, call):
            return
        short = dtype.rpartition(".")[2]
        message = (
            f"Autocast does not support `{short}` on `{device}`: it warns and turns itself off, and the block runs "
            "without it."
        )
        yield self.found(given, message)


def _is_refused(device: str, dtype: str, unit: Unit) -> bool:
    """Whether autocast certainly refuses a dtype on a device, in every torch that the project may use."""
    if not is_dtype(dtype):
        return False
    if dtype not in _DTYPES[device]:
        return True
    old = unit.torch is not None and not unit.torch.may_be_at_least(_HALF_ON_CPU)
    return device == "cpu" and dtype == "torch.float16" and old
