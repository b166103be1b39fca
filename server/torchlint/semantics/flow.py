"""What a function does to modules, optimizers and gradients, as a small structured tree.

A function is turned into its tree once. ``Expander`` then puts the trees of called functions of the same file in the
place of the calls, with the callee's parameters replaced by the caller's objects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchlint.semantics.kinds import Kind
from torchlint.semantics.scopes import FunctionNode


@dataclass(frozen=True, eq=False, slots=True)
class Ref:
    """An object as the source names it.

    ``path`` identifies it within one tree (``%model``: a parameter, ``$loss``: a local, ``self.net``: an attribute,
    ``::net``: a name of the module, ``...[]``: an element); empty for a value without a name. ``infer`` finds its kind
    when it is asked for: of most objects of a flow nobody asks, and who does depends on what the answer depends on.
    """

    path: str
    infer: Callable[[], Kind | None]
    node: ast.expr | None

    @property
    def kind(self) -> Kind | None:
        """What the object is, in the version of the file that is looked at now."""
        return self.infer()

    @property
    def shown(self) -> str:
        """The name as a reader knows it."""
        path = self.path.lstrip("%$:")
        return path.partition("@")[0] + path.partition("@")[2].lstrip("0123456789") if "@" in path else path


def unknown_kind() -> None:
    """The kind of an object of which nothing is known."""
    return


@dataclass(frozen=True, eq=False, slots=True)
class Action:
    """One call (or assignment to ``.grad``) that may matter.

    ``verb`` is the method's name for a method call, the canonical name for a call of a known function, ``()`` for
    calling an object, ``grad=`` for an assignment to ``.grad``, ``?`` for a call of something unknown, and ``...`` for
    a call of a function of this file that was not followed (recursion, or too deep).
    """

    verb: str
    receiver: Ref | None
    arguments: tuple[Ref, ...]
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """Steps in order."""

    steps: tuple[Flow, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """One of several arms is taken; a missing ``else`` is an empty arm."""

    test: ast.expr | None
    arms: tuple[Flow, ...]
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A body that is repeated over ``iterable`` (None for ``while``)."""

    iterable: Ref | None
    body: Flow
    orelse: Flow
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """A ``try``."""

    body: Flow
    handlers: tuple[Flow, ...]
    orelse: Flow
    final: Flow
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Within:
    """A body inside context managers (or a function under decorators); ``contexts`` are their canonical names, with
    the call that made them; an empty name stands for an unknown one."""

    contexts: tuple[tuple[str, ast.expr], ...]
    body: Flow
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Jump:
    """``return``, ``raise``, ``break`` or ``continue``."""

    to: str
    node: ast.AST


@dataclass(frozen=True, eq=False, slots=True)
class Invocation:
    """A call of a function of this file, not yet followed. ``receiver`` is what the callee knows as ``self``."""

    function: FunctionNode
    receiver: Ref | None
    bound: Mapping[str, Ref]
    arguments: tuple[Ref, ...]
    node: ast.Call


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """The body of a called function in place of the call."""

    function: FunctionNode
    body: Flow
    node: ast.Call


Flow = Steps | Branch | Loop | Attempt | Within | Jump | Invocation | Followed | Action
EMPTY: Flow = Steps(())


def sequence(steps: Sequence[Flow]) -> Flow:
    """Steps as one tree, without needless nesting."""
    flat: list[Flow] = []
    for step in steps:
        if isinstance(step, Steps):
            flat.extend(step.steps)
        else:
            flat.append(step)
    return flat[0] if len(flat) == 1 else Steps(tuple(flat))


def is_empty(flow: Flow) -> bool:
    return isinstance(flow, Steps) and not flow.steps


def children(flow: Flow) -> tuple[Flow, ...]:
    """The trees directly inside a tree, in the order of the source."""
    match flow:
        case Steps(steps=steps):
            return steps
        case Branch(arms=arms):
            return arms
        case Loop(body=body, orelse=orelse):
            return (body, orelse)
        case Attempt(body=body, handlers=handlers, orelse=orelse, final=final):
            return (body, *handlers, orelse, final)
        case Within(body=body) | Followed(body=body):
            return (body,)
        case _:
            return ()


def walk(flow: Flow) -> Iterator[Flow]:
    """A tree and all trees inside it, in the order of the source."""
    stack = [flow]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def actions(flow: Flow) -> Iterator[Action]:
    """All actions of a tree, in the order of the source."""
    for inner in walk(flow):
        if isinstance(inner, Action):
            yield inner


def pruned(flow: Flow, keep: Callable[[Action], bool]) -> Flow:
    """The tree with only the actions to keep, and with the structure around them and around jumps."""
    match flow:
        case Action():
            return flow if keep(flow) else EMPTY
        case Steps(steps=steps):
            return sequence([step for step in (pruned(step, keep) for step in steps) if not is_empty(step)])
        case Branch(test=test, arms=arms, node=node):
            kept = tuple(pruned(arm, keep) for arm in arms)
            return EMPTY if all(map(is_empty, kept)) else Branch(test, kept, node)
        case Loop(iterable=iterable, body=body, orelse=orelse, node=node):
            inner, after = pruned(body, keep), pruned(orelse, keep)
            kept_loop = _matters(inner, "raise", "return") or not is_empty(after)
            return Loop(iterable, inner, after, node) if kept_loop else EMPTY
        case Attempt(body=body, handlers=handlers, orelse=orelse, final=final, node=node):
            parts = [pruned(part, keep) for part in (body, *handlers, orelse, final)]
            if all(map(is_empty, parts)):
                return EMPTY
            return Attempt(parts[0], tuple(parts[1:-2]), parts[-2], parts[-1], node)
        case Within(contexts=contexts, body=body, node=node):
            inner = pruned(body, keep)
            return EMPTY if is_empty(inner) else Within(contexts, inner, node)
        case Followed(function=function, body=body, node=node):
            inner = pruned(body, keep)
            return Followed(function, inner, node) if _matters(inner, "raise") else EMPTY
        case Jump() | Invocation():
            return flow


def _matters(body: Flow, *jumps: str) -> bool:
    """Whether the body of a loop or called function has actions, or jumps that lead out of what holds it."""
    return any(isinstance(inner, Action) or (isinstance(inner, Jump) and inner.to in jumps) for inner in walk(body))
