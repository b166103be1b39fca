from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.modes import forwards
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow, on_method
from torchlint.semantics.flow import Action, Loop, actions, is_within
from torchlint.semantics.nodes import contains, enclosing_function, nodes_within, statement_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of


class BestWeightsAliased(Rule):
    """## What it does

    Reports `best = model.state_dict()` that is kept while training goes on.

    ## Why is this bad?

    `state_dict()` does not copy: it holds the parameters themselves. The next `optimizer.step()` changes them in place,
    so that in the end "the best weights" are the last ones.

    ## Example

    ```python
    import copy

    import torch


    def train(model: torch.nn.Module, loader, optimizer, evaluate):
        best, best_score = None, 0.0
        for epoch in range(10):
            for x in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            score = evaluate(model)
            if score > best_score:
                best_score = score
                best = model.state_dict()
        model.load_state_dict(best)
    ```

    ## Use instead

    ```python
    import copy

    import torch


    def train(model: torch.nn.Module, loader, optimizer, evaluate):
        best, best_score = None, 0.0
        for epoch in range(10):
            for x in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            score = evaluate(model)
            if score > best_score:
                best_score = score
                best = copy.deepcopy(model.state_dict())
        model.load_state_dict(best)
    ```

    ## Exceptions

    A state dict that is saved or used up in the same iteration, copied (`deepcopy`, `clone()`), or followed by the end
    of the training.

    ## References

    - [Module.state_dict](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.state_dict)
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL211"
    name = "best-weights-aliased"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "The weights that are kept as the best change with every further step."

    @on_flow("state_dict", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains:
            return
        modules = {run.module.path for run in forwards(found)}
        modules |= {path for optimizer in found.optimizers for path in optimizer.modules or ()}
        for action in found.actions:
            if action.verb != "state_dict" or action.receiver is None or not isinstance(action.node, ast.Call):
                continue
            kind, path = action.receiver.kind, action.receiver.path
            trained = any(is_within(path, module) for module in modules)
            if not trained and not (kind is not None and kind.is_module):
                continue
            target = _kept_in(unit.semantics, action.node)
            loop = _training_loop(found, action)
            holder = _stored_in(unit.semantics, action.node) if target is None and loop is not None else None
            if holder is not None and loop is not None and _is_stored(unit, holder, action.node, loop):
                yield self._diagnosis(action.node, holder, (loop.node, "training goes on in this loop"))
            if target is None or _put_back(unit.semantics, action.node) is not None:
                continue
            if loop is not None and _is_kept(unit, target, action.node, loop):
                yield self._diagnosis(action.node, target, (loop.node, "training goes on in this loop"))
            elif loop is None and isinstance(target, ast.Name) and (restored := _restored(found, action, target)):
                yield self._diagnosis(action.node, target, (restored.node, "put back after training here"))

    @on_method("state_dict")
    def check_stopper(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        restored, target = _put_back(unit.semantics, call), _kept_in(unit.semantics, call)
        if restored is not None and target is not None:
            yield self._diagnosis(call, target, (restored, "put back here"))

    def _diagnosis(self, call: ast.Call, target: ast.expr, related: tuple[ast.AST, str]) -> Diagnosis:
        shown = ast.unparse(target)
        assert isinstance(call.func, ast.Attribute)
        module = ast.unparse(call.func.value)
        message = f"`{shown}` holds the parameters of `{module}` themselves, and each further step changes them."
        fix = FixPlan(f"Copy `{ast.unparse(call)}`", "safe", lambda edit: _copy(edit, call))
        return self.found(call, message, related=[related], fixes=[fix])


def _restored(found: Training, taken: Action, target: ast.Name) -> Action | None:
    """Where a state dict that was taken before training is put back into its module, after a step of the training or
    in an iteration of it."""
    position = found.actions.index(taken)
    trained: list[ast.AST] = []
    for action in found.actions[position + 1 :]:
        loops = [loop.node for loop in found.places[action].loops]
        if is_backward(action):
            trained += loops
        if action.verb != "load_state_dict" or not isinstance(action.node, ast.Call) or not action.node.args:
            continue
        given, module = action.node.args[0], action.receiver
        if module is None or taken.receiver is None or module.path != taken.receiver.path:
            continue
        if not isinstance(given, ast.Name) or given.id != target.id:
            continue
        definitions = found.semantics.definitions(given)
        values = [item.value for item in definitions]
        is_taken = any(value is not None and contains(value, taken.node) for value in values)
        is_taken = is_taken and all(value is not None and _is_alias(found.semantics, value) for value in values)
        if is_taken and (trained or any(map(_has_backward, found.places[action].loops))):
            return action
    return None


def _has_backward(loop: Loop) -> bool:
    return any(is_backward(inner) for inner in actions(loop.body))


def _put_back(semantics: Semantics, call: ast.Call) -> ast.Call | None:
    """Where the file loads what a method keeps on ``self`` of a model that it is given, if that is better than before:
    it trains in between, wherever that is."""
    function = enclosing_function(call)
    kept = _kept_on_self(semantics, call)
    if function is None or not kept:
        return None
    calls = (node for node in nodes_within(function, ast.Call) if isinstance(node, ast.Call))
    others = (node for node in calls if getattr(node.func, "attr", "") == "state_dict")
    if not any(_kept_on_self(semantics, other) == kept and _is_improvement(other) for other in others):
        return None
    for load in semantics.module.calls_of("load_state_dict"):
        if load.args and isinstance(load.args[0], ast.Attribute) and load.args[0].attr == kept:
            return load
    return None


def _kept_on_self(semantics: Semantics, call: ast.Call) -> str:
    """The attribute of ``self`` that keeps the state dict of a parameter of the method."""
    target = _kept_in(semantics, call)
    owner = semantics.class_of_self(target.value) if isinstance(target, ast.Attribute) else None
    model = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(target, ast.Attribute) or owner is None or not isinstance(model, ast.Name):
        return ""
    given = all(definition.kind is Binding.PARAMETER for definition in semantics.definitions(model))
    return target.attr if given else ""


def _is_improvement(call: ast.Call) -> bool:
    """Whether a call runs, or does not, because one number is greater than another."""
    current = parent_of(call)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.If):
            tests = (test for test in nodes_within(current.test, ast.Compare) if isinstance(test, ast.Compare))
            if any(
                isinstance(operator, ast.Lt | ast.Gt | ast.LtE | ast.GtE) for test in tests for operator in test.ops
            ):
                return True
        current = parent_of(current)
    return False


def _is_alias(semantics: Semantics, value: ast.expr) -> bool:
    """Whether a value is the state of a module as it is, by itself or in a copy that shares its values."""
    calls = (call for call in nodes_within(value, ast.Call) if isinstance(call, ast.Call))
    states = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "state_dict")
    return any(_shallow_copy(semantics, call) is value for call in states)


def _kept_in(semantics: Semantics, call: ast.Call) -> ast.Name | ast.Attribute | None:
    """What a state dict is assigned to as it is, by itself, in a copy that shares its values, or as a value of a
    dict."""
    node = _shallow_copy(semantics, call)
    parent = parent_of(node)
    if parent is not None and _is_part(node, parent):
        parent = parent_of(parent)
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return target
        case _:
            return None


def _is_part(node: ast.AST, display: ast.AST) -> bool:
    """Whether a dict, tuple or list that is written out has something in it."""
    return (isinstance(display, ast.Dict) and node in display.values) or (
        isinstance(display, ast.Tuple | ast.List) and node in display.elts
    )


def _stored_in(semantics: Semantics, call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The list or dict that a state dict is put into: ``states.append(net.state_dict())``, ``best["net"] = ...``."""
    node = _shallow_copy(semantics, call)
    parent = parent_of(node)
    if parent is not None and _is_part(node, parent):
        parent = parent_of(parent)
    match parent:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name() | ast.Attribute() as holder)]):
            return holder
        case ast.Call(func=ast.Attribute(attr="append", value=ast.Name() | ast.Attribute() as holder)):
            return holder
        case _:
            return None


