from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.modes import forwards
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop, actions, is_within
from torchlint.semantics.nodes import contains, enclosing_function, nodes_within, statement_of
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
            target = _kept_in(action.node)
            loop = _training_loop(found, action)
            if target is not None and loop is not None and _is_kept(unit, target, action.node, loop):
                yield self._diagnosis(action.node, target, loop)

    def _diagnosis(self, call: ast.Call, target: ast.expr, loop: Loop) -> Diagnosis:
        shown = ast.unparse(target)
        assert isinstance(call.func, ast.Attribute)
        module = ast.unparse(call.func.value)
        message = f"`{shown}` holds the parameters of `{module}` themselves, and each further step changes them."
        fix = FixPlan(f"Copy `{ast.unparse(call)}`", "safe", lambda edit: _copy(edit, call))
        return self.found(call, message, related=[(loop.node, "training goes on in this loop")], fixes=[fix])


def _kept_in(call: ast.Call) -> ast.Name | ast.Attribute | None:
    """What a state dict is assigned to as it is, by itself, in a copy that shares its values, or as a value of a
    dict."""
    node, parent = _shallow_copy(call), parent_of(_shallow_copy(call))
    if isinstance(parent, ast.Dict) and node in parent.values:
        parent = parent_of(parent)
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return target
        case _:
            return None


def _shallow_copy(call: ast.Call) -> ast.Call:
    """``state_dict().copy()`` and ``dict(state_dict())`` around a call, which copy no tensor; else the call."""
    match parent_of(call):
        case ast.Call(func=ast.Name(id="dict" | "OrderedDict"), args=[given], keywords=[]) as copy if given is call:
            return copy
        case ast.Attribute(attr="copy") as method:
            made = parent_of(method)
            return made if isinstance(made, ast.Call) and made.func is method and not made.args else call
        case _:
            return call


def _training_loop(found: Training, action: Action) -> Loop | None:
    """The innermost loop around an action in which there is a backward pass."""
    loops = found.places[action].loops
    return next((loop for loop in reversed(loops) if any(is_backward(inner) for inner in actions(loop.body))), None)


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
    edit.wrap(call, f"{edit.spell('copy.deepcopy')}(", ")")
