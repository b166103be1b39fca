from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.idioms.training import modes
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.evaluations import may_switch_to_evaluation
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.modes import evaluation_loop, may_be_without_grad
from torchlint.idioms.training.vocabulary import Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Loop
from torchlint.semantics.nodes import contains, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_ANY, _EVALUATING = "unknown", "evaluating"
_EVALUATES = "evaluates"
_TABLE = Automaton(
    start=_ANY,
    moves={
        (_ANY, modes.EVAL): _EVALUATING,
        **{(_EVALUATING, event): _ANY for event in (modes.TRAIN, modes.UNKNOWN)},
    },
    wrong={(_EVALUATING, _EVALUATES): "builds graphs"},
)
#: Evaluations that need gradients, or that prepare something that does.
_NEEDS_GRADIENTS = regex(
    r"attack|adversar|fgsm|pgd|salienc|grad|cam(_|$)|force|energy|explain|attribut|invers|style|dream|interpret|hessian"
    r"|fisher|influence|maml|meta|adapt|jacob|sensitiv|perturb",
    re.IGNORECASE,
)
#: Calls beside which gradients of the inputs are taken.
_ATTACKS = regex(r"attack|adversary|perturb|fgsm|pgd|saliency|grad_?cam|explainer", re.IGNORECASE)
_USES_GRADIENTS = frozenset(
    ("requires_grad_", "retain_grad", "grad", "jacobian", "hessian", "vjp", "jvp", "backward", "enable_grad")
)


class MissingNoGrad(Rule):
    """## What it does

    Reports an evaluation that builds autograd graphs: a model in evaluation mode is run over data, nothing is
    backpropagated, and gradients are on.

    ## Why is this bad?

    Each forward pass keeps all activations for a backward pass that never comes. Memory use multiplies, and grows with
    every batch where outputs or losses are kept. `model.eval()` does not turn gradients off.

    ## Example

    ```python
    import torch


    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum().item()
        return correct
    ```

    ## Use instead

    ```python
    import torch


    @torch.no_grad()
    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum().item()
        return correct
    ```

    A second fix puts the loop under `with torch.no_grad():`.

    ## Exceptions

    Evaluations that take gradients (attacks, saliency maps, forces), frozen models, callers that turn gradients off,
    unknown context managers and decorators, loops that a framework owns, and unit tests.

    ## References

    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    """

    code = "TL209"
    name = "missing-no-grad"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "An evaluation keeps activations for a backward pass that never comes."

    @on_flow("eval", "train", outermost=True)
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if not may_switch_to_evaluation(semantics):
            return
        if Duty.NO_GRAD in owned_duties(semantics, root.function):
            return
        if any(semantics.module.definitions(name) for name in ("pytest", "unittest")):
            return  # a test compares outputs, in a loop over a few inputs
        found = training_of(semantics, root)
        if any(action.verb == "torch.set_grad_enabled" for action in found.actions) or _is_off_for_good(unit):
            return
        if _is_part_of_module(root, unit):
            return
        told: set[ast.AST] = set()
        for run in modes.forwards(found):
            builds = constructions(found.semantics, run.module.node).calls
            evaluations = {
                call: loop
                for call in run.calls
                if (loop := self._evaluation(found, call, root)) is not None
                and not any(contains(loop.node, build) for build in builds)  # a loop over models, not over data
            }
            if not evaluations:
                continue
            events = modes.mode_events(found, run.module)

            def classify(action: Action) -> tuple[str, ...]:
                return (_EVALUATES,) if action in evaluations else events(action)  # noqa: B023

            for violation in violations(_TABLE, found.flow_for(classify), classify):
                loop = evaluations[violation.action]
                if loop.node not in told:
                    told.add(loop.node)
                    yield self._diagnosis(violation, loop, found)

    def _evaluation(self, found: Training, call: Action, root: Root) -> Loop | None:
        """The loop over data in which a forward pass evaluates with gradients on."""
        place = found.places[call]
        if isinstance(parent_of(call.node), ast.Expr):
            return None  # a warm-up: the graph is gone at once
        if may_be_without_grad(place.contexts) or _NEEDS_GRADIENTS.search(modes.names_around(place, root.function)):
            return None
        loop = evaluation_loop(found, call, root.function)
        if loop is None or _uses_gradients(found, call, loop):
            return None
        function = enclosing_function(call.node)
        return loop if function is None or not _touches_requires_grad(function) else None

    def _diagnosis(self, violation: Violation, loop: Loop, found: Training) -> Diagnosis:
        call = violation.action
        assert isinstance(call.node, ast.Call)
        shown = ast.unparse(call.node.func)
        each = "in each round" if isinstance(loop.node, ast.While) else "for every batch"
        message = f"`{shown}` builds an autograd graph {each} of this evaluation, and none is backpropagated."
        related: list[tuple[ast.AST, str]] = []
        switch = next((s.action for s in reversed(violation.trail) if s.event == modes.EVAL), None)
        if switch is not None:
            related.append((switch.node, "evaluation mode since here"))
        related.append((loop.node, "in each iteration of this loop"))
        function = enclosing_function(loop.node)
        fixes: list[FixPlan] = []
        if isinstance(loop.node, ast.stmt):
            fixes.append(FixPlan("Run the loop under `torch.no_grad()`", "unsafe", lambda edit: _wrap(edit, loop)))
        if function is not None and not _trains(function):
            title = f"Decorate `{function.name}` with `@torch.no_grad()`"
            fixes.insert(0, FixPlan(title, "unsafe", lambda edit: _decorate(edit, function)))
        return self.found(call.node, message, related=related, fixes=fixes)


