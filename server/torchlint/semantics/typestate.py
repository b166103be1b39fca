"""Rules about order as tables: the states of one object, which event moves where, what is wrong in which state.

The engine runs a table over an expanded flow. Branches are joined as sets of states; a loop is run again with what
its body left, until nothing new comes; jumps carry their states to where they lead. Each state carries the events
that led there, for the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.semantics.flow import (
    Action,
    Attempt,
    Branch,
    Flow,
    Followed,
    Invocation,
    Jump,
    Loop,
    Steps,
    Within,
)


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """An event that was seen, and the action that it was."""

    event: str
    action: Action


#: The event of beginning another iteration of a loop, for tables that tell this iteration from the one before.
NEXT_ITERATION = "next iteration"

Trail = tuple[Step, ...]
States = dict[str, Trail]
Classify = Callable[[Action], Iterable[str]]


@dataclass(frozen=True)
class Automaton:
    """``moves`` maps (state, event) to the next state; a pair that is absent leaves the state.

    ``wrong`` maps (state, event) to the name of what is wrong. With ``on_every_path`` a problem is told only where
    all paths that lead to the place are wrong; else one path is enough. Paths in ``neutral`` states do not count
    (without mixed precision it does not matter whether gradients were unscaled).
    """

    start: str
    moves: Mapping[tuple[str, str], str]
    wrong: Mapping[tuple[str, str], str]
    on_every_path: bool = True
    neutral: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class Violation:
    """``problem`` at ``action``; ``trail`` holds the events before it, ``loops`` the loops around it, inner last."""

    problem: str
    action: Action
    trail: Trail
    loops: tuple[Loop, ...]

    def last(self, event: str) -> Action | None:
        """The latest action of one event on the way to the violation."""
        return next((step.action for step in reversed(self.trail) if step.event == event), None)


@dataclass(eq=False, slots=True)
class _Outcome:
    falls: States = field(default_factory=dict)
    breaks: States = field(default_factory=dict)
    continues: States = field(default_factory=dict)
    returns: States = field(default_factory=dict)


_LONGEST_TRAIL = 24
#: A loop's states that still change after so many passes are taken as they are then.
_MOST_PASSES = 8


def violations(automaton: Automaton, flow: Flow, classify: Classify) -> list[Violation]:
    """All places of a flow at which the table says that something is wrong, each once, in the order found."""
    engine = _Engine(automaton, classify)
    engine.run(flow, {automaton.start: ()})
    return list(engine.found.values())


class _Engine:
    def __init__(self, automaton: Automaton, classify: Classify) -> None:
        self._automaton = automaton
        self._classify = classify
        self._loops: list[Loop] = []
        self.found: dict[tuple[str, int], Violation] = {}

    def run(self, flow: Flow, states: States) -> _Outcome:
        if not states:
            return _Outcome()
        match flow:
            case Action():
                return _Outcome(self._act(flow, states))
            case Steps(steps=steps):
                outcome = _Outcome(states)
                for step in steps:
                    if not outcome.falls:
                        break
                    _follow_by(outcome, self.run(step, outcome.falls))
                return outcome
            case Branch(arms=arms):
                return _joined([self.run(arm, states) for arm in arms])
            case Loop():
                return self._loop(flow, states)
            case Attempt():
                return self._attempt(flow, states)
            case Within(body=body):
                return self.run(body, states)
            case Followed(body=body):
                inner = self.run(body, states)
                return _Outcome(_union(inner.falls, inner.returns))
            case Jump(to="break"):
                return _Outcome(breaks=states)
            case Jump(to="continue"):
                return _Outcome(continues=states)
            case Jump(to="return"):
                return _Outcome(returns=states)
            case Jump() | Invocation():
                return _Outcome() if isinstance(flow, Jump) else _Outcome(states)

    def _act(self, action: Action, states: States) -> States:
        for event in self._classify(action):
            states = self._event(event, action, states)
        return states

    def _event(self, event: str, action: Action, states: States) -> States:
        automaton = self._automaton
        live = [state for state in states if state not in automaton.neutral]
        bad = [state for state in live if (state, event) in automaton.wrong]
        if bad and (len(bad) == len(live) or not automaton.on_every_path):
            for state in bad:
                problem = automaton.wrong[state, event]
                key = (problem, id(action.node))
                if key not in self.found:
                    self.found[key] = Violation(problem, action, states[state], tuple(self._loops))
        moved: States = {}
        for state, trail in states.items():
            target = automaton.moves.get((state, event), state)
            longer = (*trail, Step(event, action))[-_LONGEST_TRAIL:]
            moved.setdefault(target, longer)
        return moved

    def _loop(self, loop: Loop, states: States) -> _Outcome:
        self._loops.append(loop)
        result = _Outcome()
        entered: list[set[str]] = []
        leaves: States = {} if self._automaton.on_every_path else dict(states)
        current = ends = states
        # What is wrong depends on the set of states alone, so a set that was there before brings nothing new. In loops
        # inside loops each pass that is left out counts double.
        while current.keys() not in entered and len(entered) < _MOST_PASSES:
            entered.append(set(current))
            outcome = self.run(loop.body, current)
            result.returns = _union(result.returns, outcome.returns)
            leaves = _union(leaves, outcome.breaks)
            # A cycle that runs to its end counts before one that was cut short by `continue`.
            ends = outcome.falls or outcome.continues
            if not self._automaton.on_every_path:
                ends = _union(outcome.falls, outcome.continues)
            current = self._next_iteration(ends)
            if not ends:
                break
        self._loops.pop()
        after = self.run(loop.orelse, _union(ends, {}))
        result.returns = _union(result.returns, after.returns)
        result.falls = _union(after.falls, leaves) or dict(states)
        return result

    def _next_iteration(self, states: States) -> States:
        moves = self._automaton.moves
        moved: States = {}
        for state, trail in states.items():
            moved.setdefault(moves.get((state, NEXT_ITERATION), state), trail)
        return moved

    def _attempt(self, attempt: Attempt, states: States) -> _Outcome:
        outcome = _Outcome(states)
        for part in (attempt.body, attempt.orelse):
            if outcome.falls:
                _follow_by(outcome, self.run(part, outcome.falls))
        if not self._automaton.on_every_path or not outcome.falls:
            started = _union(states, outcome.falls)
            handled = _joined([self.run(handler, started) for handler in attempt.handlers])
            outcome = _joined([outcome, handled])
        if outcome.falls:
            _follow_by(outcome, self.run(attempt.final, outcome.falls))
        return outcome


def _follow_by(outcome: _Outcome, later: _Outcome) -> None:
    outcome.falls = later.falls
    outcome.breaks = _union(outcome.breaks, later.breaks)
    outcome.continues = _union(outcome.continues, later.continues)
    outcome.returns = _union(outcome.returns, later.returns)


def _joined(outcomes: list[_Outcome]) -> _Outcome:
    result = _Outcome()
    for outcome in outcomes:
        result.falls = _union(result.falls, outcome.falls)
        result.breaks = _union(result.breaks, outcome.breaks)
        result.continues = _union(result.continues, outcome.continues)
        result.returns = _union(result.returns, outcome.returns)
    return result


def _union(first: States, second: States) -> States:
    if not first or first is second:
        return dict(second)
    return {**second, **first}
