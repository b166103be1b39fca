from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.idioms.surroundings.saved_files import loads_own_file
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit


class UnsafeLoad(Rule):
    """## What it does

    Reports `torch.load` that unpickles arbitrary objects: `weights_only=False`, `pickle_module=` without
    `weights_only`, or no `weights_only` in a project that allows torch older than 2.6, where the default was `False`.
    `torch.hub.load_state_dict_from_url` with `weights_only=False` is reported too.

    ## Why is this bad?

    A pickle runs code when it is loaded: a checkpoint from elsewhere can do anything on your machine. With
    `weights_only=True` only tensors and plain containers are read.

    ## Example

    ```python
    import torch

    state = torch.load("model.pt", weights_only=False)
    ```

    ## Use instead

    ```python
    import torch

    state = torch.load("model.pt", weights_only=True)
    ```

    ## Exceptions

    A file (or buffer) that the same function writes with `torch.save`. While nothing is known about the project's torch
    version, the absence of the argument is not reported; nor is it where the code provides for several versions.

    ## References

    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
    """

    code = "TL901"
    name = "unsafe-load"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Loading a pickle runs whatever code it holds."

    @on_call("torch.load")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        message = self._message(call, unit)
        if message is None or loads_own_file(unit.semantics, call):
            return
        fix = FixPlan(
            "Load with `weights_only=True`", "unsafe", lambda edit: edit.add_keyword(call, "weights_only", "True")
        )
        # With a pickle module of its own, `weights_only=True` raises.
        yield self.found(call, message, fixes=[] if _has_pickle_module(call, unit) else [fix])

    @on_call("torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")
    def check_url(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = argument(call, None, "weights_only")
        if given is not None and unit.semantics.literal(given) is False:
            fix = FixPlan(
                "Load with `weights_only=True`", "unsafe", lambda edit: edit.add_keyword(call, "weights_only", "True")
            )
            message = "`weights_only=False` lets what the address gives run any code while it is loaded."
            yield self.found(call, message, fixes=[fix])

    def _message(self, call: ast.Call, unit: Unit) -> str | None:
        given = argument(call, None, "weights_only")
        if given is not None:
            if unit.semantics.literal(given) is False:
                return "`weights_only=False` lets the file run any code while it is loaded."
            return None
        if has_unknown_arguments(call):
            return None
        if _has_pickle_module(call, unit):
            return "`pickle_module` without `weights_only` unpickles any object: the file can run any code."
        if unit.torch is not None and unit.torch.may_be_below("2.6") and not in_version_fallback(unit.semantics, call):
            return "Below torch 2.6, which this project allows, `torch.load` runs any code in the file by default."
        return None


def _has_pickle_module(call: ast.Call, unit: Unit) -> bool:
    given = argument(call, 2, "pickle_module")
    return given is not None and unit.semantics.literal(given) is not None
