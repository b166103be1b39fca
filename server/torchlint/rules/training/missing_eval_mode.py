from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchlint import torch_api
from torchlint.finding import Severity
from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training import modes
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.evaluations import may_evaluate
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.modes import evaluation_loop, is_without_grad, mode_dependent_layer
from torchlint.idioms.training.paths import path_when_returned
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop, Ref, actions, is_within
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.scopes import dotted
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_ANY, _TRAINING, _EVALUATING = "unknown", "training", "evaluating"
_EVALUATES = "evaluates"
_TABLE = Automaton(
    start=_ANY,
    moves={
        **{(state, modes.TRAIN): _TRAINING for state in (_ANY, _EVALUATING)},
        **{(state, modes.EVAL): _EVALUATING for state in (_ANY, _TRAINING)},
        **{(state, modes.UNKNOWN): _ANY for state in (_TRAINING, _EVALUATING)},
    },
    wrong={(_TRAINING, _EVALUATES): "training mode"},
)
#: Evaluations that want training mode, or that are none.
_ON_PURPOSE = regex(
    r"mc_|monte|dropout|uncertain|ensembl|teacher|ema|momentum|target|sampl|generat|bn|batch_?norm|swa|calib|adapt|pseudo"
    r"|rollout|collect|warm|discrim|gan|netg|\bg\b|latent|embed|memory_bank|feature_bank|cluster",
    re.IGNORECASE,
)
#: What a comment says that wants it.
_STATED = regex(r"monte.?carlo|mc.?dropout|dropout\b.{0,20}\b(on|active|enabled)\b|uncertaint", re.IGNORECASE)
#: Functions that evaluate for certain, whatever stands in them; ``test_`` is a unit test.
_EVALUATES_DATA = regex(r"(^|_)(evaluate|evaluation|validate|validation|eval|val)(_|$)|^test(_(epoch|model|loop))?$")


