"""Following calls: the flow of a called function of the same file in the place of the call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count

from torchlint.frozen import dataclass
from torchlint.semantics.flow import (
    Action,
    Flow,
    Followed,
    Invocation,
    Loop,
    Ref,
    with_children,
)
from torchlint.semantics.kinds import Kind
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.tracing import Tracer

#: Calls are followed this deep, and until a tree holds this many steps: beyond that nobody could follow the message.
_DEEPEST = 5
_LARGEST = 4000


@dataclass(frozen=True, eq=False)
class _Context:
    """How the names of one called function read in the function at the root."""

    parameters: Mapping[str, Ref]
    receiver: Ref | None
    #: What makes the callee's own locals distinct from those of others; empty at the root.
    suffix: str
    active: tuple[FunctionNode, ...]
    #: Of the function that made the call.
    caller: _Context | None = None

    def around(self) -> _Context | None:
        """The context of the function in which the called function is defined, if that is being followed."""
        holder = enclosing_function(self.active[-1]) if self.active else None
        context = self.caller
        while context is not None and (not context.active or context.active[-1] is not holder):
            context = context.caller
        return context


class Expander:
    """Expands one root; used once."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._calls = count(1)
        self._size = 0

    def function(self, root: FunctionNode) -> Flow:
        """The flow of ``root`` with the calls it makes followed."""
        return self._expand(self._tracer.function(root), _Context({}, None, "", (root,)))

    def module(self, flow: Flow) -> Flow:
        """The flow of the module's own code with the calls it makes followed."""
        return self._expand(flow, _Context({}, None, "", ()))

    def _expand(self, flow: Flow, context: _Context) -> Flow:
        self._size += 1
        match flow:
            case Loop(iterable=iterable, body=body, orelse=orelse, node=node):
                source = self._ref(iterable, context) if iterable is not None else None
                return Loop(source, self._expand(body, context), self._expand(orelse, context), node)
            case Action(verb=verb, receiver=receiver, arguments=arguments, node=node):
                return Action(
                    verb,
                    self._ref(receiver, context) if receiver is not None else None,
                    tuple(self._ref(item, context) for item in arguments),
                    node,
                )
            case Invocation():
                return self._follow(flow, context)
            case Followed():
                return flow
            case _:
                return with_children(flow, lambda inner: self._expand(inner, context))

    def _follow(self, call: Invocation, context: _Context) -> Flow:
        function = call.function
        arguments = tuple(self._ref(item, context) for item in call.arguments)
        receiver = self._ref(call.receiver, context) if call.receiver is not None else None
        if function in context.active or len(context.active) > _DEEPEST or self._size > _LARGEST:
            return Action("...", receiver, arguments, call.node)
        bound = {name: self._ref(item, context) for name, item in call.bound.items()}
        suffix = f"@{next(self._calls)}"
        inner = _Context(bound, receiver, suffix, (*context.active, function), context)
        given = arguments if receiver is None else (receiver, *arguments)
        return Followed(function, self._expand(self._tracer.function(function), inner), call.node, given)

    def _ref(self, ref: Ref, context: _Context) -> Ref:
        """A callee's object as an object of the root."""
        path = ref.path
        if path.startswith("^"):
            around = context.around()
            outer = Ref(path[1:], ref.infer, ref.node)
            return self._ref(outer, around) if around is not None else Ref(path.lstrip("^"), ref.infer, ref.node)
        if not context.suffix or not path:
            return ref
        head, rest = _split(path)
        if head.startswith("%"):
            argument = context.parameters.get(head[1:])
            if argument is None:
                return Ref(f"${head[1:]}{context.suffix}{rest}", ref.infer, ref.node)
            return self._substituted(argument, rest, ref)
        if head == "self":
            if context.receiver is None:
                around = context.around()
                return self._ref(ref, around) if around is not None else ref
            if context.receiver.path == "self":
                return ref
            return self._substituted(context.receiver, rest, ref)
        if head.startswith("$"):
            return Ref(f"{head}{context.suffix}{rest}", ref.infer, ref.node)
        return ref

    def _substituted(self, argument: Ref, rest: str, ref: Ref) -> Ref:
        path = f"{argument.path}{rest}" if argument.path else ""
        if rest:
            return Ref(path, ref.infer, ref.node)
        return Ref(path, partial(_better_kind, argument, ref), argument.node or ref.node)


def _better_kind(argument: Ref, parameter: Ref) -> Kind | None:
    """What an object is by what the caller gives, or by what the callee says of its parameter if that is surer."""
    given, taken = argument.kind, parameter.kind
    if given is None or (taken is not None and taken.grade > given.grade):
        return taken
    return given


def _split(path: str) -> tuple[str, str]:
    """``%model.layers[]`` as ``%model`` and ``.layers[]``."""
    start = 2 if path.startswith("::") else 1
    for position in range(start, len(path)):
        if path[position] in ".[":
            return path[:position], path[position:]
    return path, ""
