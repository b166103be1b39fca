"""What a name is bound to, and what is stored on objects: recorded by the one walk over a part."""

from __future__ import annotations

import ast
from dataclasses import field
from enum import Enum

from torchlint.frozen import dataclass
from torchlint.syntax import Part

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
#: For ``isinstance``, where it is asked so often that making the union would count.
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Binding(Enum):
    """How a name comes to be bound."""

    ASSIGNMENT = "assignment"
    AUGMENTED = "augmented assignment"
    ANNOTATION = "annotation"
    LOOP = "loop target"
    WITH = "with target"
    EXCEPT = "except target"
    IMPORT = "import"
    FUNCTION = "function"
    CLASS = "class"
    PARAMETER = "parameter"
    COMPREHENSION = "comprehension target"
    DELETED = "deleted"
    OTHER = "other"


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """One binding of one name.

    ``value`` is the expression the name receives; with a ``path`` it receives the element found by these indices
    (``a, (b, c) = value`` binds ``c`` with path ``(1, 1)``; None stands for a starred or unknown place). For a loop
    the value is the iterable and the path leads into one of its elements. ``imported`` is the dotted name of an import.
    """

    name: str
    kind: Binding
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int | None, ...] = ()
    imported: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class AttributeWrite:
    """``base.name = value`` (``base`` is a dotted name such as ``self`` or ``self.model``)."""

    base: str
    name: str
    target: ast.Attribute
    statement: ast.stmt
    value: ast.expr | None
    path: tuple[int | None, ...] = ()
    augmented: bool = False


@dataclass(eq=False, slots=True)
class Scope:
    """The bindings of a function, class body, lambda, comprehension, or of the top of a part (``node`` is None)."""

    node: ast.AST | None
    parent: Scope | None
    part: Part
    #: The top of a part that is a member of a class: its names are those of the class body.
    of_member: bool = False
    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)
    writes: list[AttributeWrite] = field(default_factory=list)
    star_imports: list[str] = field(default_factory=list)
    #: Of names bound here whether they can only be what has no canonical name; filled when it is asked.
    unnamed: dict[str, bool] = field(default_factory=dict)

    @property
    def is_class(self) -> bool:
        return self.of_member or isinstance(self.node, ast.ClassDef)

    @property
    def function(self) -> FunctionNode | None:
        """The function whose body this is, or in which this lambda or comprehension stands."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, _FUNCTIONS):
                return scope.node
            if scope.is_class:
                return None
            scope = scope.parent
        return None

    def bind(self, definition: Definition) -> None:
        self.definitions.setdefault(definition.name, []).append(definition)


def dotted(expression: ast.AST | None) -> str | None:
    """``a.b.c`` as text, or None for anything else."""
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    if isinstance(expression, ast.Name):
        names.append(expression.id)
        return ".".join(reversed(names))
    return None


def last_name(expression: ast.AST | None) -> str:
    """``c`` of ``a.b.c`` and of ``c``, whatever stands before the last dot; empty for anything else."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