class MissingEvalMode(Rule):
    """## What it does

    Reports a model with dropout, batch normalization or the like that is evaluated while it is in training mode.

    ## Why is this bad?

    In training mode dropout drops activations at random and batch normalization uses the statistics of the batch at
    hand, and updates its running ones from validation data: results are noisy, too low, and depend on the batch size.
    `torch.no_grad()` does not change the mode.

    ## Example

    ```python
    import torch
    from torch import nn


    def main(train_loader, test_loader, criterion):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()
        correct = 0
        with torch.no_grad():
            for inputs, targets in test_loader:
                correct += (model(inputs).argmax(1) == targets).sum().item()
        print(correct)
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn


    def main(train_loader, test_loader, criterion):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()
        correct = 0
        model.eval()
        with torch.no_grad():
            for inputs, targets in test_loader:
                correct += (model(inputs).argmax(1) == targets).sum().item()
        print(correct)
    ```

    Put it back with `model.train()` where training goes on. Where the layers of the model cannot be seen, an explicit
    `model.train()` before the evaluation is reported as a hint.

    ## Exceptions

    A mode set by the caller or a helper, models without layers that depend on the mode, loops that a framework owns,
    and evaluation in training mode on purpose, such as Monte Carlo dropout.

    ## References

    - [Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval)
    """

    code = "TL207"
    name = "missing-eval-mode"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Dropout and batch normalization behave as in training during the evaluation."

    @on_flow("no_grad", "inference_mode", "set_grad_enabled", "backward", outermost=True)
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if Duty.MODES in owned_duties(semantics, root.function):
            return
        if root.function is not None and root.function.name == "__init__":
            return  # building a thing is no evaluation; a function that is called is judged where it is
        if not may_evaluate(semantics):
            return
        found = training_of(semantics, root)
        told: set[ast.AST] = set()
        for run in modes.forwards(found):
            evaluations = {call for call in run.calls if self._is_evaluation(found, call, run.module, root)}
            layer = mode_dependent_layer(semantics, run.module.kind) if evaluations else ""
            if not evaluations or not (layer or modes.is_from_elsewhere(semantics, run.module)):
                continue
            events = modes.mode_events(found, run.module)

            def classify(action: Action) -> tuple[str, ...]:
                return (_EVALUATES,) if action in evaluations else events(action)  # noqa: B023

            table = replace(_TABLE, start=_TRAINING) if self._is_never_switched(found, run.module) else _TABLE
            for violation in violations(table, found.flow_for(classify), classify):
                switch = _switch(violation)
                if not layer and (switch is None or switch.verb != "train"):
                    continue
                loop = evaluation_loop(found, violation.action, root.function)
                key = loop.node if loop is not None else violation.action.node
                if key not in told:
                    told.add(key)
                    finding = self._diagnosis(violation, layer, loop, _goes_on(found, violation.action, events))
                    without_grad = is_without_grad(semantics, found.places[violation.action].contexts)
                    yield finding if without_grad else replace(finding, fixes=())  # ``eval()`` alone is half of it

    def _is_evaluation(self, found: Training, call: Action, module: Ref, root: Root) -> bool:
        """Whether a forward pass is part of an evaluation: under ``no_grad`` or beside training, in a loop over data,
        in a function that says so, or of a module that comes trained, with a result that is used."""
        place = found.places[call]
        if isinstance(parent_of(call.node), ast.Expr):
            return False
        without_grad = is_without_grad(found.semantics, place.contexts)
        if not without_grad and not self._is_beside_training(found, call, module, root):
            return False
        if _ON_PURPOSE.search(f"{modes.names_around(place, root.function)} {module.shown}"):
            return False
        if is_stated(call.node, _STATED):
            return False
        if evaluation_loop(found, call, root.function) is not None or _comes_trained(found, module):
            return True
        function = enclosing_function(call.node)
        in_loop = any(enclosing_function(loop.node) is function for loop in place.loops)
        return not in_loop and modes.calls_itself_evaluation(place, root.function)

    def _is_beside_training(self, found: Training, call: Action, module: Ref, root: Root) -> bool:
        """Whether a forward pass is in a loop of a function that says it evaluates, called by code that trains, where
        nobody has heard of ``eval()`` nor of ``no_grad``."""
        place = found.places[call]
        function = place.calls[-1].function if place.calls else None
        if function is None or not found.trains or not _EVALUATES_DATA.search(function.name):
            return False
        loop = evaluation_loop(found, call, root.function)
        inside = loop is not None and enclosing_function(loop.node) is function
        return inside and self._is_never_switched(found, module) and not _has_backward(function)

    def _is_never_switched(self, found: Training, module: Ref) -> bool:
        """Whether a module was built in this file and nothing in the file calls ``eval`` or ``train``. The mode of a
        part of another module is set by whoever has that."""
        calls = [call for name in ("eval", "train") for call in found.semantics.module.calls_of(name)]
        holder = enclosing_class(found.root.function) if found.root.function is not None else None
        if holder is not None and found.semantics.is_module_class(holder):
            return False
        switched = any(isinstance(call.func, ast.Attribute) for call in calls)  # ``train(x)`` is a function
        return constructions(found.semantics, module.node).complete and not switched

    def _diagnosis(self, violation: Violation, layer: str, loop: Loop | None, goes_on: bool) -> Diagnosis:
        call = violation.action
        assert isinstance(call.node, ast.Call)
        shown = ast.unparse(call.node.func)
        matters = f"its `{layer}` behaves" if layer else "dropout and batch normalization, if it has any, behave"
        message = f"`{shown}` is evaluated in training mode: {matters} as in training."
        related: list[tuple[ast.AST, str]] = []
        switch = _switch(violation)
        if switch is not None:
            related.append((switch.node, "in training mode since here"))
        function = enclosing_function(call.node)
        if function is not None:
            related.append((function, "evaluated here"))
        place = _place_of_fix(call.node, loop, shown)
        fixes = []
        if place is not None:
            title = f"Insert `{shown}.eval()`" + (f" and `{shown}.train()`" if goes_on else "")
            fixes.append(FixPlan(title, "unsafe", lambda edit: _insert(edit, place, shown, goes_on)))
        severity = None if layer else Severity.HINT
        return self.found(call.node, message, related=related, fixes=fixes, severity=severity)


