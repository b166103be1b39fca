from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.finding import Severity
from torchlint.idioms.training.constructors import constructor_actions
from torchlint.idioms.training.frameworks import Duty, owned_duties
from torchlint.idioms.training.paths import assigned_to, modules_at_root, path_at_root
from torchlint.idioms.training.vocabulary import BUILT, STEP, Optimizer, Training, training_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_flow
from torchlint.semantics.flow import Action, is_within
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, statement_of
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.typestate import Automaton, Violation, violations
from torchlint.semantics.unit import Root, Unit
from torchlint.syntax import parent_of

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


def _moves(state_when_built: bool) -> Automaton:
    """What a move leaves behind. A path on which there is no state is as good as none: who resumes has one."""
    return Automaton(
        start=_START,
        moves={
            **{(state, _MOVE): _MOVED for state in (_START, _MOVED)},
            **{(state, _SHARD): _MOVED for state in (_START, _MOVED)},
            (_START, BUILT): _STATE if state_when_built else _EMPTY,
            (_EMPTY, _LOAD): _STATE,
            # Where it was stepped, or is moved to and fro, the module is where it should be.
            **{(state, event): _MOVED for state in (_START, _EMPTY, _STATE) for event in (STEP, _SETTLED)},
            (_STATE, _MOVE): _DONE,
            (_DONE, BUILT): _MOVED,
        },
        wrong={(_STATE, _MOVE): "left behind"},
        neutral=frozenset((_EMPTY,)),
    )


