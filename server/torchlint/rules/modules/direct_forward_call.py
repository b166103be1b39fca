from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_SCRIPT = ("torch.jit.script_method", "torch.jit.export", "torch.jit.script")


class DirectForwardCall(Rule):
    """## What it does

    Points out `m.forward(x)` where `m` is a module: `m(x)` is meant.

    ## Why is this bad?

    `m(x)` runs `forward` and what belongs to it: hooks, the gradient synchronisation of
    `DistributedDataParallel`, a compiled version of the module. `m.forward(x)` leaves all of that out.

    ## Example

    ```python
    import torch
    import torch.nn as nn

    layer = nn.Linear(4, 2)
    out = layer.forward(torch.ones(1, 4))
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn

    layer = nn.Linear(4, 2)
    out = layer(torch.ones(1, 4))
    ```

    ## Exceptions

    `super().forward(x)` and `self.forward(x)`; a wrapper that passes on to a module that it was given; TorchScript.

    ## References

    - [torch.nn.Module.forward](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL106"
    name = "direct-forward-call"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "Calling `forward` by hand leaves out hooks and what wrappers do around it."

    @on_method("forward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        semantics = unit.semantics
        if semantics.class_of_self(receiver) is not None or semantics.local_class(receiver) is not None:
            return
        kind = semantics.kind(receiver)
        if kind is None or not kind.is_module or not kind.proven or _passes_on(receiver, kind.node, semantics):
            return
        if _is_scripted(call, semantics):
            return
        function = call.func
        written = ast.unparse(receiver)
        shown = f"`{written}(...)`" if len(written) <= 40 else "a call of the module"
        fix = FixPlan("Call the module", "unsafe", lambda edit: edit.replace(function, edit.source(receiver)))
        yield self.found(
            function,
            f"`forward` is called by hand: hooks do not run, {shown} runs them.",
            fixes=[fix],
        )


def _passes_on(receiver: ast.expr, made: ast.AST | None, semantics: Semantics) -> bool:
    """Whether a module that was not made in this file is called by the module that was given it: a wrapper."""
    if made is not None:
        return False
    owner = semantics.class_of_self(receiver.value) if isinstance(receiver, ast.Attribute) else None
    return owner is not None and (semantics.is_module_class(owner) or semantics.has_unknown_base(owner))


def _is_scripted(call: ast.Call, semantics: Semantics) -> bool:
    """Whether the function or its class is compiled by TorchScript."""
    function = enclosing_function(call)
    while function is not None:
        if any(semantics.is_named(decorator, *_SCRIPT) for decorator in function.decorator_list):
            return True
        owner = enclosing_class(function)
        if owner is not None and "torch.jit.ScriptModule" in semantics.ancestors(owner):
            return True
        function = enclosing_function(function)
    return False
