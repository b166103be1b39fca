"""What the actions of a flow are to training: steps, clears, backward passes, unscaling, and who knows the optimizer.

``training_of`` looks at one flow as a whole; ``Training.events_of`` then tells for one optimizer what each action does
to the gradients that it uses. Where the code does not show it the answer is the careful one: an optimizer that was
given to unknown code may have been cleared there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from torchlint.frozen import dataclass
from torchlint.idioms.training.construction import attribute_keeping, constructions, modules_given
from torchlint.idioms.training.gradient_actions import (
    HARMLESS,
    called_name,
    cleared_gradient,
    is_backward,
    is_foreign_backward,
)
from torchlint.regex import regex
from torchlint.semantics.flow import Action, Flow, Followed, Loop, Ref, Within, actions, children, is_within
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.pruning import Pruner
from torchlint.semantics.scopes import last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root
from torchlint.syntax import parent_of

#: Events of ``Training.events_of``.
BACKWARD = "backward"
STEP = "step"
CLEAR = "clear"
PERHAPS_CLEAR = "perhaps clear"
WRITE = "gradients written"
ESCAPE = "escape"
BUILT = "built"

#: Methods of an optimizer that leave the gradients alone.
_HARMLESS_METHODS = regex(
    r"^(step|zero_grad|.*state.*|add_param_group|register_.*|train|eval|__\w+__|append|extend"
    r"|(named_)?(parameters|modules|children|buffers)|to|cuda|cpu|half|float|double|requires_grad_|share_memory)$"
)
_CLEARING_NAME = regex(r"(zero|clear|reset|clean|flush)_?(the_)?_?(all_)?(param_)?grad", re.IGNORECASE)
_OPTIMIZER_NAME = regex(r"opt|adam|sgd|solver", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """What stands around an action: context managers and decorators, loops and followed calls, outermost first."""

    contexts: tuple[Within, ...] = ()
    loops: tuple[Loop, ...] = ()
    calls: tuple[Followed, ...] = ()


@dataclass(frozen=True, eq=False)
class Optimizer:
    """An optimizer that is stepped in a flow. ``modules``: the paths of those whose parameters it has, None where not
    all are known. ``builds``: the calls that made it."""

    ref: Ref
    builds: tuple[ast.Call, ...] = ()
    modules: frozenset[str] | None = None

    @property
    def path(self) -> str:
        return self.ref.path


@dataclass(frozen=True, eq=False)
class Training:
    """The training vocabulary of one flow."""

    semantics: Semantics
    root: Root

    @cached_property
    def places(self) -> dict[Action, Place]:
        """What stands around each action."""
        found: dict[Action, Place] = {}
        stack: list[tuple[Flow, Place]] = [(self.root.flow, Place())]
        while stack:
            flow, place = stack.pop()
            match flow:
                case Action():
                    found[flow] = place
                    continue
                case Within():
                    place = Place((*place.contexts, flow), place.loops, place.calls)
                case Loop():
                    place = Place(place.contexts, (*place.loops, flow), place.calls)
                case Followed():
                    place = Place(place.contexts, place.loops, (*place.calls, flow))
                case _:
                    pass
            stack.extend((inner, place) for inner in reversed(children(flow)))
        return found

    def position_in(self, block: Sequence[ast.stmt], action: Action) -> int | None:
        """Which statement of a block an action is in, by itself or through calls that are followed."""
        holders = {id(statement): position for position, statement in enumerate(block)}
        for node in (action.node, *(call.node for call in self.places[action].calls)):
            current: ast.AST | None = node
            while current is not None:
                if id(current) in holders:
                    return holders[id(current)]
                current = parent_of(current)
        return None

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(actions(self.root.flow))

    @cached_property
    def trains(self) -> bool:
        """Whether there is a backward pass in the flow."""
        return any(map(is_backward, self.actions))

    @cached_property
    def scaled(self) -> dict[Action, Ref]:
        """The backward passes of a loss that a gradient scaler scaled, with the scaler."""
        scales: dict[ast.AST, Ref] = {}
        found: dict[Action, Ref] = {}
        for action in self.actions:
            if action.verb == "scale" and action.receiver is not None and action.arguments:
                scales[action.node] = action.receiver
            elif is_backward(action) and action.receiver is not None:
                scaler = scales.get(self.semantics.value_of(action.receiver.node) or action.node)
                if scaler is not None:
                    found[action] = scaler
        return found

    def is_scaler(self, ref: Ref | None) -> bool:
        """Whether an object is a gradient scaler: by its kind, or by its use (what it scales is backpropagated)."""
        if ref is None:
            return False
        kind = ref.kind
        if kind is not None and kind.what is not What.NONE:  # None may be the default of a field that somebody sets
            return kind.what is What.SCALER
        return bool(ref.path) and ref.path in self._scaler_paths

    @cached_property
    def _scaler_paths(self) -> frozenset[str]:
        return frozenset(scaler.path for scaler in self.scaled.values())

    # -- optimizers -------------------------------------------------------------------------------------------------

    @cached_property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """The optimizers that are stepped in the flow without a closure, in the order of their first step."""
        first: dict[str, Ref] = {}
        with_closure: set[str] = set()
        for action in self.actions:
            stepped = self.stepped(action)
            if stepped is None or not stepped.path:
                continue
            first.setdefault(stepped.path, stepped)
            if action.receiver is stepped and action.arguments:
                with_closure.add(stepped.path)
        return tuple(self._optimizer(ref) for path, ref in first.items() if path not in with_closure)

    def stepped(self, action: Action) -> Ref | None:
        """The optimizer that an action steps, directly or through a gradient scaler."""
        if action.verb == "step" and action.receiver is not None:
            if self.is_scaler(action.receiver):
                return action.arguments[0] if action.arguments else None
            return action.receiver if self.is_optimizer(action.receiver) else None
        if action.verb == "torch_xla.core.xla_model.optimizer_step" and action.arguments:
            return action.arguments[0]
        return None

    def is_optimizer(self, ref: Ref) -> bool:
        """Whether an object is an optimizer: by its kind; or, where that is unknown, because it is stepped and cleared
        in the flow, or is the only unknown thing that is stepped in a flow with a backward pass."""
        kind = ref.kind
        if kind is not None:
            return kind.what is What.OPTIMIZER
        return bool(ref.path) and ref.path in self._optimizer_paths

    @cached_property
    def _optimizer_paths(self) -> frozenset[str]:
        stepped: set[str] = set()
        cleared: set[str] = set()
        known = False
        for action in self.actions:
            receiver = action.receiver
            if receiver is None:
                continue
            if receiver.kind is not None:
                known = known or (action.verb == "step" and receiver.kind.what is What.OPTIMIZER)
            elif receiver.path and action.verb == "step" and not action.arguments:
                stepped.add(receiver.path)
            elif receiver.path and action.verb == "zero_grad":
                cleared.add(receiver.path)
        found = stepped & cleared
        named = [path for path in stepped if _OPTIMIZER_NAME.search(path.rpartition(".")[2])]
        if not found and not known and len(named) == 1 and self.trains:
            found = set(named)
        return frozenset(found)

    def _optimizer(self, ref: Ref) -> Optimizer:
        built = constructions(self.semantics, ref.node)
        modules: set[str] | None = set() if built.complete else None
        for call in built.calls:
            given = modules_given(self.semantics, call)
            here = None if given is None else [self._as_seen_here(path, call, ref) for path in given]
            if modules is None or here is None or None in here:
                modules = None
                break
            modules |= {path for path in here if path is not None}
        return Optimizer(ref, built.calls, frozenset(modules) if modules else None)

    def _as_seen_here(self, path: str, build: ast.Call, optimizer: Ref) -> str | None:
        """A path where an optimizer is built, as a path of this flow."""
        if path.startswith("::"):
            return path
        holder, _, _ = optimizer.path.rpartition(".")
        if path.startswith("self."):
            return f"{holder}{path[4:]}" if holder else None
        if path.startswith("%") and holder:
            name, dot, rest = path[1:].partition(".")
            kept = attribute_keeping(self.semantics, name, enclosing_function(build))
            return f"{holder}.{kept}{dot}{rest}" if kept is not None else None
        if optimizer.node is None or enclosing_function(build) is not enclosing_function(optimizer.node):
            return None
        head, mark, number = optimizer.path.partition("@")
        if not head.startswith("$") or "." in head:
            return None
        name, dot, rest = path.partition(".")
        if name.startswith("$"):
            return f"{name}{mark}{number}{dot}{rest}"
        return path if not mark else None

    # -- events -----------------------------------------------------------------------------------------------------

    def events_of(self, optimizer: Optimizer) -> Callable[[Action], tuple[str, ...]]:
        """What each action does to the gradients of one optimizer, as a classifier for ``typestate``; one for all
        rules."""
        classifier = self._classifiers.get(optimizer)
        if classifier is None:
            classifier = self._classifiers[optimizer] = self._classifier(optimizer)
        return classifier

    def _classifier(self, optimizer: Optimizer) -> Callable[[Action], tuple[str, ...]]:
        known: dict[Action, tuple[str, ...]] = {}

        def classify(action: Action) -> tuple[str, ...]:
            if action not in known:
                event = self._event(optimizer, action)
                known[action] = (event,) if event else ()
            return known[action]

        return classify

    def flow_for(self, classify: Callable[[Action], tuple[str, ...]]) -> Flow:
        """The flow with only the actions that have an event."""
        flow = self._flows.get(classify)
        if flow is None:
            flow = self._flows[classify] = self._pruner.keeping(action for action in self.actions if classify(action))
        return flow

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(self.root.flow)

    @cached_property
    def _classifiers(self) -> dict[Optimizer, Callable[[Action], tuple[str, ...]]]:
        return {}

    @cached_property
    def _flows(self) -> dict[Callable[[Action], tuple[str, ...]], Flow]:
        return {}

    def _event(self, optimizer: Optimizer, action: Action) -> str:
        if is_backward(action):
            return BACKWARD
        stepped = self.stepped(action)
        if stepped is not None and stepped.path == optimizer.path:
            return STEP
        cleared = self._cleared(optimizer, action)
        if cleared:
            return cleared
        if action.verb == "grad=":
            return WRITE
        if action.node in optimizer.builds:
            return BUILT
        return ESCAPE if self._escapes(optimizer, action) else ""

    def _cleared(self, optimizer: Optimizer, action: Action) -> str:
        receiver = action.receiver
        if action.verb == "zero_grad" and receiver is not None:
            return self._clear_by(optimizer, receiver.path, receiver)
        owner = cleared_gradient(action)
        if owner is not None:
            return self._clear_by(optimizer, owner, None)
        name = called_name(action)
        return PERHAPS_CLEAR if _CLEARING_NAME.search(name) or name.endswith("_foreach_zero_") else ""

    def _clear_by(self, optimizer: Optimizer, path: str, receiver: Ref | None) -> str:
        """What clearing the gradients of ``path`` (an optimizer or a module) means for an optimizer."""
        if not path:
            return PERHAPS_CLEAR
        if path == optimizer.path:
            return CLEAR
        if is_within(path, optimizer.path):
            return PERHAPS_CLEAR  # what a class of this file wraps
        other = next((item for item in self.optimizers if item.path == path), None)
        if other is not None:
            apart = are_different(other, optimizer) and not _share_parameters(other, optimizer)
            return "" if apart else PERHAPS_CLEAR
        if receiver is not None and self.is_optimizer(receiver):
            apart = _differ_by_name(path, optimizer.path) and not _share_parameters(
                self._optimizer(receiver), optimizer
            )
            return "" if apart else PERHAPS_CLEAR
        if optimizer.modules is None:
            return PERHAPS_CLEAR
        if all(is_within(module, path) for module in optimizer.modules):
            return CLEAR
        apart = all(_differ_by_name(path, module) for module in optimizer.modules)
        return "" if apart and not self._may_hold(receiver, optimizer.modules) else PERHAPS_CLEAR

    def _may_hold(self, receiver: Ref | None, modules: frozenset[str]) -> bool:
        """Whether a module may have been built from others (``GAN(generator, discriminator)``)."""
        built = constructions(self.semantics, receiver.node) if receiver is not None else None
        if built is None or not built.complete:
            return True
        names = {module.rpartition(".")[2].lstrip(":$%").partition("@")[0] for module in modules}
        return any(
            isinstance(node, ast.Name | ast.Attribute) and last_name(node) in names
            for call in built.calls
            for item in (*call.args, *(keyword.value for keyword in call.keywords))
            for node in ast.walk(item)
        )

    def _escapes(self, optimizer: Optimizer, action: Action) -> bool:
        """Whether an action hands the optimizer, or something that holds it, to code that cannot be seen."""
        if is_foreign_backward(action):
            return True
        receiver = action.receiver
        if action.verb == "...":
            return True
        name = called_name(action)
        if HARMLESS.search(name) or self.is_scaler(receiver):
            return False
        on_holder = receiver is not None and action.verb not in ("?", "()") and is_within(optimizer.path, receiver.path)
        if on_holder and not _HARMLESS_METHODS.match(action.verb) and not self.is_attribute_call(action):
            return True
        return any(is_within(optimizer.path, item.path) for item in action.arguments)

    def is_attribute_call(self, action: Action) -> bool:
        """Whether ``self.model(x)`` calls what an attribute holds: that is not given ``self``."""
        if not isinstance(action.node, ast.Call) or not isinstance(action.node.func, ast.Attribute):
            return False
        owner = self.semantics.class_of_self(action.node.func.value)
        return owner is not None and bool(self.semantics.module.attribute_writes(owner, action.verb))


def training_of(semantics: Semantics, root: Root) -> Training:
    """The training vocabulary of a flow, made once for all rules that look at it."""
    made = Training(semantics, root)
    return semantics.module.memo.cached(("training", root.flow), lambda: made, made)


def are_different(one: Optimizer, other: Optimizer) -> bool:
    """Whether two optimizers are certainly two objects."""
    if one.builds and other.builds and set(one.builds).isdisjoint(other.builds):
        return True
    return _differ_by_name(one.path, other.path)


def _share_parameters(one: Optimizer, other: Optimizer) -> bool:
    """Whether two optimizers were given parameters of the same module: what one clears the other may use."""
    return any(
        is_within(module, beside) or is_within(beside, module)
        for module in one.modules or ()
        for beside in other.modules or ()
    )


def _differ_by_name(one: str, other: str) -> bool:
    """Whether two paths are two names of one sort, neither of which leads to the other."""
    if "[]" in one or "[]" in other or one == other:
        return False
    return one[0] == other[0] and not is_within(one, other) and not is_within(other, one)
