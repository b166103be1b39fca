from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_method
from torchlint.semantics.module import enclosing_function
from torchlint.semantics.semantics import Semantics, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_DDP = "torch.nn.parallel.DistributedDataParallel"
#: What cuts a value off from its graph.
_CUT = frozenset(("detach", "item", "tolist", "numpy", "data"))


class ForwardBypassesDdp(Rule):
    """## What it does

    Reports `ddp.module(x)` and `ddp.module.forward(x)`, where `ddp` is a `DistributedDataParallel`, if what it gives is
    backpropagated in the same function.

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

    Evaluation and generation, which backpropagate nothing; other attributes (`ddp.module.config`); inside `no_sync()`;
    code that reduces gradients itself.

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
        semantics = unit.semantics
        kind = semantics.kind(wrapper)
        if kind is None or kind.origin != _DDP or _is_in_no_sync(call) or _reduces_itself(semantics):
            return
        backward = _backward_of(call, unit)
        if backward is None:
            return
        shown = ast.unparse(wrapper)
        called = ast.unparse(call.func)
        message = f"`{called}` goes around `DistributedDataParallel`: its gradients are not reduced over ranks."
        fix = FixPlan(f"Call `{shown}`", "unsafe", lambda edit: edit.replace(call.func, edit.source(wrapper)))
        yield self.found(call, message, related=[(backward, "backpropagated here")], fixes=[fix])


def _is_in_no_sync(call: ast.Call) -> bool:
    holder = parent_of(call)
    while holder is not None:
        if isinstance(holder, ast.With) and any("no_sync" in ast.unparse(item.context_expr) for item in holder.items):
            return True
        holder = parent_of(holder)
    return False


def _reduces_itself(semantics: Semantics) -> bool:
    """Whether the file reduces gradients by hand."""
    calls = (*semantics.module.calls_of("all_reduce"), *semantics.module.calls_of("all_reduce_coalesced"))
    return any("grad" in ast.unparse(item) for call in calls for item in call.args)


def _backward_of(call: ast.Call, unit: Unit) -> ast.Call | None:
    """The backward pass of the same function that a call's result reaches through names."""
    function = enclosing_function(call)

    def around(*types: type[ast.AST]) -> list[ast.AST]:
        return list(nodes_within(function, *types) if function is not None else unit.all(*types))

    reached: set[str] = set()
    assignments = around(ast.Assign, ast.AugAssign, ast.AnnAssign)
    for _ in range(4):
        before = len(reached)
        for statement in assignments:
            assert isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
            if statement.value is not None and _carries(statement.value, call, reached):
                reached |= set(_targets(statement))
        if len(reached) == before:
            break
    for other in around(ast.Call):
        assert isinstance(other, ast.Call)
        match other.func:
            case ast.Attribute(attr="backward", value=value):
                if _carries(value, call, reached) or any(_carries(item, call, reached) for item in other.args):
                    return other
    return None


def _targets(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        for element in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(element, ast.Name):
                yield element.id


def _carries(value: ast.expr, call: ast.Call, reached: set[str]) -> bool:
    """Whether an expression holds the call, or a name it reached, with its graph."""
    for node in ast.walk(value):
        held = node is call or (isinstance(node, ast.Name) and node.id in reached)
        if held and not _is_cut(node, value):
            return True
    return False


def _is_cut(node: ast.AST, within: ast.expr) -> bool:
    current: ast.AST | None = node
    while current is not None and current is not within:
        current = parent_of(current)
        if isinstance(current, ast.Attribute) and current.attr in _CUT:
            return True
    return False
