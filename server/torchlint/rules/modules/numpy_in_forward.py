from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from torchlint import torch_api
from torchlint.idioms.values.creations import creation_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_module_class
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import is_static, nodes_within, shortened
from torchlint.semantics.scopes import Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: These look at a tensor without reading its elements (run with torch 2.13 and NumPy 2).
_LOOKS = frozenset("shape ndim size squeeze result_type can_cast iscomplexobj isrealobj".split())
#: Calls in an expression that take the data off the device on purpose, or leave tensors altogether.
_TAKEN_OFF = frozenset("cpu numpy tolist item".split())
#: Methods and attributes that only tensors have, not arrays.
_TENSOR_ONLY = frozenset(
    "size view unsqueeze permute cuda cpu to device dim detach contiguous is_cuda expand float long numel new_zeros "
    "type_as softmax".split()
)
#: Decorators that say that the graph is left on purpose.
_LEFT = frozenset("ignore unused disable no_grad inference_mode".split())
_NUMPY = frozenset({"numpy"})


class NumpyInForward(Rule):
    """## What it does

    Reports functions of NumPy that are given a tensor in the `forward` of a module or in a method that it calls.

    ## Why is this bad?

    NumPy works on arrays in host memory: the call raises for a tensor that needs gradients and for one on a GPU. Where
    it does not raise, what comes back has no history, so that nothing before it is trained, and `torch.compile` and
    exporters cannot follow.

    ## Example

    ```python
    import numpy as np
    from torch import nn


    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)

        def forward(self, x):
            return np.sqrt(self.fc(x) ** 2 + 1)
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)

        def forward(self, x):
            return torch.sqrt(self.fc(x) ** 2 + 1)
    ```

    ## Exceptions

    Arithmetic with shapes and constants (`np.sqrt(x.size(-1))`, `np.prod(x.shape)`, `np.pi`); tensors that are moved to
    the CPU in the call, as for the matching of a detector (`np.array(cost.detach().cpu())`), or made there; a test of
    the type around the call; code under `torch.no_grad` or `torch.jit.ignore`; `torch.autograd.Function`.

    ## References

    - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
    """

    code = "TL124"
    name = "numpy-in-forward"
    level = Level.WARNING
    summary = "NumPy cannot take tensors that need gradients or are on a GPU, and its results have no history."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        imported = view.semantics.module.imported_from(_NUMPY)
        if not imported:
            return
        for method in sorted(view.called_from("forward"), key=lambda one: one.lineno):
            if view.method(method.name) is not method or _leaves_graph(method):
                continue
            names = cast("Iterator[ast.Name]", nodes_within(method, ast.Name))
            for used in [name for name in names if name.id in imported]:
                call = _called_with(used)
                if call is not None:
                    yield from self._check_call(call, method, view)

    def _check_call(self, call: ast.Call, method: FunctionNode, view: ClassView) -> Iterator[Diagnosis]:
        name = view.semantics.name(call.func)
        head, _, tail = name.rpartition(".")
        if head not in ("numpy", "numpy.linalg", "numpy.fft") or tail in _LOOKS or tail[:1].isupper():
            return
        given = next((item for item in _given(call) if _is_tensor(item, method, view.semantics)), None)
        if given is None or _is_below_type_test(call, method):
            return
        written = ast.unparse(call.func)
        twin = f"torch.{name[len('numpy.') :]}"
        instead = f" `{twin}` stays in the graph." if torch_api.signature_of(twin) is not None else ""
        yield self.found(
            call,
            f"`{written}` gets the tensor `{shortened(given, 50)}` in `{view.name}.{method.name}`: it raises for a "
            f"tensor that needs gradients or is on a GPU.{instead}",
        )


def _called_with(used: ast.expr) -> ast.Call | None:
    """The call of ``np.linalg.norm`` around this ``np``."""
    holder = parent_of(used)
    while isinstance(holder, ast.Attribute):
        used, holder = holder, parent_of(holder)
    return holder if isinstance(holder, ast.Call) and holder.func is used else None


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, and the elements of those that are lists."""
    for item in call.args:
        if isinstance(item, ast.List | ast.Tuple):
            yield from item.elts
        else:
            yield item


def _is_tensor(expression: ast.expr, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether an argument is a tensor that may be anywhere and may need gradients."""
    kind = semantics.kind(expression)
    if kind is None or not kind.is_tensor or isinstance(expression, ast.Compare):
        return False
    value = semantics.value_of(expression)
    if value is None or creation_of(semantics, value) is not None:
        return False
    for node in (*ast.walk(expression), *ast.walk(value)):
        if isinstance(node, ast.Attribute) and node.attr in _TAKEN_OFF:
            return False
    return kind.proven or _is_used_as_tensor(expression, method, semantics)


def _is_used_as_tensor(expression: ast.expr, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether an input is used as only a tensor can be: a method of tensors is called on it, or a layer takes it."""
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - {first_parameter(method)}
    inputs = {item for item in names if _is_input(item, expression, semantics)}
    inputs -= {
        item.arg for item in method.args.args if item.arg in inputs and _is_given_tensors(item, method, semantics)
    }
    if not inputs:
        return True
    for node in nodes_within(method, ast.Name):
        if not isinstance(node, ast.Name) or node.id not in inputs:
            continue
        match parent_of(node):
            case ast.Attribute(attr=attribute) if attribute in _TENSOR_ONLY:
                return True
            case ast.Call(func=function, args=args) if node in args:
                kind = semantics.kind(function)
                if kind is not None and kind.is_module and kind.origin.startswith("torch.nn."):
                    return True
    return False


def _is_input(name: str, expression: ast.expr, semantics: Semantics) -> bool:
    uses = (node for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id == name)
    return any(item.kind is Binding.PARAMETER for use in uses for item in semantics.definitions(use))


def _is_given_tensors(parameter: ast.arg, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether a helper of ``forward`` is given what layers and functions of torch made, and nothing else."""
    if method.name == "forward":
        return False
    kinds = [semantics.kind(value) for value in semantics.given_for(parameter, method)]
    return bool(kinds) and all(kind is not None and kind.is_tensor and kind.proven for kind in kinds)


def _leaves_graph(method: FunctionNode) -> bool:
    """Whether a decorator says that the method is not part of what is trained, compiled or exported."""
    for decorator in method.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = last_name(target)
        if name in _LEFT or is_static(method):
            return True
    return False


def _is_below_type_test(node: ast.AST, method: FunctionNode) -> bool:
    """Whether a branch around the call asks what the value is, or the graph is left there."""
    holder = parent_of(node)
    while holder is not None and holder is not method:
        match holder:
            case ast.If(test=test) | ast.IfExp(test=test):
                text = ast.unparse(test)
                if "isinstance(" in text or "is_tensor(" in text or "numpy" in text or "is_tracing" in text:
                    return True
            case ast.With(items=items) if any("no_grad" in ast.unparse(item.context_expr) for item in items):
                return True
        holder = parent_of(holder)
    return False
