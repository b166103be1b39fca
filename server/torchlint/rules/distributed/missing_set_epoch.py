from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.frozen import dataclass
from torchlint.idioms.data.samplers import SAMPLERS, distributed_samplers, loaders_in
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import training_of
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Flow, Loop, Within, actions, children
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.nodes import (
    argument,
    contains,
    enclosing_class,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
)
from torchlint.semantics.scopes import Binding, dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of, part_of

_NO_GRAD = frozenset(("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled"))
_EVALUATION = regex(r"(^|[._])(val|valid|validation|test|eval|evaluation|dev)(_|\d|$)|^(val|test|eval)", re.IGNORECASE)
#: Calls that do nothing to a loader that they are given.
_HARMLESS = regex(r"^(tqdm|rich|itertools|torch\.|time\.|logging\.)|^(len|print|log|info|debug|set_description)$")


@dataclass(frozen=True, eq=False, slots=True)
class _Pass:
    """A loop over the batches of a loader, and the loops around it, outermost first."""

    batches: Loop
    around: tuple[Loop, ...]
    contexts: tuple[Within, ...]


class MissingSetEpoch(Rule):
    """## What it does

    Reports a `DistributedSampler` whose loader is iterated again and again in a file in which nothing calls
    `set_epoch`, or only that of other samplers.

    ## Why is this bad?

    `DistributedSampler` shuffles with `seed + epoch`, and knows the epoch only from `set_epoch`. Without it each epoch
    has the same order, and each rank always sees the same part of the data, as if `shuffle` were off after the first
    epoch.

    ## Example

    ```python
    from torch.utils.data import DataLoader, DistributedSampler


    def train(model, dataset, criterion, optimizer, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
    ```

    ## Use instead

    ```python
    from torch.utils.data import DataLoader, DistributedSampler


    def train(model, dataset, criterion, optimizer, epochs):
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
    ```

    ## Exceptions

    `shuffle=False`; evaluation; a loader or sampler that is given to code that the file does not show, which may call
    `set_epoch`; a loader that is made anew for each epoch; and frameworks that call it themselves (Lightning,
    Accelerate, Ignite).

    ## References

    - [DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler)
    """

    code = "TL801"
    name = "missing-set-epoch"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "Without `set_epoch` a `DistributedSampler` gives the same order in each epoch."

    @on_flow("DistributedSampler", "DataLoader", "backward")
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        module = semantics.module
        if not module.mentions_call("DistributedSampler"):
            return
        told = _samplers_told(semantics)
        if told is None or (not told and module.reads_attribute("set_epoch")):
            return
        if owned_duties(semantics, root.function) is not Duty.NONE:
            return
        trains = training_of(semantics, root).trains
        for found in _passes(root.flow, (), ()):
            if not found.around or _evaluates(found, trains):
                continue
            for loader in loaders_in(semantics, found.batches.iterable.node if found.batches.iterable else None):
                loop = found.around[-1]
                samplers = [
                    item
                    for item in distributed_samplers(semantics, loader)
                    if item not in told and _shuffles(item, semantics) and not _is_made_in(loop, item)
                ]
                if samplers and not _escapes(loop.body, loader, samplers, semantics):
                    for sampler in samplers:
                        yield self._diagnosis(sampler, loader, loop, semantics)

    def _diagnosis(self, sampler: ast.Call, loader: ast.Call, loop: Loop, semantics: Semantics) -> Diagnosis:
        name = _target(sampler)
        shown = f"`{name}`" if name else "This `DistributedSampler`"
        message = f"{shown} gives the same order in each epoch: nothing calls its `set_epoch`."
        related = [(loader, "used by this loader"), (loop.node, "iterated again in this loop")]
        spelled = _spelled(sampler, loader, loop, semantics)
        fixes = []
        if spelled is not None:
            text = f"{spelled[0]}.set_epoch({spelled[1]})"
            fixes.append(FixPlan(f"Insert `{text}`", "unsafe", lambda edit: _insert(edit, loop.node, text)))
        return self.found(sampler, message, related=related, fixes=fixes)


def _samplers_told(semantics: Semantics) -> set[ast.Call] | None:
    """The samplers whose ``set_epoch`` the file calls; None where it calls that of anything else, maybe of any."""
    told: set[ast.Call] = set()
    for call in semantics.module.calls_of("set_epoch"):
        made = constructions(semantics, call.func.value if isinstance(call.func, ast.Attribute) else None)
        if not made.complete or not all(semantics.is_named(item.func, *SAMPLERS) for item in made.calls):
            return None
        told.update(made.calls)
    return told


