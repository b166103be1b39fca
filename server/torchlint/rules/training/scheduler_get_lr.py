from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit


class SchedulerGetLr(Rule):
    """## What it does

    Reports `scheduler.get_lr()` outside the scheduler's own class.

    ## Why is this bad?

    `get_lr` computes the *next* learning rate from the present one, for `step` to use. Called from outside it warns,
    and for chainable schedulers gives a wrong number: with `StepLR(step_size=1)` it gave 0.001 where the optimizer
    used 0.01 (torch 2.13). `ReduceLROnPlateau.get_lr` raises.

    ## Example

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    print(scheduler.get_lr())
    ```

    ## Use instead

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    print(scheduler.get_last_lr())
    ```

    ## Exceptions

    Schedulers themselves (`get_lr` is what they override), also those that wrap others, and classes that are not
    known to be schedulers of torch. Code for torch before 1.4, which has no `get_last_lr`.

    ## References

    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "TL224"
    name = "scheduler-get-lr"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "`get_lr()` computes the next learning rate: the one in use is `get_last_lr()`."

    @on_method("get_lr")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if call.args or call.keywords or not isinstance(call.func, ast.Attribute):
            return
        receiver = call.func.value
        kind = unit.semantics.kind(receiver)
        if kind is None or kind.what is not What.SCHEDULER or kind.class_node is not None:
            return
        if _is_in_scheduler(call, unit.semantics) or in_version_fallback(unit.semantics, call):
            return
        shown = ast.unparse(receiver)
        if torch_api.needs_metric(kind.origin):
            message = f"`{shown}.get_lr()` raises: a `ReduceLROnPlateau` computes no learning rate in advance."
        else:
            message = f"`{shown}.get_lr()` computes the next learning rate and warns: what is used is `get_last_lr()`."
        fix = FixPlan("Call `get_last_lr()`", "unsafe", lambda edit: edit.rename_called(call, "get_last_lr"))
        yield self.found(call, message, fixes=[fix])


def _is_in_scheduler(call: ast.Call, semantics: Semantics) -> bool:
    function = enclosing_function(call)
    if function is not None and function.name in ("get_lr", "_get_closed_form_lr"):
        return True
    holder = enclosing_class(call)
    return holder is not None and any(torch_api.is_scheduler(name) for name in semantics.ancestors(holder))
