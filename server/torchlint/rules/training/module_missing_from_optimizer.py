from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.asked_modules import OF_MODULES, AskedModules
from torchlint.idioms.modules.module_uses import uses_of
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.idioms.training.construction import constructions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.gradient_graph import loss_of
from torchlint.idioms.training.graph_sources import sources_of
from torchlint.idioms.training.new_modules import FIXED, builds_of, is_to_learn
from torchlint.idioms.training.parameter_groups import lost_groups
from torchlint.idioms.values.identity import object_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_call
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_OPTIMIZERS = tuple(name for name in torch_api.names_of_role("optimizer") if name != "torch.optim.Optimizer")
_LAST_NAMES = tuple(sorted({name.rpartition(".")[2] for name in _OPTIMIZERS}))
_PARAMETERS = ("parameters", "named_parameters")
_MOST_NAMES = 40
_TOLD_BY = (*OF_MODULES, "train", "eval", "zero_grad", "apply")


@dataclass(frozen=True, eq=False, slots=True)
class _Missing:
    """``call`` runs the module that ``build`` makes, on the way of a loss."""

    call: ast.Call
    build: ast.Call
    name: str


class ModuleMissingFromOptimizer(Rule):
    """## What it does

    Points out an optimizer that trains one of the modules on the way of a loss, while another one, built in the same
    file, is given to no optimizer. Also a parameter group that is filled and then not given to the optimizer.

    ## Why is this bad?

    `backward()` computes gradients for the forgotten module too, and nothing uses them: it stays as it was initialised.
    The loss still falls, because the other modules learn to live with it, and the result is worse than it could be.

    ## Example

    ```python
    import torch


    def train(loader, criterion):
        encoder = torch.nn.Linear(64, 8)
        decoder = torch.nn.Linear(8, 64)
        optimizer = torch.optim.Adam(encoder.parameters())
        for x in loader:
            optimizer.zero_grad()
            loss = criterion(decoder(encoder(x)), x)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(loader, criterion):
        encoder = torch.nn.Linear(64, 8)
        decoder = torch.nn.Linear(8, 64)
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
        for x in loader:
            optimizer.zero_grad()
            loss = criterion(decoder(encoder(x)), x)
            loss.backward()
            optimizer.step()
    ```

    ## Exceptions

    Modules whose parameters anything else may have got hold of; frozen ones, teachers, target networks, averages of
    weights and perceptual losses, by what is done to them, by their names, or by a comment; modules that load their
    weights; loops that a framework runs.

    ## References

    - [torch.optim: constructing an optimizer](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    """

    code = "TL226"
    name = "module-missing-from-optimizer"
    level = Level.HINT
    summary = "A module on the way of the loss keeps the weights that it was initialised with."

    @on_call(*_OPTIMIZERS)
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        given = argument(call, 0, "params")
        function = enclosing_function(call)
        if given is None or Duty.STEPS in owned_duties(semantics, function) or is_stated(call, FIXED):
            return
        for group in lost_groups(semantics, call, given):
            kind = semantics.name(call.func).rpartition(".")[2]
            message = f"The parameter group `{group.name}` is filled, but `{kind}` does not receive it."
            yield self.found(call, message, related=[(group.node, "the group"), (group.filled, "filled here")])
            return
        missing = list(_missing_from(semantics, call))
        if missing:
            yield self._diagnosis(semantics, call, missing)

    def _diagnosis(self, semantics: Semantics, optimizer: ast.Call, missing: list[_Missing]) -> Diagnosis:
        names = [f"`{item.name}`" for item in missing]
        shown = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        verb, object_ = ("are", "them") if len(names) > 1 else ("is", "it")
        message = f"{shown} {verb} on the way of the loss, but no optimizer receives {object_}."
        related: list[tuple[ast.AST, str]] = []
        for item in missing[:3]:
            related.append((item.build, "built here"))
            related.append((item.call, "on the way of the loss"))
        return self.found(optimizer, message, related=related)


