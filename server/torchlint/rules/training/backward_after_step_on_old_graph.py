from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from torchlint.frozen import dataclass
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training import vocabulary
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward, is_foreign_backward
from torchlint.idioms.training.gradient_graph import loss_of
from torchlint.idioms.training.graph_sources import Sources, sources_of
from torchlint.idioms.training.vocabulary import Optimizer, Training, training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_flow
from torchlint.semantics.flow import Action, Ref, is_within, unknown_kind
from torchlint.semantics.repeated_tests import with_repeated_tests_joined
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_CALLED = "module called"
_BACK = "backward on what it gave"
_NONE, _RECORDED, _GRADIENTS, _OLD = "not called", "recorded", "recorded, with gradients", "old"
_TABLE = Automaton(
    start=_NONE,
    moves={
        **{(state, _CALLED): _RECORDED for state in (_NONE, _RECORDED, _OLD)},
        (_RECORDED, vocabulary.BACKWARD): _GRADIENTS,
        (_GRADIENTS, vocabulary.CLEAR): _RECORDED,
        (_GRADIENTS, vocabulary.PERHAPS_CLEAR): _NONE,
        (_GRADIENTS, vocabulary.STEP): _OLD,
        **{(state, vocabulary.ESCAPE): _NONE for state in (_RECORDED, _GRADIENTS, _OLD)},
    },
    wrong={(_OLD, _BACK): "old graph"},
    neutral=frozenset((_NONE,)),
)
_LAYER = regex(r"torch\.nn\.(Linear|Bilinear|Conv\w+|Embedding\w*)$")
#: Signs of gradients of gradients, whose graphs are kept and walked in other orders.
_SECOND_ORDER = ("grad", "functional_call", "vjp", "jvp", "jacobian", "hessian", "stateless")


@dataclass(frozen=True, eq=False)
class _Graphs:
    """What the backward passes of one flow go through."""

    found: Training

    @cached_property
    def called(self) -> dict[ast.Call, str]:
        """The objects that are called in the flow, by their paths."""
        paths: dict[ast.Call, str] = {}
        for action in self.found.actions:
            receiver, node = action.receiver, action.node
            if receiver is None or not receiver.path or not isinstance(node, ast.Call):
                continue
            if action.verb in ("()", "?"):
                paths[node] = receiver.path
            elif self.found.is_attribute_call(action):
                paths[node] = f"{receiver.path}.{action.verb}"
        return paths

    @cached_property
    def trained(self) -> frozenset[ast.Call]:
        """Calls of modules that an optimizer of the flow has the parameters of."""
        return frozenset(
            call for call, path in self.called.items() if any(_trains(item, path) for item in self.found.optimizers)
        )

    @cached_property
    def sources(self) -> dict[Action, Sources]:
        """What each backward pass goes through."""
        return {action: self._sources(action) for action in self.found.actions if is_backward(action)}

    def _sources(self, action: Action) -> Sources:
        loss = _loss(self.found.semantics, action)
        if loss is None:
            return Sources()
        calls = self.found.places[action].calls
        entered = calls[-1].node if calls else None
        return sources_of(self.found.semantics, loss, entered=entered, trained=self.trained)


