from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.finding import Severity
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.paths import assigned_to, is_within, path_at_root
from torchlint.idioms.training.vocabulary import BUILT, STEP, Optimizer, Training, block_of, statement_of, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit

_MOVE, _SHARD, _LOAD, _SETTLED = "moved", "sharded", "state loaded", "moved to the CPU"
_START, _MOVED, _EMPTY, _STATE, _DONE = "start", "moved first", "built", "with state", "moved later"
_SHARDS = frozenset(
    (
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed._composable.fsdp.fully_shard",
        "torch.distributed.fsdp.FullyShardedDataParallel",
    )
)
_MOVES = frozenset(("to", "cuda", "xpu", "cpu"))
#: These make their state when they are built (torch 2.13), all others at the first step.
_STATE_FROM_THE_START = frozenset(("torch.optim.Adagrad",))


def _table(state_when_built: bool) -> Automaton:
    built = _STATE if state_when_built else _EMPTY
    return Automaton(
        start=_START,
        moves={
            **{(state, _MOVE): _MOVED for state in (_START, _MOVED)},
            **{(state, _SHARD): _MOVED for state in (_START, _MOVED)},
            (_START, BUILT): built,
            (_EMPTY, _LOAD): _STATE,
            # Where it was stepped, or is moved to and fro, the module is where it should be.
            **{(state, event): _MOVED for state in (_START, _EMPTY, _STATE) for event in (STEP, _SETTLED)},
            (_STATE, _MOVE): _DONE,
            **{(state, _SHARD): _DONE for state in (_EMPTY, _STATE)},
            (_DONE, BUILT): _MOVED,
        },
        wrong={(_STATE, _MOVE): "left behind", **{(state, _SHARD): "sharded" for state in (_EMPTY, _STATE)}},
    )


_LATE_STATE, _EARLY_STATE = _table(state_when_built=False), _table(state_when_built=True)


class OptimizerBeforeMove(Rule):
    """## What it does

    Points out a module that is moved to its device when its optimizer has state already: `Adagrad`, which makes it at
    once, or any optimizer after `load_state_dict()`. Reports as an error a module that is sharded
    (`fully_shard`) after its optimizer was built.

    ## Why is this bad?

    `model.to(device)` moves the parameters and leaves the state of the optimizer on the old device, so that the next
    step raises where the devices differ. `fully_shard` puts new parameters in place of the old ones: the optimizer goes
    on with those that nothing uses, and the model does not train.

    ## Example

    ```python
    import torch


    def train(model: torch.nn.Module, loader, device):
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
        model.to(device)
        for x in loader:
            optimizer.zero_grad()
            model(x.to(device)).sum().backward()
            optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def train(model: torch.nn.Module, loader, device):
        model.to(device)
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
        for x in loader:
            optimizer.zero_grad()
            model(x.to(device)).sum().backward()
            optimizer.step()
    ```

    ## Exceptions

    A move before the first step, which keeps the parameter objects that the optimizer has; a module that was moved
    before; a move to the CPU or to another dtype.

    ## References

    - [torch.optim: constructing it](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    - [torch.distributed.fsdp.fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
    """

    code = "TL227"
    name = "optimizer-before-move"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "The optimizer keeps what the module had before it was moved."

    @on_flow("to", "cuda", "xpu", "fully_shard", "FSDP", "FullyShardedDataParallel", also=("step",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            if not optimizer.modules or not optimizer.builds:
                continue
            early = any(unit.semantics.is_named(build.func, *_STATE_FROM_THE_START) for build in optimizer.builds)
            classify = _classifier(found, optimizer)
            flow = found.flow_for(classify)
            for violation in violations(_EARLY_STATE if early else _LATE_STATE, flow, classify):
                yield self._diagnosis(optimizer, violation)
                break

    def _diagnosis(self, optimizer: Optimizer, violation: Violation) -> Diagnosis:
        name, node = optimizer.ref.shown, violation.action.node
        built = violation.last(BUILT)
        related: list[tuple[ast.AST, str]] = [(built.node, "the optimizer is built here")] if built is not None else []
        loaded = violation.last(_LOAD)
        if violation.problem == "sharded":
            severity = Severity.ERROR
            message = f"`{name}` was built before: sharding makes new parameters, which it never trains."
        else:
            severity = Severity.HINT
            message = f"The state of `{name}` stays on the old device: the next step raises if the new one is another."
            if loaded is not None:
                related.append((loaded.node, "its state is loaded here"))
        fixes = []
        if built is not None and _can_move(built.node, node):
            title = f"Build `{name}` behind the move" if violation.problem != "sharded" else f"Build `{name}` behind it"
            fixes.append(
                FixPlan(title, "unsafe", lambda edit: edit.move_after(statement_of(built.node), statement_of(node)))
            )
        return self.found(node, message, related=related, fixes=fixes, severity=severity)


def _classifier(found: Training, optimizer: Optimizer) -> Callable[[Action], tuple[str, ...]]:
    events = found.events_of(optimizer)
    known: dict[Action, tuple[str, ...]] = {}

    def classify(action: Action) -> tuple[str, ...]:
        if action not in known:
            told = tuple(name for name in events(action) if name in (BUILT, STEP))
            event = _event(found, optimizer, action)
            known[action] = (event,) if event else told
        return known[action]

    return classify


def _event(found: Training, optimizer: Optimizer, action: Action) -> str:
    receiver = action.receiver
    modules = optimizer.modules or frozenset()
    if action.verb == "load_state_dict" and receiver is not None and receiver.path == optimizer.path:
        return _LOAD
    if action.verb in _SHARDS and action.arguments and isinstance(action.node, ast.Call):
        keeps = any(keyword.arg in ("use_orig_params", None) for keyword in action.node.keywords)
        path = action.arguments[0].path
        return _SHARD if not keeps and any(is_within(path, module) for module in modules) else ""
    if action.verb in _MOVES and _is_moved(found, action, modules):
        return _MOVE if _may_change_device(found, action) else _SETTLED
    return ""


def _is_moved(found: Training, action: Action, modules: frozenset[str]) -> bool:
    """Whether a conversion is of a module, by its name or where it is made (``net = Net().to(device)``)."""
    path = action.receiver.path if action.receiver is not None else ""
    if not path and (target := assigned_to(action.node)) is not None:
        path = path_at_root(found, action, target)
    return any(is_within(module, path) for module in modules)


def _may_change_device(found: Training, action: Action) -> bool:
    """Whether a conversion may be to another device than the one that modules are made on."""
    if action.verb != "to" or not isinstance(action.node, ast.Call):
        return action.verb != "cpu"
    given = [*action.node.args, *(keyword.value for keyword in action.node.keywords)]
    kinds = [found.semantics.kind(item) for item in given]
    return any(
        (kind is None or kind.what is not What.DTYPE) and found.semantics.literal(item) != "cpu"
        for item, kind in zip(given, kinds, strict=True)
    )


def _can_move(build: ast.AST, move: ast.AST) -> bool:
    """Whether both are statements of one block, and nothing from one to the other uses the optimizer."""
    if enclosing_function(build) is not enclosing_function(move):
        return False
    first, last = statement_of(build), statement_of(move)
    block = block_of(first)
    if first not in block or last not in block or not isinstance(first, ast.Assign) or len(first.targets) != 1:
        return False
    name = ast.unparse(first.targets[0])
    between = block[block.index(first) + 1 : block.index(last) + 1]
    return not any(
        isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name
        for statement in between
        for node in ast.walk(statement)
    )