def _is_stored(unit: Unit, holder: ast.Name | ast.Attribute, call: ast.Call, loop: Loop) -> bool:
    """Whether a list or dict lives longer than a loop, which neither uses nor saves what is in it, and is read after
    it; and the module lives as long."""
    semantics, shown = unit.semantics, ast.unparse(holder)
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(module, ast.Name | ast.Attribute) or _is_made_in(semantics, module, loop):
        return False
    if _is_made_in(semantics, holder, loop):
        return False
    for use in nodes_within(loop.node, type(holder)):
        if ast.unparse(use) == shown and use is not holder and not _only_grows(use):
            return False
    if isinstance(holder, ast.Attribute):
        loads = semantics.module.calls_of("load_state_dict")
        return any(ast.unparse(node) == shown for load in loads for node in nodes_within(load, ast.Attribute))
    function = enclosing_function(call)
    if enclosing_function(loop.node) is not function:
        return False
    names = nodes_within(function, ast.Name) if function is not None else unit.all(ast.Name)
    reads = [name for name in names if isinstance(name, ast.Name) and name.id == shown]
    return any(isinstance(name.ctx, ast.Load) and not contains(loop.node, name) for name in reads)


def _is_made_in(semantics: Semantics, expression: ast.Name | ast.Attribute, loop: Loop) -> bool:
    """Whether a loop binds a name or attribute."""
    if isinstance(expression, ast.Name):
        bindings = semantics.definitions(expression)
        return not bindings or any(contains(loop.node, binding.node) for binding in bindings)
    writes = (node for node in nodes_within(loop.node, ast.Attribute) if isinstance(node, ast.Attribute))
    return any(isinstance(write.ctx, ast.Store) and write.attr == expression.attr for write in writes)


