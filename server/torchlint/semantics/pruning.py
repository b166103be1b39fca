"""Cutting a flow down to the actions that a rule asks about, many times over.

Most of a flow says nothing to most rules. What is left of a tree without any of its actions, the ways that leave it, is
found once for all rules; pruning then touches only what leads to the actions that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.semantics.flow import (
    EMPTY,
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
    children,
    is_empty,
    sequence,
    walk,
    with_children,
)


class Pruner:
    """Prunes one flow. The pruned tree means the same to ``typestate`` as the whole one in which the other actions have
    no events, but for loops in which nothing happens: they count as no iteration."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._holders: dict[Flow, Flow] = {}
        self._bare: dict[Flow, Flow] = {}
        for outer in walk(flow):
            for inner in children(outer):
                if not isinstance(inner, Jump):
                    self._holders[inner] = outer

    def keeping(self, kept: Iterable[Action]) -> Flow:
        """The tree with only these of its actions, and with the structure around them and around jumps."""
        marked: set[Flow] = set()
        for action in kept:
            current: Flow | None = action
            while current is not None and current not in marked:
                marked.add(current)
                current = self._holders.get(current)
        return self._cut(self._flow, marked)

    def _cut(self, flow: Flow, marked: set[Flow]) -> Flow:
        if flow not in marked:
            return self._without_actions(flow)
        return with_children(flow, lambda inner: self._cut(inner, marked))

    def _without_actions(self, flow: Flow) -> Flow:
        """What is left of a tree without its actions; EMPTY where it does nothing but let everything pass."""
        if isinstance(flow, Jump):
            return flow
        bare = self._bare.get(flow)
        if bare is None:
            bare = self._bare[flow] = self._bared(flow)
        return bare

    def _bared(self, flow: Flow) -> Flow:
        match flow:
            case Steps(steps=steps):
                return sequence([step for step in map(self._without_actions, steps) if not is_empty(step)])
            case Branch(test=test, arms=arms, node=node):
                bare = tuple(map(self._without_actions, arms))
                passes = any(map(is_empty, bare)) and all(is_empty(arm) or _raises(arm) for arm in bare)
                return EMPTY if passes else Branch(test, bare, node)
            case Loop(iterable=iterable, body=body, orelse=orelse, node=node):
                inner, after = self._without_actions(body), self._without_actions(orelse)
                returns = any(isinstance(jump, Jump) and jump.to == "return" for jump in walk(inner))
                return Loop(iterable, inner, after, node) if returns or not is_empty(after) else EMPTY
            case Attempt(body=body, handlers=handlers, orelse=orelse, final=final, node=node):
                parts = [self._without_actions(part) for part in (body, orelse, final)]
                caught = tuple(map(self._without_actions, handlers))
                passes = all(map(is_empty, parts)) and all(is_empty(arm) or _raises(arm) for arm in caught)
                return EMPTY if passes else Attempt(parts[0], caught, parts[1], parts[2], node)
            case Within(body=body):
                return self._without_actions(body)
            case Followed(function=function, body=body, node=node, given=given):
                inner = self._without_actions(body)
                return Followed(function, inner, node, given) if _never_returns(inner) else EMPTY
            case Action() | Jump() | Invocation():
                return EMPTY


def _raises(bare: Flow) -> bool:
    return isinstance(bare, Jump) and bare.to == "raise"


def _never_returns(bare: Flow) -> bool:
    """Whether a tree without actions, the body of a function, can only end by raising."""
    match bare:
        case Jump(to=to):
            return to == "raise"
        case Steps(steps=steps):
            for step in steps:
                if any(isinstance(jump, Jump) and jump.to == "return" for jump in walk(step)):
                    return False
                if _never_returns(step):
                    return True
            return False
        case Branch(arms=arms):
            return all(map(_never_returns, arms))
        case Attempt(body=body, handlers=handlers, final=final):
            return _never_returns(final) or (_never_returns(body) and all(map(_never_returns, handlers)))
        case Followed():
            return True
        case _:
            return False