def _passes(flow: Flow, loops: tuple[Loop, ...], contexts: tuple[Within, ...]) -> Iterator[_Pass]:
    match flow:
        case Loop():
            yield _Pass(flow, loops, contexts)
            loops = (*loops, flow)
        case Within():
            contexts = (*contexts, flow)
        case _:
            pass
    for inner in children(flow):
        yield from _passes(inner, loops, contexts)


def _evaluates(found: _Pass, trains: bool) -> bool:
    """Whether a pass over batches is certainly no training: then its order does not matter."""
    if any(name in _NO_GRAD for context in found.contexts for name, _ in context.contexts):
        return True
    iterable = found.batches.iterable
    if iterable is not None and _EVALUATION.search(iterable.shown):
        return True
    if not trains or any(map(is_backward, actions(found.batches.body))):
        return False
    return not any(nodes_within(found.batches.node, ast.Yield))


def _is_made_in(loop: Loop, call: ast.Call) -> bool:
    """Whether each iteration of a loop makes an object anew."""
    if any(action.node is call for action in actions(loop.body)):
        return True
    return part_of(loop.node) is part_of(call) and contains(loop.node, call)


def _shuffles(sampler: ast.Call, semantics: Semantics) -> bool:
    """Whether a sampler certainly shuffles: by default, by ``True``, or by a parameter that is always true."""
    given = argument(sampler, 3, "shuffle")
    if given is None:
        return not has_unknown_arguments(sampler) and not _EVALUATION.search(_target(sampler))
    value = semantics.literal(given)
    if isinstance(given, ast.Name) and not isinstance(value, bool):
        return _is_always_true(given, semantics)
    return value is True and not _EVALUATION.search(_target(sampler))


def _is_always_true(name: ast.Name, semantics: Semantics) -> bool:
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].kind is not Binding.PARAMETER:
        return False
    parameter = definitions[0].node
    function = enclosing_function_of_parameter(parameter) if isinstance(parameter, ast.arg) else None
    if function is None or not isinstance(parameter, ast.arg):
        return False
    given = semantics.given_for(parameter, function)
    return bool(given) and all(semantics.literal(value) is True for value in given)


def _target(call: ast.Call) -> str:
    """The name or attribute that a call is assigned to; empty if none."""
    holder = parent_of(call)
    while isinstance(holder, ast.IfExp):
        holder = parent_of(holder)
    match holder:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return dotted(target) or ""
        case _:
            return ""


def _escapes(body: Flow, loader: ast.Call, samplers: list[ast.Call], semantics: Semantics) -> bool:
    """Whether unknown code is given the loader or sampler in a loop, and may call ``set_epoch``."""
    made = {loader, *samplers}
    for action in actions(body):
        name = (
            action.verb
            if action.verb not in ("?", "()", "...")
            else ast.unparse(getattr(action.node, "func", action.node))
        )
        if _HARMLESS.search(name) or action.node in made:
            continue
        if any(made & set(constructions(semantics, item.node).calls) for item in action.arguments if item.path):
            return True
    return False


def _spelled(sampler: ast.Call, loader: ast.Call, loop: Loop, semantics: Semantics) -> tuple[str, str] | None:
    """The sampler and the number of the epoch as they can be written at the head of a loop."""
    match loop.node:
        case ast.For(target=ast.Name(id=epoch), iter=source) if _counts(source, semantics):
            pass
        case _:
            return None
    for call, after in ((sampler, ""), (loader, ".sampler")):
        name = _target(call)
        if name and not isinstance(parent_of(call), ast.IfExp) and _is_known_at(call, name, loop.node):
            return f"{name}{after}", epoch
    return None


def _counts(source: ast.expr, semantics: Semantics) -> bool:
    while isinstance(source, ast.Call) and source.args and semantics.name(source.func).startswith("tqdm."):
        source = source.args[0]
    match source:
        case ast.Call(func=ast.Name(id="range") as function):
            return not semantics.definitions(function)
        case ast.Call(func=function):
            return semantics.is_named(function, "itertools.count", "tqdm.trange", "tqdm.auto.trange")
        case _:
            return False


def _is_known_at(call: ast.Call, name: str, place: ast.AST) -> bool:
    """Whether what a call is assigned to has the same name at another place, and no other."""
    holder = parent_of(call)
    if isinstance(parent_of(holder) if holder is not None else None, ast.If):
        return False  # there may be none
    if name.startswith("self."):
        owner = enclosing_class(call)
        return owner is not None and owner is enclosing_class(place)
    return enclosing_function(call) is enclosing_function(place)


def _insert(edit: Editor, loop: ast.AST, text: str) -> None:
    if not isinstance(loop, ast.For) or loop.body[0].lineno == loop.lineno:
        raise FixImpossible("the loop has no block")
    edit.insert_statement_before(loop.body[0], text)
