from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchlint.idioms.training.replicas import is_ddp, is_in_no_sync
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_method
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: What cuts a value off from its graph.
_CUT = frozenset(("detach", "item", "tolist", "numpy", "data"))

_NO_GRAD = ("torch.no_grad", "torch.inference_mode")
_LONGEST_CHAIN = 8
_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign)


class ForwardBypassesDdp(Rule):
    """## What it does

    Reports `ddp.module(x)`, `ddp.module.forward(x)`, and a call of a name that was bound to `ddp.module`, where `ddp`
    is a `DistributedDataParallel`, if what it gives is backpropagated in the same function or in a caller.

    ## Why is this bad?

    The forward pass of the wrapper prepares the reduction of gradients. Around it the backward pass reduces nothing:
    each rank steps by its own gradients, and the replicas drift apart without an error.

    ## Example

    ```python
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net)
    for x, y in loader:
        loss = criterion(model.module(x), y)
        loss.backward()
    ```

    ## Use instead

    ```python
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
    ```

    ## Exceptions

    Evaluation and generation, which backpropagate nothing or run under `no_grad`; other attributes
    (`ddp.module.config`); inside `no_sync()`; code that reduces gradients itself.

    ## References

    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL803"
    name = "forward-bypasses-ddp"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A forward pass around the wrapper reduces no gradients: the replicas drift apart."

    @on_method("module", "forward")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        match call.func:
            case ast.Attribute(attr="module", value=wrapper):
                pass
            case ast.Attribute(attr="forward", value=ast.Attribute(attr="module", value=wrapper)):
                pass
            case _:
                return
        if is_ddp(unit.semantics, wrapper):
            yield from self._check(call, wrapper, unit)

    @on_assignment(to=(ast.Name,), of=(ast.Attribute,))
    def check_alias(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="module", value=wrapper)):
                pass
            case _:
                return
        if not is_ddp(unit.semantics, wrapper):
            return
        for call in unit.all(ast.Call):
            if not isinstance(call.func, ast.Name) or call.func.id != name:
                continue
            if any(definition.node is statement for definition in unit.semantics.definitions(call.func)):
                yield from self._check(call, wrapper, unit)

    def _check(self, call: ast.Call, wrapper: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if is_in_no_sync(call) or _reduces_itself(semantics) or _is_without_grad(call, semantics):
            return
        backward = _backward_of(call, unit) or _backward_in_caller(call, semantics)
        if backward is None:
            return
        shown = ast.unparse(wrapper)
        called = ast.unparse(call.func)
        message = f"`{called}` goes around `DistributedDataParallel`: its gradients are not reduced over ranks."
        fix = FixPlan(f"Call `{shown}`", "unsafe", lambda edit: edit.replace(call.func, edit.source(wrapper)))
        yield self.found(call, message, related=[(backward, "backpropagated here")], fixes=[fix])


def _reduces_itself(semantics: Semantics) -> bool:
    """Whether the file reduces gradients by hand."""
    calls = (*semantics.module.calls_of("all_reduce"), *semantics.module.calls_of("all_reduce_coalesced"))
    return any("grad" in ast.unparse(item) for call in calls for item in call.args)


def _is_without_grad(call: ast.Call, semantics: Semantics) -> bool:
    """Whether a call is made where no graph is built."""
    holder = parent_of(call)
    while holder is not None:
        contexts: list[ast.expr] = []
        if isinstance(holder, ast.With):
            contexts = [item.context_expr for item in holder.items]
        elif isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
            contexts = holder.decorator_list
        if any(semantics.is_named(c.func if isinstance(c, ast.Call) else c, *_NO_GRAD) for c in contexts):
            return True
        holder = parent_of(holder)
    return False


def _backward_of(call: ast.Call, unit: Unit) -> ast.Call | None:
    """The backward pass of the same function that a call's result reaches through names."""
    function = enclosing_function(call)
    calls = nodes_within(function, ast.Call) if function is not None else unit.all(ast.Call)
    assignments = nodes_within(function, *_ASSIGNMENTS) if function is not None else unit.all(*_ASSIGNMENTS)
    return _Reached(call, assignments, unit.semantics).backward(calls)


def _backward_in_caller(call: ast.Call, semantics: Semantics) -> ast.Call | None:
    """The backward pass in a caller of the function that returns a call's result (``loss = self.compute_loss(batch)``,
    then ``loss.backward()``)."""
    function = enclosing_function(call)
    if function is None:
        return None
    reached = _Reached(call, nodes_within(function, *_ASSIGNMENTS), semantics)
    if not any(map(reached.carries, semantics.returned_values(function))):
        return None
    for outer in semantics.callers(function):
        caller = enclosing_function(outer)
        if caller is None or caller is function or _is_without_grad(outer, semantics) or is_in_no_sync(outer):
            continue
        found = _Reached(outer, nodes_within(caller, *_ASSIGNMENTS), semantics)
        backward = found.backward(nodes_within(caller, ast.Call))
        if backward is not None:
            return backward
    return None


class _Reached:
    """The assignments of a function that hold the result of a call, with its graph."""

    def __init__(self, call: ast.Call, assignments: Iterable[ast.AST], semantics: Semantics) -> None:
        self._call = call
        self._semantics = semantics
        self._statements: set[ast.AST] = set()
        candidates = list(assignments)
        for _ in range(_LONGEST_CHAIN):
            found = [item for item in candidates if item not in self._statements and self._is_reached(item)]
            if not found:
                break
            self._statements.update(found)

    def _is_reached(self, statement: ast.AST) -> bool:
        value = getattr(statement, "value", None)
        if value is None:
            return False
        return self.carries(value) or _adds_to_reached(statement, self._statements, self._semantics)

    def carries(self, value: ast.expr) -> bool:
        """Whether an expression holds the call, or a name that is bound to what it gave, with its graph."""
        for node in ast.walk(value):
            holds = node is self._call or (
                isinstance(node, ast.Name) and _is_bound_by(node, self._statements, self._semantics)
            )
            if holds and not _is_cut(node, value):
                return True
        return False

    def backward(self, calls: Iterable[ast.AST]) -> ast.Call | None:
        """The first backward pass of what carries the result."""
        for other in calls:
            match other:
                case ast.Call(func=ast.Attribute(attr="backward", value=value), args=given):
                    if self.carries(value) or any(map(self.carries, given)):
                        return other
        return None


def _is_bound_by(name: ast.Name, statements: set[ast.AST], semantics: Semantics) -> bool:
    if not statements or not isinstance(name.ctx, ast.Load):
        return False
    return any(definition.node in statements for definition in semantics.definitions(name))


def _adds_to_reached(statement: ast.AST, reached: set[ast.AST], semantics: Semantics) -> bool:
    """Whether ``total += x`` adds to a name that holds the result already."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return False
    bindings = semantics.bindings(statement.target)
    return any(binding.node in reached and binding.node is not statement for binding in bindings)


def _is_cut(node: ast.AST, within: ast.expr) -> bool:
    current: ast.AST | None = node
    while current is not None and current is not within:
        current = parent_of(current)
        if isinstance(current, ast.Attribute) and current.attr in _CUT:
            return True
    return False
