"""The form of a rule.

A rule is one class in one file: what it is called, its documentation, and methods that say what they want to see:

    class UnsafeLoad(Rule):
        \"\"\"## What it does ...\"\"\"

        code = "TL901"
        name = "unsafe-load"
        level = Level.WARNING

        @on_call("torch.load")
        def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]: ...

The engine delivers each such thing of a unit once; a rule never walks a file. What a rule yields holds nodes, not
positions; positions are made when the version of the file is known.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, TypeVar

from torchlint.finding import Applicability, Severity
from torchlint.fixes.editor import Editor
from torchlint.frozen import dataclass
from torchlint.semantics.group_facts import UNIT_KINDS, UnitKind


class Level(Enum):
    """The default severity of a rule; OFF rules run only when selected."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"
    OFF = "off"

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self is Level.OFF else Severity(self.value)


class FixKind(Enum):
    """The applicability of a rule's fixes; NONE where it has none."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    NONE = "none"


@dataclass(frozen=True, eq=False, slots=True)
class FixPlan:
    """How to mend a place: ``apply`` makes the edits when somebody asks for them."""

    title: str
    applicability: Applicability
    apply: Callable[[Editor], None]


@dataclass(frozen=True, eq=False, slots=True)
class Diagnosis:
    """What a rule says about a node. A function or class is shown by its name, a compound statement by its header."""

    rule: type[Rule]
    node: ast.AST
    message: str
    related: tuple[tuple[ast.AST, str], ...] = ()
    fixes: tuple[FixPlan, ...] = ()
    severity: Severity | None = None
    deprecated: bool = False


@dataclass(frozen=True)
class Subscription:
    """What a method of a rule wants to see: ``topic`` is what follows ``on_`` below, with spaces."""

    topic: str
    keys: tuple[Any, ...] = ()


_MethodT = TypeVar("_MethodT", bound=Callable[..., Iterator[Diagnosis]])


def _subscribe(topic: str, keys: Sequence[Any]) -> Callable[[_MethodT], _MethodT]:
    def mark(method: _MethodT) -> _MethodT:
        known: list[Subscription] = method.__dict__.setdefault("subscriptions", [])
        known.append(Subscription(topic, tuple(keys)))
        return method

    return mark


def on_call(*names: str) -> Callable[[_MethodT], _MethodT]:
    """See calls whose function can only be one of these canonical names: ``check(call, unit)``."""
    return _subscribe("call", names)


def on_method(*names: str) -> Callable[[_MethodT], _MethodT]:
    """See calls of methods with these names on anything: ``check(call, unit)``; the receiver is ``call.func.value``."""
    return _subscribe("method", names)


def on_reference(*last_names: str) -> Callable[[_MethodT], _MethodT]:
    """See what may lead to something with one of these last names, called or only mentioned: each attribute of such a
    name, and each name that is imported from a thing so called (``check(expression, unit)``)."""
    return _subscribe("reference", last_names)


def on_loss(*names: str) -> Callable[[_MethodT], _MethodT]:
    """See calls of these losses, by function (``torch.nn.functional.nll_loss``) or by an object that was made of the
    class (``torch.nn.NLLLoss``): ``check(loss, unit)`` with a ``LossCall``."""
    return _subscribe("loss", names)


def on_keyword(resembles: Callable[[str], bool]) -> Callable[[_MethodT], _MethodT]:
    """See keyword arguments whose name passes a test, which is asked once a name: ``check(keyword, unit)``."""
    return _subscribe("keyword", (resembles,))


def on_node(*types: type[ast.AST]) -> Callable[[_MethodT], _MethodT]:
    """See nodes of these exact types: ``check(node, unit)``."""
    return _subscribe("node", types)


def on_builtin(*names: str) -> Callable[[_MethodT], _MethodT]:
    """See calls that are written as calls of these builtins, by a plain name: ``check(call, unit)``."""
    return _subscribe("builtin", names)


def on_assignment(*, to: Sequence[type[ast.expr]], of: Sequence[type[ast.expr]] = ()) -> Callable[[_MethodT], _MethodT]:
    """See assignments (``ast.Assign``) to a target of one of these types, or with one in a tuple or list of targets,
    of a value of one of the types ``of`` if any are given: ``check(statement, unit)``."""
    return _subscribe("assignment", (frozenset(to), frozenset(of)))


def on_attribute_set(resembles: Callable[[str], bool]) -> Callable[[_MethodT], _MethodT]:
    """See assignments (``ast.Assign``) to an attribute whose name passes a test, which is asked once a name; also in a
    tuple or list of targets: ``check(statement, unit)``."""
    return _subscribe("attribute set", (resembles,))


def on_operation(*operators: type[ast.operator] | type[ast.cmpop]) -> Callable[[_MethodT], _MethodT]:
    """See binary operations, and comparisons of two values, with these operators: ``check(node, unit)``."""
    return _subscribe("operation", operators)


def on_unit(*kinds: UnitKind) -> Callable[[_MethodT], _MethodT]:
    """See a unit as a whole, for what must ask the file before it looks at single nodes: ``check(unit, unit)``. Only
    units of these kinds (``"module"``: the module's own code), if any are given."""
    return _subscribe("unit", kinds or UNIT_KINDS)


def on_class() -> Callable[[_MethodT], _MethodT]:
    """See each class: ``check(view, unit)`` with a ``ClassView``."""
    return _subscribe("class", ())


def on_module_class() -> Callable[[_MethodT], _MethodT]:
    """See each class that is certainly a subclass of ``torch.nn.Module``: ``check(view, unit)``."""
    return _subscribe("module class", ())


def on_function() -> Callable[[_MethodT], _MethodT]:
    """See each function and method: ``check(function, unit)``."""
    return _subscribe("function", ())


def on_flow(*called: str, also: Sequence[str] = (), outermost: bool = False) -> Callable[[_MethodT], _MethodT]:
    """See the flow of each function (calls followed) in which one of these names is called, and one of ``also`` if
    any are given: ``check(root, unit)``. Functions that only pass on to another are left out; with ``outermost`` those
    that are called in the file instead, because what is wrong in them depends on the caller."""
    topic = "outermost flow" if outermost else "flow"
    return _subscribe(topic, (tuple(frozenset(names) for names in (called, also) if names),))


class Rule:
    """Base of all rules. The docstring of a rule is its page, with fixed Markdown headings."""

    code: ClassVar[str]
    name: ClassVar[str]
    level: ClassVar[Level]
    fix: ClassVar[FixKind] = FixKind.NONE
    #: One line: what happens when the rule is broken. Shown under a finding on a terminal.
    summary: ClassVar[str]
    #: Whether the rule has nothing to say where nothing is known of the torch that the project allows.
    needs_torch_range: ClassVar[bool] = False

    @classmethod
    def documentation(cls) -> str:
        """The rule's page in Markdown, without a title."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def handlers(cls) -> Iterator[tuple[Subscription, str]]:
        """What the rule subscribes to, and the name of the method that receives it."""
        for attribute in dir(cls):
            for subscription in getattr(getattr(cls, attribute, None), "subscriptions", ()):
                yield subscription, attribute

    @classmethod
    def found(
        cls,
        node: ast.AST,
        message: str,
        *,
        related: Sequence[tuple[ast.AST, str]] = (),
        fixes: Sequence[FixPlan] = (),
        severity: Severity | None = None,
        deprecated: bool = False,
    ) -> Diagnosis:
        """A diagnosis of this rule."""
        return Diagnosis(cls, node, message, tuple(related), tuple(fixes), severity, deprecated)
