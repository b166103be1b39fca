"""Training and evaluation mode: which modules care, and what an action does to the mode of one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_state import given_arguments
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.evaluations import PRETRAINED
from torchlint.idioms.training.gradient_actions import called_name, is_backward
from torchlint.idioms.training.vocabulary import Place, Training
from torchlint.regex import regex
from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF, WRAPPERS
from torchlint.semantics.flow import Action, Loop, Ref, Within, actions, is_within, unknown_kind
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.nodes import argument, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics

#: Events of ``mode_events``.
TRAIN, EVAL, UNKNOWN = "train", "eval", "mode unknown"

_DEEPEST = 5
_NO_GRAD = frozenset(
    ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode")
)
#: Context managers that leave gradients and modes alone.
_HARMLESS_CONTEXTS = regex(
    r"^(tqdm\.|torch\.(amp\.|cuda\.|cpu\.|autocast|device|profiler\.|autograd\.profiler|backends\.|random\.)|open$|builtins\."
    r"|contextlib\.(nullcontext|suppress|redirect)|warnings\.|time\.|rich\.|concurrent\.|tempfile\.|zipfile\.)"
)
_LEAVES_MODE = regex(
    r"(^|[._:])(print|len|type|id|str|repr|isinstance|hasattr|getattr|list|tuple|dict|sum|zip|enumerate|deepcopy|copy)$"
    r"|param|optim|adam|sgd|sched|save|checkpoint|log|summary|count|num|size|watch|ema$|^torch\."
)
#: Layers that repeat the layer that they are given.
_REPEATING = frozenset(("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"))
#: Functions that call themselves an evaluation.
EVALUATION_NAME = regex(
    r"(^|_)(test|eval|val|valid|validate|validation|evaluate|infer|inference|predict|score)(_|$)|^estimate_loss"
)


def mode_dependent_layer(semantics: Semantics, kind: Kind | None) -> str:
    """The class of a layer, inside a module of this kind, for which ``train()`` and ``eval()`` make a difference, as
    a reader knows it (``Dropout``); empty if none is certain."""
    return _layer_of(semantics, kind, set(), 0)


def is_from_elsewhere(semantics: Semantics, module: Ref) -> bool:
    """Whether nothing is known of the layers of a module."""
    if module.kind is not None and (module.kind.class_node is not None or module.kind.origin.startswith("torch")):
        return False
    built = constructions(semantics, module.node)  # ``net = DataParallel(net)`` on one way is two kinds of module
    kinds = [semantics.kind(call) for call in built.calls] if built.complete else [None]
    return any(
        kind is None
        or kind.class_node is None
        or _has_foreign_parts(semantics, kind.class_node)
        or bool(mode_dependent_layer(semantics, kind))
        for kind in kinds
    )


def _has_foreign_parts(semantics: Semantics, node: ast.ClassDef) -> bool:
    """Whether a class keeps what something of neither this file nor torch builds."""
    writes = (
        write for name in semantics.module.attributes(node) for write in semantics.module.attribute_writes(node, name)
    )
    made = (semantics.name(write.value.func) for write in writes if isinstance(write.value, ast.Call))
    return any("." in name and not name.startswith(("torch.", "builtins.")) for name in made)


def _layer_of(semantics: Semantics, kind: Kind | None, seen: set[ast.AST], depth: int) -> str:
    if kind is None or depth > _DEEPEST or not kind.is_module:
        return ""
    if kind.class_node is not None:
        named = [node for node in _classes_named(semantics, kind.class_node.name) if node is not kind.class_node]
        if not all(_layer_in_class(semantics, node, set(seen), depth) for node in named):
            return ""  # a notebook defines a class again, with dropout: which of the two this is cannot be told
        return _layer_in_class(semantics, kind.class_node, seen, depth)
    if kind.origin in WRAPPERS and isinstance(kind.node, ast.Call) and kind.node.args:
        return _layer_of(semantics, semantics.kind(kind.node.args[0]), seen, depth + 1)
    if torch_api.is_torchvision_model(kind.origin):
        built = torch_api.torchvision_model_mode_dependent(kind.origin)
        return kind.origin.rpartition(".")[2] if built else ""
    if isinstance(kind.node, ast.Call):
        return _layer_in_calls(semantics, [kind.node], seen, depth)
    return ""


def _classes_named(semantics: Semantics, name: str) -> Iterator[ast.ClassDef]:
    found = (definition.node for definition in semantics.module.definitions(name))
    return (node for node in found if isinstance(node, ast.ClassDef))


def _layer_in_class(semantics: Semantics, node: ast.ClassDef, seen: set[ast.AST], depth: int) -> str:
    if node in seen:
        return ""
    seen.add(node)
    for method in semantics.module.methods(node):
        layer = _layer_in_calls(semantics, nodes_within(method, ast.Call), seen, depth + 1)
        if layer:
            return layer
    return next(
        (found for base in semantics.local_bases(node) if (found := _layer_in_class(semantics, base, seen, depth))), ""
    )


def _layer_in_calls(
    semantics: Semantics, calls: Iterator[ast.AST] | list[ast.Call], seen: set[ast.AST], depth: int
) -> str:
    """The first layer that cares about the mode among calls, the functions and classes of this file that they call,
    and what is passed to a container."""
    for call in calls:
        if not isinstance(call, ast.Call):
            continue
        name = semantics.name(call.func)
        if _is_functional_dropout(semantics, name, call):
            return name.rpartition(".")[2]
        facts = torch_api.module_facts(name) if name.startswith("torch.nn.") else None
        if facts is not None:
            given = given_arguments(call, facts.parameters, semantics)
            known = torch_api.is_mode_dependent(name, given)
            if known or (known is None and facts.mode_dependent == "always" and facts.kind != "container"):
                return name.rpartition(".")[2]
            if depth <= _DEEPEST and (facts.kind == "container" or name in _REPEATING):
                found = _layer_given_to(semantics, call, seen, depth + 1)
                if found:
                    return found
        elif torch_api.is_torchvision_model(name):
            if torch_api.torchvision_model_mode_dependent(name):
                return name.rpartition(".")[2]
        elif depth <= _DEEPEST:
            node = semantics.local_class(call.func)
            function = semantics.local_function(call.func)
            found = ""
            if node is not None and semantics.is_module_class(node):
                found = _layer_in_class(semantics, node, seen, depth + 1)
            elif function is not None and function not in seen:
                seen.add(function)
                found = _layer_in_calls(semantics, nodes_within(function, ast.Call), seen, depth + 1)
            if found:
                return found
    return ""


def _layer_given_to(semantics: Semantics, call: ast.Call, seen: set[ast.AST], depth: int) -> str:
    """The first layer that cares about the mode among those that a container is built of: built in place, or named."""
    given = [*call.args, *(item.value for item in call.keywords)]
    inner = [node for item in given for node in nodes_within(item, ast.Call) if isinstance(node, ast.Call)]
    named = [item for item in given if isinstance(item, ast.Name | ast.Attribute)]
    return _layer_in_calls(semantics, inner, seen, depth) or next(
        (found for item in named if (found := _layer_of(semantics, semantics.kind(item), seen, depth))), ""
    )


def _is_functional_dropout(semantics: Semantics, name: str, call: ast.Call) -> bool:
    """Whether a call is a dropout that follows ``self.training``."""
    if not name.startswith("torch.nn.functional.") or "dropout" not in name:
        return False
    switch = argument(call, 2, "training")
    return isinstance(switch, ast.Attribute) and switch.attr == "training"


@dataclass(frozen=True, eq=False, slots=True)
class Forwards:
    """A module that is called in a flow, and its calls in order."""

    module: Ref
    calls: tuple[Action, ...]


def forwards(training: Training) -> tuple[Forwards, ...]:
    """The modules that a flow calls; what it puts in ``eval()`` or ``train()`` is one too."""
    switched = {
        action.receiver.path
        for action in training.actions
        if action.receiver is not None and action.receiver.path and action.verb in ("eval", "train")
    }
    modules: dict[str, Ref] = {}
    calls: dict[str, list[Action]] = {}
    for action in training.actions:
        receiver = _module_called(action, switched)
        if receiver is not None:
            modules.setdefault(receiver.path, receiver)
            calls.setdefault(receiver.path, []).append(action)
    return tuple(Forwards(module, tuple(calls[path])) for path, module in modules.items())


def _module_called(action: Action, switched: set[str]) -> Ref | None:
    """The module that an action calls; ``switched``: paths that are known to be modules."""
    receiver = action.receiver
    if receiver is None or not receiver.path:
        return None
    if action.verb == "()":
        return receiver if receiver.kind is not None and receiver.kind.what is What.MODULE else None
    if action.verb == "?" and receiver.path in switched:
        return receiver
    if isinstance(action.node, ast.Call) and isinstance(action.node.func, ast.Attribute):
        path = f"{receiver.path}.{action.verb}"  # ``self.model(x)`` where nothing tells what ``self.model`` is
        if path in switched:
            return Ref(path, unknown_kind, action.node.func)
    return None


def mode_events(training: Training, module: Ref) -> Callable[[Action], tuple[str, ...]]:
    """What each action does to the mode of a module, as a classifier for ``typestate``."""
    builds = frozenset(constructions(training.semantics, module.node).calls)
    known: dict[Action, tuple[str, ...]] = {}

    def classify(action: Action) -> tuple[str, ...]:
        if action not in known:
            event = _mode_event(training, module.path, builds, action)
            known[action] = (event,) if event else ()
        return known[action]

    return classify


def _mode_event(training: Training, path: str, builds: frozenset[ast.Call], action: Action) -> str:
    receiver = action.receiver
    if action.node in builds and action.verb not in MODULE_RETURNS_SELF:  # ``model = model.eval()`` builds nothing
        return EVAL if PRETRAINED in called_name(action) else TRAIN
    if receiver is not None and not receiver.path and action.verb in ("eval", "train"):  # ``Net().eval()``
        return _switched_to(training, action) if _is_built_by(training, receiver, builds) else ""
    if receiver is not None and receiver.path and action.verb in ("eval", "train"):
        if is_within(path, receiver.path):
            return _switched_to(training, action)
        returned = _frame(receiver.path) != _frame(path) and _is_built_by(training, receiver, builds)
        return UNKNOWN if is_within(receiver.path, path) or returned else ""
    if action.verb == "...":
        return UNKNOWN
    name = called_name(action)
    if "train" in name.lower() or "eval" in name.lower() or not _LEAVES_MODE.search(name):
        given = [item.path for item in action.arguments if item.path]
        if any(is_within(path, item) for item in given) and action.verb != "()":
            return UNKNOWN
        if receiver is not None and action.verb not in ("?", "()") and receiver.path and receiver.path != path:
            holds = is_within(path, receiver.path)
            return UNKNOWN if holds and not training.is_attribute_call(action) else ""
    return ""


def _is_built_by(training: Training, module: Ref, builds: frozenset[ast.Call]) -> bool:
    """Whether a module may be what these calls built: what a function of the file builds, switches and returns has
    another name there."""
    return bool(builds) and not builds.isdisjoint(constructions(training.semantics, module.node).calls)


def _frame(path: str) -> str:
    """Which call of a function of the file a path is a local of; empty for the outermost function."""
    return path.partition("@")[2].partition(".")[0].partition("[")[0]


def _switched_to(training: Training, action: Action) -> str:
    if action.verb == "eval":
        return EVAL
    if not isinstance(action.node, ast.Call) or not (action.node.args or action.node.keywords):
        return TRAIN
    given = action.node.args[0] if action.node.args else action.node.keywords[0].value
    value = training.semantics.literal(given)
    return {True: TRAIN, False: EVAL}[value] if isinstance(value, bool) else UNKNOWN


def is_without_grad(semantics: Semantics, contexts: tuple[Within, ...]) -> bool:
    """Whether gradients are certainly off inside these contexts."""
    for within in contexts:
        for name, made in within.contexts:
            if name in _NO_GRAD:
                return True
            if name == "torch.set_grad_enabled" and isinstance(made, ast.Call) and made.args:
                return semantics.literal(made.args[0]) is False
    return False


def may_be_without_grad(contexts: tuple[Within, ...]) -> bool:
    """Whether gradients may be off: a context or decorator that is not known to leave them alone."""
    return any(not _HARMLESS_CONTEXTS.match(name) for within in contexts for name, _ in within.contexts)


def evaluation_loop(training: Training, action: Action, root: FunctionNode | None) -> Loop | None:
    """The innermost loop over data around a forward pass, if nothing in it is backpropagated; None if there is none.

    A loop over a ``range``, or a ``while`` loop, counts only in a function that calls itself an evaluation.
    """
    place = training.places[action]
    for loop in reversed(place.loops):
        if any(is_backward(inner) for inner in actions(loop.body)):
            return None
        if _is_over_data(loop, action.node) or (
            isinstance(loop.node, ast.For | ast.While) and calls_itself_evaluation(place, root)
        ):
            return loop
    return None


def _is_over_data(loop: Loop, call: ast.AST) -> bool:
    match loop.node:
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            pass
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            target, source = loop.node.generators[0].target, loop.node.generators[0].iter
        case _:
            return False
    if loop.iterable is not None and loop.iterable.kind is not None:
        what = loop.iterable.kind.what
        return what is What.LOADER or (what is What.LIST and _takes_from_pairs(call, target))
    called = source.func if isinstance(source, ast.Call) else None
    return getattr(called, "id", "") not in ("range", "reversed", "sorted", "iter")


def _takes_from_pairs(call: ast.AST, target: ast.expr) -> bool:
    """Whether a call is given a part of what a loop unpacks, ``for x, y in batches: net(x)``: a list of batches."""
    match target:
        case ast.Tuple(elts=[ast.Name(), ast.Name() | ast.Tuple(), *_]) if isinstance(call, ast.Call):
            names = {name.id for name in nodes_within(target, ast.Name) if isinstance(name, ast.Name)}
            given = [*call.args, *(item.value for item in call.keywords)]
            return any(getattr(name, "id", "") in names for value in given for name in nodes_within(value, ast.Name))
        case _:
            return False


def calls_itself_evaluation(place: Place, root: FunctionNode | None) -> bool:
    """Whether the innermost function around an action has the name of an evaluation."""
    function = place.calls[-1].function if place.calls else root
    return function is not None and EVALUATION_NAME.search(function.name.lower()) is not None


def names_around(place: Place, root: FunctionNode | None) -> str:
    """The names of the functions around an action, in one text to be searched."""
    functions = [root, *(call.function for call in place.calls)]
    return " ".join(function.name for function in functions if function is not None)