class BackwardAfterStepOnOldGraph(Rule):
    """## What it does

    Reports `backward()` on a value that was computed by a module before an optimizer changed the parameters of that
    module.

    ## Why is this bad?

    The graph remembers the parameters as they were. `step()` changes them in place, so that going back through the
    graph raises "one of the variables needed for gradient computation has been modified by an inplace operation". Old
    versions of torch computed wrong gradients instead.

    ## Example

    ```python
    import torch


    def train(G: torch.nn.Module, D: torch.nn.Module, loader):
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for real, z in loader:
            fake = G(z)
            score = D(fake).mean()
            opt_d.zero_grad()
            d_loss = score - D(real).mean()
            d_loss.backward(retain_graph=True)
            opt_d.step()
            opt_g.zero_grad()
            g_loss = -score
            g_loss.backward()
            opt_g.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(G: torch.nn.Module, D: torch.nn.Module, loader):
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for real, z in loader:
            fake = G(z)
            opt_d.zero_grad()
            d_loss = D(fake.detach()).mean() - D(real).mean()
            d_loss.backward()
            opt_d.step()
            opt_g.zero_grad()
            g_loss = -D(fake).mean()
            g_loss.backward()
            opt_g.step()
    ```

    ## Exceptions

    Values that are computed again after the step or cut from the graph before it, second-order methods
    (`torch.autograd.grad`, `create_graph`), and optimizers whose parameters cannot be told.

    ## References

    - [Autograd mechanics: in-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    - [A GAN that fails since torch 1.5](https://github.com/pytorch/pytorch/issues/39141)
    """

    code = "TL219"
    name = "backward-after-step-on-old-graph"
    level = Level.ERROR
    summary = "The step changed parameters that this backward pass needs as they were."

    @on_flow("step", "optimizer_step", also=("backward",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function) or _is_second_order(found):
            return
        graphs = _Graphs(found)
        order = {action: position for position, action in enumerate(found.actions)}
        told: set[ast.AST] = set()
        for optimizer in found.optimizers:
            if optimizer.modules is None:
                continue
            for backward, sources in graphs.sources.items():
                # In the order of the flow: which of two calls is told is the same in each run.
                for call, path in graphs.called.items():
                    if call not in sources.calls or not _trains(optimizer, path) or backward.node in told:
                        continue
                    if not _may_be_old(found, optimizer, backward, call, order) or _is_last_layer(
                        found.semantics, call
                    ):
                        continue
                    violation = _violation(graphs, optimizer, backward, call)
                    if violation is not None and not is_expected_to_raise(backward.node):
                        told.add(backward.node)
                        yield self._diagnosis(violation, call, path, found)

    def _diagnosis(self, violation: Violation, call: ast.Call, path: str, found: Training) -> Diagnosis:
        backward = violation.action
        step = violation.last(vocabulary.STEP)
        loss = _loss(found.semantics, backward)
        assert step is not None
        assert loss is not None
        module = Ref(path, unknown_kind, None).shown
        message = (
            f"`{ast.unparse(loss)}` goes back through `{ast.unparse(call)}`, whose parameters "
            f"`{ast.unparse(step.node)}` has changed since: autograd raises where it needs the old ones."
        )
        related: list[tuple[ast.AST, str]] = [
            (call, f"`{module}` as it was before the step"),
            (step.node, f"the parameters of `{module}` are changed here"),
        ]
        return self.found(backward.node, message, related=related)


def _loss(semantics: Semantics, backward: Action) -> ast.expr | None:
    """What a backward pass is of, if the action is certainly one."""
    if is_foreign_backward(backward) or backward.verb != "backward" or not isinstance(backward.node, ast.Call):
        return None
    return loss_of(semantics, backward.node)


def _trains(optimizer: Optimizer, path: str) -> bool:
    """Whether an optimizer has the parameters of what a path denotes, or of a part of it."""
    return any(is_within(path, module) or is_within(module, path) for module in optimizer.modules or ())


def _is_second_order(found: Training) -> bool:
    for action in found.actions:
        last = action.verb.rpartition(".")[2]
        if last in _SECOND_ORDER and action.verb.startswith(("torch.", "higher.", "grad")):
            return True
        if isinstance(action.node, ast.Call) and any(item.arg == "create_graph" for item in action.node.keywords):
            return True
    return False


def _may_be_old(
    found: Training, optimizer: Optimizer, backward: Action, call: ast.Call, order: dict[Action, int]
) -> bool:
    """Whether a step stands between a call and a backward pass, or in a loop around the latter but not the former."""
    calls = [action for action in found.actions if action.node is call]
    for step in found.actions:
        stepped = found.stepped(step)
        if stepped is None or stepped.path != optimizer.path:
            continue
        shared = {loop.node for loop in found.places[step].loops} & {loop.node for loop in found.places[backward].loops}
        for action in calls:
            if order[action] < order[step] < order[backward]:
                return True
            if order[action] < order[backward] and shared - {loop.node for loop in found.places[action].loops}:
                return True
    return False


def _is_last_layer(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call is of one layer whose input has no graph: its own gradients do not need its parameters."""
    kind = semantics.kind(call.func)
    if kind is None or kind.class_node is not None or not _LAYER.match(kind.origin):
        return False
    given = (*call.args, *(item.value for item in call.keywords))
    return not any(sources_of(semantics, value).calls for value in given)


def _violation(graphs: _Graphs, optimizer: Optimizer, backward: Action, call: ast.Call) -> Violation | None:
    """The first place at which the backward pass goes through a call of before a step."""
    events = graphs.found.events_of(optimizer)

    def classify(action: Action) -> tuple[str, ...]:
        if action.node is call:
            return (_CALLED,)
        if is_backward(action):
            gives = any(_trains(optimizer, graphs.called.get(source, "")) for source in graphs.sources[action].calls)
            old = (_BACK,) if action.node is backward.node else ()
            return (*old, vocabulary.BACKWARD) if gives else old
        return events(action)

    flow = with_repeated_tests_joined(graphs.found.semantics, graphs.found.flow_for(classify))
    return next(iter(violations(_TABLE, flow, classify)), None)
