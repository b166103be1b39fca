from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.unit import Unit

_SWITCHES = frozenset(("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled"))


class NoGradOnClass(Rule):
    """## What it does

    Reports a class that is decorated with `torch.no_grad`, `torch.inference_mode`, `torch.enable_grad` or
    `torch.set_grad_enabled`.

    ## Why is this bad?

    The decorator wraps the call that makes an instance, and nothing else: the methods still build graphs. The name
    stands for a function afterwards, so that `isinstance` and subclasses fail. With `inference_mode` the parameters
    become inference tensors, which cannot be trained. torch warns that it will refuse this.

    ## Example

    ```python
    import torch
    from torch import nn


    @torch.no_grad()
    class Metric(nn.Module):
        def forward(self, output, target):
            return (output - target).abs().mean()
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    class Metric(nn.Module):
        @torch.no_grad()
        def forward(self, output, target):
            return (output - target).abs().mean()
    ```

    ## Exceptions

    Decorators of functions and methods, which are what these are for.

    ## References

    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [torch.inference_mode](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html)
    """

    code = "TL229"
    name = "no-grad-on-class"
    level = Level.ERROR
    summary = "On a class the decorator makes a function of it, and its methods still build graphs."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        for decorator in view.node.decorator_list:
            switch = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = unit.semantics.name(switch)
            if name not in _SWITCHES or is_expected_to_raise(view.node):
                continue
            short = name.removeprefix("torch.")
            effect = "its methods still build graphs"
            if short in ("enable_grad", "set_grad_enabled"):
                effect = "its methods run as their callers do"
            elif short == "inference_mode":
                effect += ", and its parameters become inference tensors"
            message = f"`{short}` on a class holds only while `{view.name}` is constructed: {effect}."
            yield self.found(decorator, message)