def _uses_gradients(found: Training, call: Action, loop: Loop) -> bool:
    """Whether gradients are taken in the loop, or after it in a loop or function around it."""
    place = found.places[call]
    outer = {item.node for item in place.loops[: [item.node for item in place.loops].index(loop.node)]}
    for action in found.actions:
        other = found.places[action]
        loops = [item.node for item in other.loops]
        inside = loop.node in loops
        last = action.verb.rpartition(".")[2]
        if inside and (last in _USES_GRADIENTS or _ATTACKS.search(ast.unparse(action.node))):
            return True
        beside = set(loops) <= outer and bool(outer) and other.calls == place.calls
        if is_backward(action) and beside:
            return True
    return False


def _is_off_for_good(unit: Unit) -> bool:
    """Whether a statement of the program turns gradients off: ``torch.set_grad_enabled(False)``."""
    return any(
        isinstance(parent_of(call), ast.Expr) and bool(call.args) and unit.semantics.literal(call.args[0]) is False
        for call in unit.semantics.module.calls_of("set_grad_enabled")
    )


def _is_part_of_module(root: Root, unit: Unit) -> bool:
    """Whether a flow is of a method of a module, called in other files: whoever has the module turns gradients off."""
    holder = enclosing_class(root.function) if root.function is not None else None
    return holder is not None and unit.semantics.is_module_class(holder)


def _touches_requires_grad(function: FunctionNode) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("requires_grad", "requires_grad_")
        for node in nodes_within(function, ast.Attribute)
    )


def _trains(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(function))


def _decorate(edit: Editor, function: FunctionNode) -> None:
    edit.decorate(function, f"{edit.spell('torch.no_grad')}()")


def _wrap(edit: Editor, loop: Loop) -> None:
    """Under the block: the outermost loop of the evaluation in its function."""
    if not isinstance(loop.node, ast.stmt):
        raise FixImpossible("a comprehension")
    place: ast.stmt = loop.node
    current = parent_of(place)
    while isinstance(current, ast.For | ast.With) and not any(
        isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(current)
    ):
        place, current = current, parent_of(current)
    edit.indent_into(place, place, f"with {edit.spell('torch.no_grad')}():")
