from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.surroundings.called_code import function_run_by, is_decorated
from torchlint.idioms.values.tensor_values import TensorValues
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

#: Functions that ask whether the code is being traced or exported: the author knows.
_ASKS = frozenset(("is_tracing", "is_scripting", "is_in_onnx_export", "is_exporting"))
_KEEPS_CONTROL_FLOW = ("torch.jit.script", "torch.jit.script_method", "torch.jit.ignore", "torch.jit.unused")
_MOST_FUNCTIONS = 30


@dataclass(frozen=True, eq=False, slots=True)
class _Traced:
    """A function that runs under the trace, and its parameters that are certainly tensors."""

    function: FunctionNode
    tensors: frozenset[ast.arg]


class TraceControlFlow(Rule):
    """## What it does

    Reports `torch.jit.trace` of a module or function of the file that branches on the values of a tensor.

    ## Why is this bad?

    A trace records the operations that the example input leads through. The test itself is not recorded: for every
    other input the traced module takes the same branch, and gives wrong results without an error. (PyTorch warns
    "Converting a tensor to a Python boolean might cause the trace to be incorrect".) Use `torch.where`, script the part
    that decides with `torch.jit.script`, or export with `torch.export` and `torch.cond`.

    ## Example

    ```python
    import torch
    from torch import nn


    class Gate(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x


    traced = torch.jit.trace(Gate(), torch.rand(3))
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    class Gate(nn.Module):
        def forward(self, x):
            return torch.where(x.sum() > 0, x, -x)


    traced = torch.jit.trace(Gate(), torch.rand(3))
    ```

    ## Exceptions

    Tests of shapes, dtypes, `None` and flags; branches that only raise or report; code that asks
    `torch.jit.is_tracing()`; functions under `torch.jit.script`.

    ## References

    - [torch.jit.trace](https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html)
    """

    code = "TL710"
    name = "trace-control-flow"
    level = Level.WARNING
    summary = "A trace keeps only the branch that the example input took."

    @on_call("torch.jit.trace")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        subject = argument(call, 0, "func")
        start = function_run_by(subject, semantics)
        if subject is None or start is None:
            return
        example = argument(call, 1, "example_inputs")
        for traced in _traced(_Traced(start, _examples(start, example)), semantics):
            branch = _branch_on_values(traced, semantics)
            if branch is not None:
                test = ast.unparse(branch.iter if isinstance(branch, ast.For) else branch.test)
                shown = test if len(test) < 60 else "a test"
                does, kept = "branches on the values", "branch that the example takes"
                if isinstance(branch, ast.For):
                    does, kept = "loops by the value", "number of rounds that the example has"
                message = f"`{traced.function.name}` {does} of a tensor (`{shown}`): the trace keeps only the {kept}."
                yield self.found(call, message, related=[(branch, "this test is not recorded")])
                return


def _examples(function: FunctionNode, example: ast.expr | None) -> frozenset[ast.arg]:
    """The parameters for which the trace has an example: the first, or as many as a literal tuple has elements."""
    count = len(example.elts) if isinstance(example, ast.Tuple) else 1
    return frozenset(_parameters(function)[:count])


def _parameters(function: FunctionNode) -> list[ast.arg]:
    found = [*function.args.posonlyargs, *function.args.args]
    return found[1:] if found and found[0].arg == "self" else found


def _traced(start: _Traced, semantics: Semantics) -> Iterator[_Traced]:
    """A traced function and the functions and modules of the file that it calls."""
    queue, seen = [start], set[FunctionNode]()
    while queue and len(seen) < _MOST_FUNCTIONS:
        traced = queue.pop(0)
        function = traced.function
        if function in seen or _is_left_alone(function, semantics):
            continue
        seen.add(function)
        yield traced
        values = TensorValues(semantics, traced.tensors)
        for call in nodes_within(function, ast.Call):
            if isinstance(call, ast.Call):
                called = function_run_by(call.func, semantics)
                if called is not None:
                    queue.append(_Traced(called, _given(called, call, values)))


def _given(function: FunctionNode, call: ast.Call, values: TensorValues) -> frozenset[ast.arg]:
    """The parameters that a call gives tensors for."""
    parameters = _parameters(function)
    by_name = {parameter.arg: parameter for parameter in parameters}
    pairs = [*zip(parameters, call.args, strict=False)]
    pairs += [(by_name[item.arg], item.value) for item in call.keywords if item.arg in by_name]
    return frozenset(parameter for parameter, value in pairs if values.is_tensor(value))


def _is_left_alone(function: FunctionNode, semantics: Semantics) -> bool:
    if is_decorated(function, semantics, *_KEEPS_CONTROL_FLOW):
        return True
    return any(
        isinstance(call, ast.Call) and last_name(call.func) in _ASKS for call in nodes_within(function, ast.Call)
    )


def _branch_on_values(traced: _Traced, semantics: Semantics) -> ast.If | ast.While | ast.IfExp | ast.For | None:
    values = TensorValues(semantics, traced.tensors)
    for branch in nodes_within(traced.function, ast.If, ast.While, ast.IfExp, ast.For):
        if isinstance(branch, ast.For) and _is_counted(branch.iter, values):
            return branch
        if not isinstance(branch, ast.If | ast.While | ast.IfExp) or enclosing_function(branch) is not traced.function:
            continue
        if values.decides(branch.test) and not _only_reports(branch):
            return branch
    return None


def _is_counted(iterable: ast.expr, values: TensorValues) -> bool:
    """Whether a loop runs as often as a tensor says: ``range(int(n))``."""
    if not isinstance(iterable, ast.Call) or builtin_called(values.semantics, iterable) != "range":
        return False
    return any(values.is_number(bound) for bound in iterable.args)


def _only_reports(branch: ast.If | ast.While | ast.IfExp) -> bool:
    """Whether a branch only raises, prints or warns, which changes no result."""
    return (
        isinstance(branch, ast.If)
        and not branch.orelse
        and all(isinstance(item, ast.Raise | ast.Pass) or _is_report(item) for item in branch.body)
    )


def _is_report(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in ("warn", "warning", "info", "debug", "error", "set_trace", "append")
        case _:
            return False
