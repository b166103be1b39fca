from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.modules.module_uses import gives_self
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, scope_at, statement_of
from torchlint.semantics.semantics import Semantics
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
    or only its state is saved and printed. Also one that a program keeps in an attribute of a class of its own, which
    nothing in the program reads.

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
        uses = _uses(target, unit) if isinstance(target, ast.Name) else _uses_of_attribute(target, unit)
        if uses is None or not all(_only_looks(use) for use in uses):
            return
        name = ast.unparse(target)
        optimizer = argument(call, 0, "optimizer")
        shown = ast.unparse(optimizer) if isinstance(optimizer, ast.Name | ast.Attribute) else ""
        rate = f"the learning rate of `{shown}`" if shown else "the learning rate"
        if uses:
            message = f"`{name}` is looked at but never stepped: {rate} does not follow it."
        else:
            message = f"`{name}` is never used, so nothing steps it: {rate} does not follow it."
        yield self.found(call, message, related=[(use, "only looked at here") for use in uses[:3]])


def _bound_to(call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The only name, or attribute, that a scheduler is bound to where it is built, if that does not say that it is
    unused."""
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
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) if not name.startswith(("_", "unused")):
            return target
        case _:
            return None


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


def _uses_of_attribute(target: ast.Attribute, unit: Unit) -> list[ast.Name] | None:
    """No uses, where a program keeps the scheduler on an object of its own class, which runs the training, and nothing
    in the file reads such an attribute; else None."""
    semantics = unit.semantics
    module = semantics.module
    owner = semantics.class_of_self(target.value)
    if owner is None or semantics.has_unknown_base(owner) or semantics.is_module_class(owner):
        return None
    built = [call for call in module.calls_of(owner.name) if semantics.local_class(call.func) is owner]
    if module.is_base(owner.name) or not built or not all(_stays_here(call, semantics) for call in built):
        return None
    if not unit.in_notebook and not module.reads_name("__name__"):
        return None
    if any(map(module.reads_attribute, (target.attr, "__dict__"))):
        return None
    if any(map(module.mentions_call, ("getattr", "attrgetter"))) or any(map(module.reads_name, _READS_ALL)):
        return None
    methods = module.methods(owner)
    if any(gives_self(method) for method in methods):
        return None
    calls = (call for method in methods for call in nodes_within(method, ast.Call))
    trains = any(isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "backward" for call in calls)
    return [] if trains else None


def _stays_here(build: ast.Call, semantics: Semantics) -> bool:
    """Whether an object is only asked for its attributes and methods."""
    match parent_of(build):
        case ast.Attribute():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return all(isinstance(parent_of(use), ast.Attribute) for use in semantics.module.uses_of_name(name))
        case _:
            return False


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
