from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.paths import assigned_to, path_at_root
from torchlint.idioms.training.vocabulary import BUILT, ESCAPE, STEP, Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, is_within
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

_NONE, _FRESH, _STALE = "not built here", "up to date", "stale"
_REPLACED, _GIVEN = "replaced", "given new parameters"
_TABLE = Automaton(
    start=_NONE,
    moves={
        **{(state, BUILT): _FRESH for state in (_NONE, _STALE)},
        (_FRESH, _REPLACED): _STALE,
        **{(state, event): _NONE for state in (_FRESH, _STALE) for event in (ESCAPE, _GIVEN)},
    },
    wrong={(_STALE, STEP): "stale"},
    on_every_path=False,
)
#: Methods through which an optimizer learns of other parameters.
_GIVES = frozenset(("add_param_group", "load_state_dict", "__init__", "__setstate__", "clear", "update"))


class StaleOptimizer(Rule):
    """## What it does

    Reports a layer that is replaced, or a module that is made anew, after the optimizer was built for the old one.

    ## Why is this bad?

    An optimizer holds parameters, not modules: it goes on with those of the old layer, which nothing uses any more. The
    new layer stays at its random values, without any error.

    ## Example

    ```python
    import torch
    from torch import nn
    from torchvision.models import resnet18


    def train(loader, criterion):
        model = resnet18(weights="DEFAULT")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(512, 10)
        for inputs, targets in loader:
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch
    from torch import nn
    from torchvision.models import resnet18


    def train(loader, criterion):
        model = resnet18(weights="DEFAULT")
        model.fc = nn.Linear(512, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for inputs, targets in loader:
            optimizer.zero_grad()
            criterion(model(inputs), targets).backward()
            optimizer.step()
    ```

    ## Exceptions

    An optimizer that is rebuilt or given the new parameters (`add_param_group`), a module that is made anew after the
    last step, a wrapper around the old module, and a layer without parameters.

    ## References

    - [torch.optim: constructing it](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    """

    code = "TL217"
    name = "stale-optimizer"
    level = Level.ERROR
    summary = "The optimizer trains the parameters of a layer that is no longer there."

    @on_flow("step", also=("parameters", "backward"))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        told: set[ast.AST] = set()
        for optimizer in found.optimizers:
            if not optimizer.modules or not optimizer.builds:
                continue
            classify = _classifier(found, optimizer)
            table = replace(_TABLE, start=_FRESH) if _is_built_before(optimizer, root) else _TABLE
            for violation in violations(table, found.flow_for(classify), classify):
                replaced = violation.last(_REPLACED)
                if replaced is not None and replaced.node not in told:
                    told.add(replaced.node)
                    yield self._diagnosis(optimizer, replaced, violation)

    def _diagnosis(self, optimizer: Optimizer, replaced: Action, violation: Violation) -> Diagnosis:
        target = assigned_to(replaced.node)
        assert target is not None
        name = optimizer.ref.shown
        message = f"`{name}` was built before `{ast.unparse(target)}` is replaced, and never trains the new parameters."
        related: list[tuple[ast.AST, str]] = [(violation.action.node, "steps with the old parameters here")]
        built = violation.last(BUILT)
        related.insert(0, (built.node if built is not None else optimizer.builds[0], "the optimizer is built here"))
        return self.found(target, message, related=related)


def _is_built_before(optimizer: Optimizer, root: Root) -> bool:
    """Whether an optimizer is there when a method begins: only the constructor of its class builds it."""
    function = root.function
    holder = enclosing_class(function) if function is not None else None
    if function is None or holder is None or function.name == "__init__" or not optimizer.path.startswith("self."):
        return False
    builders = {enclosing_function(build) for build in optimizer.builds}
    return all(one is not None and one.name == "__init__" and enclosing_class(one) is holder for one in builders)


def _classifier(found: Training, optimizer: Optimizer) -> Callable[[Action], tuple[str, ...]]:
    events = found.events_of(optimizer)
    known: dict[Action, tuple[str, ...]] = {}

    def classify(action: Action) -> tuple[str, ...]:
        if action not in known:
            event = _event(found, optimizer, action)
            told = tuple(name for name in events(action) if name in (BUILT, STEP, ESCAPE))
            known[action] = (event,) if event else told
        return known[action]

    return classify


def _event(found: Training, optimizer: Optimizer, action: Action) -> str:
    receiver = action.receiver
    if action.verb in _GIVES and receiver is not None and is_within(receiver.path, optimizer.path):
        return _GIVEN
    target = assigned_to(action.node)
    if target is None or not isinstance(action.node, ast.Call):
        return ""
    path = path_at_root(found, action, target)
    if not path:
        return ""
    if path == optimizer.path:
        return BUILT
    part_of_model = any(is_within(path, module) for module in optimizer.modules or ())
    return _REPLACED if part_of_model and _is_new(found, action, action.node, path) else ""


def _is_new(found: Training, action: Action, call: ast.Call, path: str) -> bool:
    """Whether a call makes a module or parameter with weights of its own, and not a wrapper around the old one."""
    kind = found.semantics.kind(call)
    if kind is None or not (kind.is_module or kind.what is What.PARAMETER):
        return False
    if kind.node is not call or state_of(kind, found.semantics) is not State.WEIGHTS:
        return False
    return not any(
        isinstance(node, ast.Name | ast.Attribute)
        and not _reads_a_value(node)
        and is_within(path, path_at_root(found, action, node))
        for item in (*call.args, *(keyword.value for keyword in call.keywords))
        for node in ast.walk(item)
    )


def _reads_a_value(node: ast.expr) -> bool:
    """Whether only an attribute of an object is read (``model.fc.in_features``), or something below it."""
    parent = parent_of(node)
    return isinstance(parent, ast.Attribute) and not (
        isinstance(caller := parent_of(parent), ast.Call) and caller.func is parent
    )