_SHARDED = Automaton(
    start=_START,
    moves={
        **{(state, _SHARD): _MOVED for state in (_START, _MOVED)},
        (_START, BUILT): _EMPTY,
        **{(state, event): _MOVED for state in (_START, _EMPTY) for event in (STEP, _SETTLED)},
        (_EMPTY, _SHARD): _DONE,
        (_DONE, BUILT): _MOVED,
    },
    wrong={(_EMPTY, _SHARD): "sharded"},
)
_LATE_STATE, _EARLY_STATE = _moves(state_when_built=False), _moves(state_when_built=True)


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
    before; a move to the CPU or to another dtype; and state that is moved by hand.

    ## References

    - [torch.optim: constructing it](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    - [torch.distributed.fsdp.fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
    """

    code = "TL227"
    name = "optimizer-before-move"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "The optimizer keeps what the module had before it was moved."

    @on_flow("to", "cuda", "xpu", "Adagrad", "fully_shard", "FSDP", "FullyShardedDataParallel", also=("step",))
    def check(self, root: Root, unit: Unit) -> Iterator[Diagnosis]:
        found = training_of(unit.semantics, root)
        if not found.trains or Duty.STEPS in owned_duties(unit.semantics, root.function):
            return
        for optimizer in found.optimizers:
            modules = modules_at_root(found, optimizer)
            if not modules or not optimizer.builds or _moves_state(found, optimizer):
                continue
            early = any(unit.semantics.is_named(build.func, *_STATE_FROM_THE_START) for build in optimizer.builds)
            events = _Events(found, optimizer, modules)
            flow = found.flow_for(events.of)
            for automaton in (_SHARDED, _EARLY_STATE if early else _LATE_STATE):
                for violation in violations(automaton, flow, events.of)[:1]:
                    yield self._diagnosis(optimizer, violation, events, unit.semantics)

    def _diagnosis(
        self, optimizer: Optimizer, violation: Violation, events: _Events, semantics: Semantics
    ) -> Diagnosis:
        name, node = optimizer.ref.shown, events.place(violation.action, _MOVE, _SHARD)
        built, loaded = violation.last(BUILT), violation.last(_LOAD)
        build = events.place(built, BUILT) if built is not None else None
        related: list[tuple[ast.AST, str]] = [(build, "the optimizer is built here")] if build is not None else []
        if violation.problem == "sharded":
            severity = Severity.ERROR
            message = f"`{name}` was built before: sharding makes new parameters, which it never trains."
        else:
            severity = Severity.HINT
            message = f"The state of `{name}` stays on the old device: the next step raises if the new one is another."
            if loaded is not None:
                related.append((events.place(loaded, _LOAD), "its state is loaded here"))
        fixes = []
        if build is not None and _can_move(semantics, build, node):
            title = f"Build `{name}` behind the move" if violation.problem != "sharded" else f"Build `{name}` behind it"
            fixes.append(
                FixPlan(title, "unsafe", lambda edit: edit.move_after(statement_of(build), statement_of(node)))
            )
        return self.found(node, message, related=related, fixes=fixes, severity=severity)


class _Events:
    """What happens to an optimizer and its modules, action by action. What the constructor of a class of the file does
    happens where an object is made: ``places`` tells where it stands."""

    def __init__(self, found: Training, optimizer: Optimizer, modules: frozenset[str]) -> None:
        self._found, self._optimizer, self._modules = found, optimizer, modules
        self._basic = found.events_of(optimizer)
        self._known: dict[Action, tuple[tuple[str, ast.AST], ...]] = {}

    def of(self, action: Action) -> tuple[str, ...]:
        """The events of an action, as a classifier for ``typestate``."""
        return tuple(event for event, _ in self._all(action))

    def place(self, action: Action, *events: str) -> ast.AST:
        """Where one of these events happens in an action."""
        return next((node for event, node in self._all(action) if event in events), action.node)

    def _all(self, action: Action) -> tuple[tuple[str, ast.AST], ...]:
        if action not in self._known:
            self._known[action] = tuple(self._find(action))
        return self._known[action]

    def _find(self, action: Action) -> Iterator[tuple[str, ast.AST]]:
        receiver = action.receiver
        path = receiver.path if receiver is not None else ""
        if not path and (target := assigned_to(action.node)) is not None and action.verb in _MOVES:
            path = path_at_root(self._found, action, target)  # net = Net().to(device)
        event = self._event(action, [path] if path else [], [ref.path for ref in action.arguments[:1]])
        if event:
            yield event, action.node
        elif (basic := [name for name in self._basic(action) if name in (BUILT, STEP)]) and not event:
            yield basic[0], action.node
        else:
            for inner, seen in constructor_actions(self._found, action):
                given = [path for ref in inner.arguments[:1] for path in seen(ref.path)]
                own = seen(inner.receiver.path) if inner.receiver is not None else []
                if inner.node in self._optimizer.builds:
                    yield BUILT, inner.node
                elif event := self._event(inner, own, given):
                    yield event, inner.node

    def _event(self, action: Action, receiver: list[str], first: list[str]) -> str:
        """The event of a call, by the paths that its receiver and its first argument have at the root."""
        if action.verb == "load_state_dict":
            return _LOAD if self._optimizer.path in receiver else ""
        if action.verb in _SHARDS and isinstance(action.node, ast.Call):
            keeps = any(keyword.arg in ("use_orig_params", None) for keyword in action.node.keywords)
            held = any(path and is_within(path, module) for path in first for module in self._modules)
            return _SHARD if held and not keeps else ""
        if action.verb in _MOVES and any(is_within(module, path) for path in receiver for module in self._modules):
            return _MOVE if _may_change_device(self._found, action) else _SETTLED
        return ""


def _moves_state(found: Training, optimizer: Optimizer) -> bool:
    """Whether the state of an optimizer is moved by hand: ``for state in optimizer.state.values(): ...``."""
    return any(
        action.receiver is not None and action.receiver.path == f"{optimizer.path}.state" for action in found.actions
    )


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


def _can_move(semantics: Semantics, build: ast.AST, move: ast.AST) -> bool:
    """Whether both are statements of one block, and nothing from one to the other uses the optimizer, in the program
    neither in a function that is called."""
    if enclosing_function(build) is not enclosing_function(move):
        return False
    first, last = statement_of(build), statement_of(move)
    block = semantics.block_of(first)
    if first not in block or last not in block or not isinstance(first, ast.Assign) or len(first.targets) != 1:
        return False
    name = ast.unparse(first.targets[0])
    between = block[block.index(first) + 1 : block.index(last) + 1]
    nodes = [node for statement in between for node in ast.walk(statement)]
    if parent_of(first) is None:
        called = (semantics.local_function(node.func) for node in nodes if isinstance(node, ast.Call))
        nodes += [node for function in called if function is not None for node in ast.walk(function)]
    return not any(isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name for node in nodes)
