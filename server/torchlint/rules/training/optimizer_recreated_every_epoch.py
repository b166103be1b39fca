from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.construction import modules_given
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Followed, Loop, actions
from torchlint.semantics.nodes import (
    argument,
    contains,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    scope_at,
)
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_WITHOUT_STATE = frozenset(("torch.optim.LBFGS", "torch.optim.Optimizer"))
_OPTIMIZERS = tuple(
    name
    for name in torch_api.names_of_role("optimizer")
    if name.rpartition(".")[0] == "torch.optim" and name not in _WITHOUT_STATE
)
_EPOCH = regex(r"(^|_)(epochs?|ep|e)(_|\d|$)|epoch", re.IGNORECASE)
#: What puts a module back to where it was: each iteration is a training of its own.
_RESETS = frozenset(("load_state_dict", "reset_parameters", "reset", "apply"))
#: What an author says who starts anew on purpose.
_MEANT = regex(
    r"re-?start|re-?set|re-?init|fresh|from scratch|new optimi[sz]er|fold|client|round|task|warm|adapt", re.IGNORECASE
)


class OptimizerRecreatedEveryEpoch(Rule):
    """## What it does

    Reports an optimizer with state (Adam and its family, SGD with momentum) that is built anew in each epoch, or in a
    function that each epoch calls, for a module that lives on.

    ## Why is this bad?

    The optimizer's state is the running mean of the gradients and of their squares. A new optimizer has none: each
    epoch begins with badly scaled steps, as the first one did, and the momentum is lost. Training is slower and noisier
    than it could be.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        for epoch in range(90):
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 * 0.95**epoch)
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
    ```

    ## Use instead

    A scheduler, or a new value of `optimizer.param_groups[0]["lr"]`, changes the rate of one optimizer.

    ```python
    import torch


    def train(model: torch.nn.Module, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
        for epoch in range(90):
            for inputs, targets in loader:
                optimizer.zero_grad()
                criterion(model(inputs), targets).backward()
                optimizer.step()
            scheduler.step()
    ```

    ## Exceptions

    Plain SGD, which has no state; loops over folds, clients, tasks or trials, and those that freeze or unfreeze; a
    module that is made anew too; an optimizer that is built under a condition, whose state is loaded, or that a comment
    says to be reset.

    ## References

    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
    """

    code = "TL216"
    name = "optimizer-recreated-every-epoch"
    level = Level.WARNING
    summary = "Each epoch starts without the moments that the optimizer had gathered."

    @on_flow(*(name.rpartition(".")[2] for name in _OPTIMIZERS), also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for action in found.actions:
            if action.verb not in _OPTIMIZERS or not isinstance(action.node, ast.Call):
                continue
            loop = _epoch_loop(found, action) or _batch_loop(found, action)
            if loop is None or not _has_state(action.verb, action.node, unit) or not _trains(found, loop, action):
                continue
            if _is_conditional(found, action, loop) or is_stated(action.node, _MEANT):
                continue
            modules = _modules(found, action, root)
            if modules and all(_lives_on(found, module, loop, root) for module in modules):
                yield self._diagnosis(found, action, loop, min(modules))

    def _diagnosis(self, found: Training, action: Action, loop: Loop, module: str) -> Diagnosis:
        assert isinstance(action.node, ast.Call)
        name = action.verb.rpartition(".")[2]
        shown = module.rpartition(":")[2].lstrip("$%")
        when = "in each epoch" if _epoch_loop(found, action) is not None else "for each step"
        message = f"A new `{name}` for `{shown}` {when} starts without the state of the one before."
        related: list[tuple[ast.AST, str]] = [(loop.node, "once in each round of this loop")]
        calls = found.places[action].calls
        around = [call for call in calls if _is_in(loop, call)]
        if around:
            related.insert(0, (around[0].node, f"called here {when}"))
        return self.found(action.node, message, related=related)


def _is_in(loop: Loop, call: Followed) -> bool:
    """Whether a call stands in a loop of the same function."""
    return enclosing_function(call.node) is enclosing_function(loop.node) and contains(loop.node, call.node)


def _epoch_loop(found: Training, action: Action) -> Loop | None:
    """The innermost loop around an action, if it counts epochs."""
    loops = found.places[action].loops
    match loops[-1].node if loops else None:
        case ast.For(target=ast.Name(id=name)) if _EPOCH.search(name):
            return loops[-1]
        case ast.While(test=ast.Compare(left=ast.Name(id=name))) if _EPOCH.search(name):
            return loops[-1]
        case _:
            return None


def _batch_loop(found: Training, action: Action) -> Loop | None:
    """The innermost loop around an action, if each of its iterations takes one step with what is built in it: not a
    loop over tasks or settings, of which the optimizer or the module would know."""
    loops = found.places[action].loops
    loop = loops[-1] if loops else None
    if loop is None or not isinstance(loop.node, ast.For | ast.While) or not isinstance(action.node, ast.Call):
        return None
    inside = [item for item in actions(loop.body) if found.stepped(item) is not None or is_backward(item)]
    if any(found.places[item].loops[-1] is not loop for item in inside):
        return None
    if any(item.verb in _RESETS or "copy" in item.verb for item in actions(loop.body)):
        return None
    targets = nodes_within(loop.node.target, ast.Name) if isinstance(loop.node, ast.For) else ()
    chosen = {getattr(name, "id", "") for name in targets}
    given = [*action.node.args[1:], *(item.value for item in action.node.keywords)]
    settings = {getattr(name, "id", "") for value in given for name in nodes_within(value, ast.Name)}
    return loop if chosen.isdisjoint(settings) else None


def _has_state(name: str, call: ast.Call, unit: Unit) -> bool:
    """Whether what an optimizer gathers is lost with it: plain SGD gathers nothing."""
    if name != "torch.optim.SGD":
        return True
    momentum = argument(call, 2, "momentum")
    return momentum is not None and unit.semantics.literal(momentum) not in (0, 0.0)


def _trains(found: Training, loop: Loop, build: Action) -> bool:
    """Whether a loop has a backward pass and a step, and neither loads state into an optimizer nor unfreezes."""
    inside = list(actions(loop.body))
    loaded = any(
        action.verb in ("load_state_dict", "__setstate__")
        and action.receiver is not None
        and (action.receiver.kind is None or not action.receiver.kind.is_module)
        for action in inside
    )
    thawed = any(
        isinstance(node, ast.Attribute)
        and (node.attr == "requires_grad_" or (node.attr == "requires_grad" and isinstance(node.ctx, ast.Store)))
        for node in nodes_within(loop.node, ast.Attribute)
    )  # what is trained changes with the epochs
    return (
        not loaded
        and not thawed
        and any(map(is_backward, inside))
        and any(found.stepped(action) is not None for action in inside)
    )


def _is_conditional(found: Training, action: Action, loop: Loop) -> bool:
    """Whether not every round of a loop comes to an action. A test for an argument that the call does not give
    (``if optimizer is None``) always holds."""
    calls = found.places[action].calls
    call: Followed | None = None
    for node, call in ((action.node, calls[-1] if calls else None), *((c.node, None) for c in calls)):
        current = parent_of(node)
        child = node
        while current is not None and current is not loop.node:
            if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
                break
            if isinstance(current, ast.If) and child in current.body and _is_missing(current.test, call):
                child, current = current, parent_of(current)
                continue
            if isinstance(current, ast.If | ast.IfExp | ast.Try | ast.Match | ast.ExceptHandler | ast.BoolOp):
                return True
            child, current = current, parent_of(current)
        if current is loop.node:
            return False
    return False


def _is_missing(test: ast.expr, call: Followed | None) -> bool:
    """Whether a condition asks if an argument was given that a call does not give."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            pass
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            pass
        case _:
            return False
    if call is None or has_unknown_arguments(call.node):
        return False
    arguments = call.function.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if name not in names:
        return False
    position = names.index(name)
    return argument(call.node, position, name) is None and len(call.node.args) <= position


def _modules(found: Training, action: Action, root: Root) -> frozenset[str]:
    """The paths, at the root, of the modules whose parameters an optimizer gets; empty where one is not known."""
    given = action.arguments[0].path if action.arguments else ""
    if given.endswith(".parameters()"):
        return frozenset((given.removesuffix(".parameters()"),))
    assert isinstance(action.node, ast.Call)
    here = modules_given(found.semantics, action.node) or frozenset()
    return _as_the_caller_names(found, action, here) if found.places[action].calls else here


def _as_the_caller_names(found: Training, action: Action, here: frozenset[str]) -> frozenset[str]:
    """The modules of an optimizer that a followed function builds, as paths of the root: the receivers of the calls of
    ``parameters()`` among its arguments."""
    assert isinstance(action.node, ast.Call)
    given = found.semantics.value_of(action.node.args[0]) if action.node.args else None
    if given is None:
        return frozenset()
    receivers = {
        item.node: item.receiver.path
        for item in found.actions
        if item.verb in ("parameters", "named_parameters")
        and item.receiver is not None
        and found.places[item].calls == found.places[action].calls
        and contains(given, item.node)
    }
    paths = frozenset(receivers.values())
    return paths if all(paths) and len(receivers) == len(here) else frozenset()


def _lives_on(found: Training, path: str, loop: Loop, root: Root) -> bool:
    """Whether a module is the same one in each round of a loop."""
    if "[]" in path or "@" in path:
        return False
    semantics = found.semantics
    head, _, attribute = path.partition(".")
    if head == "self":
        owner = next((holder for holder in _classes(root) if attribute), None)
        first = attribute.partition(".")[0]
        writes = semantics.module.attribute_writes(owner, first) if owner is not None else ()
        return all(getattr(enclosing_function(write.target), "name", "") == "__init__" for write in writes)
    scope = scope_at(loop.node)
    name = head.lstrip("$%:")
    while scope is not None and name not in scope.definitions:
        if scope.parent is None:
            break
        scope = scope.parent
    bindings = scope.definitions.get(name, ())
    return not any(contains(loop.node, binding.node) for binding in bindings)


def _classes(root: Root) -> Iterator[ast.ClassDef]:
    holder = parent_of(root.function) if root.function is not None else None
    if isinstance(holder, ast.ClassDef):
        yield holder