def _only_grows(use: ast.AST) -> bool:
    """``states.append(...)``, ``states[i] = ...`` and ``len(states)``."""
    parent = parent_of(use)
    match parent:
        case ast.Attribute(attr="append") | ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Subscript():
            return isinstance(parent_of(parent), ast.Compare)
        case ast.Call(func=ast.Name(id="len")):
            return True
        case _:
            return False


def _shallow_copy(semantics: Semantics, call: ast.Call) -> ast.Call:
    """``state_dict().copy()`` and ``dict(state_dict())`` around a call, which copy no tensor; else the call."""
    match parent_of(call):
        case ast.Call(func=function, args=[given]) as copy if given is call:
            is_copy = semantics.is_named(function, "copy.copy", "collections.OrderedDict")
            return copy if is_copy or getattr(function, "id", "") in ("dict", "OrderedDict") else call
        case ast.Attribute(attr="copy") as method:
            made = parent_of(method)
            return made if isinstance(made, ast.Call) and made.func is method and not made.args else call
        case _:
            return call


def _training_loop(found: Training, action: Action) -> Loop | None:
    """The innermost loop around an action in which there is a backward pass."""
    loops = found.places[action].loops
    return next((loop for loop in reversed(loops) if _has_backward(loop)), None)


def _is_kept(unit: Unit, target: ast.Name | ast.Attribute, call: ast.Call, loop: Loop) -> bool:
    """Whether what was assigned is read after the loop; an attribute of ``self`` may always be."""
    if isinstance(unit.semantics.block_of(statement_of(call))[-1], ast.Break | ast.Return | ast.Raise):
        return False
    if isinstance(target, ast.Attribute):
        return isinstance(target.value, ast.Name) and target.value.id == "self"
    function = enclosing_function(call)
    if enclosing_function(loop.node) is not function:
        return False
    names = nodes_within(function, ast.Name) if function is not None else unit.all(ast.Name)
    return any(
        isinstance(name, ast.Name)
        and name.id == target.id
        and isinstance(name.ctx, ast.Load)
        and not contains(loop.node, name)
        and any(d.value is not None and contains(d.value, call) for d in unit.semantics.definitions(name))
        for name in names
    )


def _copy(edit: Editor, call: ast.Call) -> None:
    match parent_of(call):
        case ast.Call(func=ast.Name(id="copy") | ast.Attribute(attr="copy") as function) as copy if call in copy.args:
            edit.replace(function, edit.spell("copy.deepcopy"))  # ``copy.copy(model.state_dict())``
        case _:
            edit.wrap(call, f"{edit.spell('copy.deepcopy')}(", ")")