def _missing_from(semantics: Semantics, optimizer: ast.Call) -> Iterator[_Missing]:
    """The modules that share a loss with those of an optimizer and that no optimizer has."""
    optimizers = _optimizers(semantics)
    trained = optimizers.get(optimizer)
    if not trained:
        return
    told: set[ast.AST] = set()
    for origins in _losses(semantics):
        known = frozenset[ast.AST]().union(*origins.values())
        # The first optimizer that trains one of these modules stands for the others.
        first = next((build for build, given in optimizers.items() if not known.isdisjoint(given)), None)
        if first is not optimizer:
            continue
        for call, found in origins.items():
            missing = _missing(semantics, call) if trained.isdisjoint(found) else None
            if missing is not None and missing.build not in told:
                told.add(missing.build)
                yield missing


def _optimizers(semantics: Semantics) -> dict[ast.Call, frozenset[ast.AST]]:
    """The optimizers that are built in the file, with what builds the modules that each is given."""

    def compute() -> dict[ast.Call, frozenset[ast.AST]]:
        found: dict[ast.Call, frozenset[ast.AST]] = {}
        for name in _LAST_NAMES:
            for call in semantics.module.calls_of(name):
                given = argument(call, 0, "params")
                if given is not None and semantics.is_named(call.func, *_OPTIMIZERS):
                    found[call] = _origins_given(semantics, given)
        return found

    return semantics.module.memo.get(("modules of optimizers",), compute, {})


def _origins_given(semantics: Semantics, given: ast.expr) -> frozenset[ast.AST]:
    """What the modules are built by whose parameters an optimizer is given, as far as that is known."""
    found: set[ast.AST] = set()
    queue: list[ast.expr] = [given]
    seen: set[ast.AST] = set()
    while queue and len(seen) < _MOST_NAMES:
        expression = queue.pop()
        if expression in seen:
            continue
        seen.add(expression)
        for call in nodes_within(expression, ast.Call):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _PARAMETERS:
                found |= _with_parts(semantics, _origins(semantics, call.func.value))
        for name in nodes_within(expression, ast.Name):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                queue.extend(item.value for item in semantics.definitions(name) if item.value is not None)
    return frozenset(found)


def _with_parts(semantics: Semantics, origins: frozenset[ast.AST]) -> frozenset[ast.AST]:
    """The same with the modules that one of them is built from: ``Sequential(encoder, decoder)``."""
    parts: set[ast.AST] = set(origins)
    for build in origins:
        for item in build.args if isinstance(build, ast.Call) else ():
            if isinstance(item, ast.Name | ast.Attribute):
                parts |= _origins(semantics, item)
    return frozenset(parts)


def _origins(semantics: Semantics, module: ast.expr) -> frozenset[ast.AST]:
    """The calls that build a module, or the parameter that receives it; for ``net.head`` also those of ``net``."""
    if isinstance(module, ast.Attribute) and module.attr == "forward":
        module = module.value
    found: set[ast.AST] = set(constructions(semantics, module).calls)
    origin = object_of(semantics, module)
    if origin is not None:
        found.add(origin)
    if not found and isinstance(module, ast.Attribute) and semantics.class_of_self(module.value) is None:
        return _origins(semantics, module.value)
    return frozenset(found)


def _losses(semantics: Semantics) -> tuple[dict[ast.Call, frozenset[ast.AST]], ...]:
    """The calls of modules that each backward pass of the file goes through, with what builds each module."""

    def compute() -> tuple[dict[ast.Call, frozenset[ast.AST]], ...]:
        asked = AskedModules(semantics, _TOLD_BY)
        backward = [call for call in semantics.module.calls_of("backward") if isinstance(call.func, ast.Attribute)]
        losses = [loss for call in backward if (loss := loss_of(semantics, call)) is not None]
        calls = [sources_of(semantics, loss, trained=asked).calls for loss in losses]
        return tuple({call: _origins(semantics, call.func) for call in found} for found in calls if len(found) > 1)

    return semantics.module.memo.get(("modules of losses",), compute, ())


def _missing(semantics: Semantics, call: ast.Call) -> _Missing | None:
    """The module that a call runs, if its layers are new, meant to learn, and in no optimizer."""
    builds = builds_of(semantics, call.func)
    if not builds or not all(_is_forgotten(semantics, build) for build in builds):
        return None
    return _Missing(call, builds[0], dotted(call.func) or ast.unparse(call.func))


def _is_forgotten(semantics: Semantics, build: ast.Call) -> bool:
    uses = uses_of(semantics, build)
    return not uses.escapes and bool(uses.names) and is_to_learn(semantics, build, uses)
