from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.expected_errors import is_expected_to_raise
from torchlint.idioms.training import statement_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.module import enclosing_function, scope_at
from torchlint.semantics.semantics import argument, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_OF_TRANSFORMERS = tuple(
    f"transformers.{name}"
    for name in (
        "get_constant_schedule_with_warmup",
        "get_cosine_schedule_with_warmup",
        "get_cosine_with_hard_restarts_schedule_with_warmup",
        "get_inverse_sqrt_schedule",
        "get_linear_schedule_with_warmup",
        "get_polynomial_decay_schedule_with_warmup",
        "get_scheduler",
    )
)
#: What only looks at a scheduler or carries it over a restart: the schedule does not move.
_LOOKS = frozenset(("state_dict", "load_state_dict", "get_last_lr", "get_lr", "last_epoch", "base_lrs", "_last_lr"))
#: Functions through which any variable may be read.
_READS_ALL = ("locals", "globals", "vars", "exec", "eval")


class UnusedScheduler(Rule):
    """## What it does

    Reports a learning rate scheduler that is built into a local variable and never stepped: nothing uses the variable,
    or only its state is saved and printed.

    ## Why is this bad?

    A scheduler changes the learning rate when its `step()` is called, and only then. The schedule that was written
    down does not happen, and nothing says so.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(90):
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(90):
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
            scheduler.step()
    ```

    ## Exceptions

    A scheduler that is returned, stored on an object or in a container, or given to anything; a name that says that it
    is not used (`_`); a variable of a module that other files may import.

    ## References

    - [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "TL223"
    name = "unused-scheduler"
    level = Level.WARNING
    summary = "The schedule that was built never changes the learning rate."

    @on_call(*torch_api.names_of_role("scheduler"), *_OF_TRANSFORMERS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        target = _bound_to(call)
        if target is None or is_expected_to_raise(call):
            return
        uses = _uses(target, unit)
        if uses is None or not all(_only_looks(use) for use in uses):
            return
        optimizer = argument(call, 0, "optimizer")
        shown = ast.unparse(optimizer) if isinstance(optimizer, ast.Name | ast.Attribute) else ""
        rate = f"the learning rate of `{shown}`" if shown else "the learning rate"
        if uses:
            message = f"`{target.id}` is looked at but never stepped: {rate} does not follow it."
        else:
            message = f"`{target.id}` is never used, so nothing steps it: {rate} does not follow it."
        yield self.found(call, message, related=[(use, "only looked at here") for use in uses[:3]])


def _bound_to(call: ast.Call) -> ast.Name | None:
    """The only name that a scheduler is bound to where it is built, if that does not say that it is unused."""
    node: ast.expr = call
    position: int | None = None
    holder = parent_of(node)
    while isinstance(holder, ast.IfExp | ast.Tuple):
        if isinstance(holder, ast.Tuple):
            if position is not None:
                return None
            position = holder.elts.index(node)
        node, holder = holder, parent_of(holder)
    match holder:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            pass
        case _:
            return None
    if position is not None:
        if not isinstance(target, ast.Tuple) or not isinstance(node, ast.Tuple):
            return None
        if len(target.elts) != len(node.elts):
            return None
        target = target.elts[position]
    return target if isinstance(target, ast.Name) and not target.id.startswith(("_", "unused")) else None


def _uses(target: ast.Name, unit: Unit) -> list[ast.Name] | None:
    """Where the value that is bound to a name is read; None where that cannot be told."""
    semantics = unit.semantics
    function = enclosing_function(target)
    if function is None:
        private = not scope_at(target).is_class and (unit.in_notebook or _is_script(target, unit))
        seen = any(map(semantics.module.reads_name, (target.id, *_READS_ALL)))
        return [] if private and not seen else None
    if target.id in scope_at(target).outer_names:
        return None
    names = [name for name in nodes_within(function, ast.Name) if isinstance(name, ast.Name)]
    if any(name.id in _READS_ALL for name in names):
        return None
    statement = statement_of(target)
    reads = (name for name in names if name.id == target.id and isinstance(name.ctx, ast.Load))
    return [name for name in reads if any(found.node is statement for found in semantics.definitions(name))]


def _is_script(target: ast.Name, unit: Unit) -> bool:
    """Whether a module trains in its own code, or builds an object only where it is run as a program."""
    current = parent_of(target)
    while current is not None:
        if isinstance(current, ast.If) and "__name__" in ast.unparse(current.test):
            return True
        current = parent_of(current)
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and enclosing_function(call) is None
        for call in unit.all(ast.Call)
    )


def _only_looks(use: ast.Name) -> bool:
    """Whether a use of a scheduler cannot step it: it reads its state or a rate, prints it, or asks if it is None."""
    match parent_of(use):
        case ast.Attribute(attr=name):
            return name in _LOOKS
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Call(func=ast.Name(id="print")) | ast.FormattedValue() | ast.Delete():
            return True
        case _:
            return False