def _comes_trained(found: Training, module: Ref) -> bool:
    """Whether a flow gives a module trained weights, and does not train it: what runs it then predicts."""
    function, semantics = found.root.function, found.semantics
    owner = enclosing_class(function) if function is not None and module.path.startswith("self.") else None
    if found.trains or (owner is not None and (semantics.is_module_class(owner) or semantics.has_unknown_base(owner))):
        return False  # the mode of a part of another module is set by whoever has that
    for action in found.actions:
        receiver = action.receiver
        if action.verb == "train" and receiver is not None and receiver.path and is_within(module.path, receiver.path):
            return False  # in training mode on purpose: the weights do not learn
    for action in found.actions:
        receiver = action.receiver
        path = receiver.path if receiver is not None and action.verb == "load_state_dict" else ""
        if path and module.path in (path, path_when_returned(found, action, path)):
            return True
    facts = semantics.module
    if module.path.startswith("self.") and not facts.mentions_call("backward"):
        loaded = {dotted(call.func) for call in facts.calls_of("load_state_dict")}
        return f"{module.path}.load_state_dict" in loaded
    built = module.kind.node if module.kind is not None else None
    if not isinstance(built, ast.Call) or not torch_api.is_torchvision_model(found.semantics.name(built.func)):
        return False
    given = next((item.value for item in built.keywords if item.arg in ("weights", "pretrained")), None)
    if isinstance(given, ast.Attribute):
        return "Weights" in ast.unparse(given)  # ``ResNet18_Weights.DEFAULT``
    value = found.semantics.literal(given) if given is not None else None
    return value is True or (isinstance(value, str) and bool(value))


def _switch(violation: Violation) -> Action | None:
    """What put the module into training mode: ``train()`` or its construction."""
    return next((step.action for step in reversed(violation.trail) if step.event == modes.TRAIN), None)


def _has_backward(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in ("backward", "grad") for node in ast.walk(function))


def _goes_on(found: Training, call: Action, events: Callable[[Action], tuple[str, ...]]) -> bool:
    """Whether training goes on after an evaluation in an iteration that does not begin with ``train()``."""
    for loop in reversed(found.places[call].loops):
        inner = tuple(actions(loop.body))
        if any(map(is_backward, inner)):
            return not any(modes.TRAIN in events(action) for action in inner)
    facts = found.semantics.module  # an evaluation by itself, in a file that trains and never says ``train()``
    switched = any(isinstance(switch.func, ast.Attribute) for switch in facts.calls_of("train"))
    return not found.trains and facts.mentions_call("backward") and not switched


def _place_of_fix(call: ast.AST, loop: Loop | None, shown: str) -> ast.AST | None:
    """Where to begin with the search for the place of ``eval()``: at the forward pass, or at the loop of the evaluation
    where the forward pass is in a method that training may call too."""
    function = enclosing_function(call)
    if loop is None or enclosing_function(loop.node) is function:
        return call
    around = enclosing_function(loop.node)
    if function is None or around is None or not shown.startswith("self."):
        return None
    return loop.node if enclosing_class(around) is enclosing_class(function) else None


def _insert(edit: Editor, evaluation: ast.AST, model: str, goes_on: bool) -> None:
    """Before the outermost loop or ``with`` of the evaluation; back to training behind it."""
    place: ast.stmt = edit.statement_of(evaluation)
    current: ast.AST | None = place
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
        if isinstance(current, ast.For | ast.AsyncFor | ast.With) and not _trains(current):
            place = current
        current = parent_of(current)
    edit.insert_statement_before(place, f"{model}.eval()")
    if goes_on and not any(isinstance(node, ast.Return) for node in ast.walk(place)):
        edit.insert_statement_after(place, f"{model}.train()")


def _trains(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(statement))
