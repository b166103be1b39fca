"""What a function does to modules, optimizers and gradients, as a small structured tree.

A function is turned into its tree once. ``Expander`` then puts the trees of called functions of the same file in the
place of the calls, with the callee's parameters replaced by the caller's objects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from torchlint.frozen import dataclass
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.scopes import FunctionNode


@dataclass(frozen=True, eq=False, slots=True)
class Ref:
    """An object as the source names it.

    ``path`` identifies it within one tree (``%model``: a parameter, ``$loss``: a local, ``self.net``: an attribute,
    ``::net``: a name of the module, ``...[]``: an element; before calls are followed ``^$net``: of the function
    around); empty for a value without a name. ``infer`` finds its kind when it is asked for: of most objects of a flow
    nobody asks, and who does depends on what the answer depends on.
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


def is_within(path: str, holder: str) -> bool:
    """Whether the path of a ``Ref`` is that of an object, or of something that the object holds."""
    return bool(holder) and (path == holder or path.startswith((f"{holder}.", f"{holder}[")))


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
    """The body of a called function in place of the call. ``given``: the object and the values that it was given."""

    function: FunctionNode
    body: Flow
    node: ast.Call
    given: tuple[Ref, ...] = ()


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


def with_children(flow: Flow, change: Callable[[Flow], Flow]) -> Flow:
    """A tree of the same form, with each tree directly inside it changed."""
    match flow:
        case Steps(steps=steps):
            return sequence([step for step in map(change, steps) if not is_empty(step)])
        case Branch(test=test, arms=arms, node=node):
            return Branch(test, tuple(map(change, arms)), node)
        case Loop(iterable=iterable, body=body, orelse=orelse, node=node):
            return Loop(iterable, change(body), change(orelse), node)
        case Attempt(body=body, handlers=handlers, orelse=orelse, final=final, node=node):
            return Attempt(change(body), tuple(map(change, handlers)), change(orelse), change(final), node)
        case Within(contexts=contexts, body=body, node=node):
            return Within(contexts, change(body), node)
        case Followed(function=function, body=body, node=node, given=given):
            return Followed(function, change(body), node, given)
        case _:
            return flow


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


#: Kinds of values that tell a called function nothing about training.
_PLAIN = frozenset((What.NUMBER, What.TEXT, What.NONE, What.DEVICE, What.DTYPE, What.GENERATOR))

_DISPLAYS = (ast.List, ast.Tuple, ast.Dict)


def only_passes_on(flow: Flow, asked: frozenset[str]) -> bool:
    """Whether a flow is one call of a function of this file, outside of loops and contexts, and adds nothing to what
    that function does by itself: as the ``main(parse_args())`` of a script. ``asked``: names of methods that matter."""
    calls: list[Followed] = []
    stack = [flow]
    while stack:
        current = stack.pop()
        match current:
            case Steps() | Branch() | Attempt():
                stack.extend(children(current))
            case Followed(body=body):
                if any(_is_about_training(action, asked) for action in actions(body)):
                    calls.append(current)
            case Action():
                if _is_about_training(current, asked):
                    return False
            case Loop() | Within():
                if any(_is_about_training(action, asked) for action in actions(current)):
                    return False
            case Jump() | Invocation():
                pass
    return len(calls) == 1 and all(map(_is_plain, calls[0].given))


def _is_about_training(action: Action, asked: frozenset[str]) -> bool:
    if action.verb.rpartition(".")[2] in asked:
        return True
    named = action.arguments if action.receiver is None else (action.receiver, *action.arguments)
    return not all(_is_plain(ref) or (not ref.path and isinstance(ref.node, _DISPLAYS)) for ref in named)


def _is_plain(ref: Ref) -> bool:
    kind = ref.kind
    return kind is None or kind.what in _PLAIN
