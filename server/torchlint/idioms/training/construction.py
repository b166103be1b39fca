"""Where an object was built, and which modules an optimizer was given when it was."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.frozen import dataclass
from torchlint.semantics.call_kinds import MODULE_RETURNS_SELF, WRAPPERS
from torchlint.semantics.inference import enclosing_function_of_parameter
from torchlint.semantics.nodes import argument, element_of, enclosing_class, enclosing_function
from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.tracing import Tracer

_Path = tuple[int | None, ...]
_DEEPEST = 8
#: Calls of builtins that give the parameters they are given.
_SAME_PARAMETERS = frozenset(("list", "tuple", "set", "iter", "sorted"))


@dataclass(frozen=True, eq=False, slots=True)
class Constructions:
    """The calls that build an object. ``complete`` where the object can come from nowhere else."""

    calls: tuple[ast.Call, ...]
    complete: bool


def constructions(semantics: Semantics, expression: ast.expr | None, parts_of: tuple[str, ...] = ()) -> Constructions:
    """The calls that built what ``expression`` denotes.

    Names, attributes of ``self``, arguments given in this file, conversions (``.to(device)``), wrappers
    (``DataParallel(net)``), and what functions and methods of this file return are followed back, through unpacking
    too (``net, head = build()``). A call of one of ``parts_of`` counts for each of the elements that it returns.
    """
    search = _Search(semantics, parts_of)
    complete = search.follow(expression, 0)
    return Constructions(tuple(search.found), complete and bool(search.found))


class _Search:
    def __init__(self, semantics: Semantics, parts_of: tuple[str, ...]) -> None:
        self._semantics = semantics
        self._parts_of = parts_of
        self.found: dict[ast.Call, None] = {}
        self._followed: dict[tuple[ast.expr, int, _Path], bool] = {}

    def follow(self, expression: ast.expr | None, depth: int, path: _Path = ()) -> bool:
        """Note the calls that build (the element at ``path`` of) a value; whether all of them were found."""
        if expression is None or depth > _DEEPEST:
            return False
        # Functions that call each other lead to one value in very many ways.
        key = (expression, depth, path)
        if key not in self._followed:
            self._followed[key] = self._follow(expression, depth, path)
        return self._followed[key]

    def _follow(self, expression: ast.expr, depth: int, path: _Path) -> bool:
        semantics = self._semantics
        match expression:
            case ast.Name():
                found = [self._definition(definition, depth, path) for definition in semantics.definitions(expression)]
                return bool(found) and all(found)
            case ast.Attribute(value=base, attr=attribute):
                owner = semantics.class_of_self(base) or self._class_of(base)
                if owner is None:
                    return False
                writes = [write for write in self._writes(owner, attribute) if write.value is not None]
                return self._all([(write.value, (*write.path, *path)) for write in writes], depth)
            case ast.IfExp(body=body, orelse=orelse):
                return self._all([(body, path), (orelse, path)], depth)
            case ast.NamedExpr(value=value):
                return self.follow(value, depth + 1, path)
            case ast.Constant(value=None):
                return True
            case ast.Call():
                return self._call(expression, depth, path)
            case ast.Tuple() | ast.List() if path:
                return self.follow(element_of(expression, path[:1]), depth, path[1:])
            case _:
                return False

    def _class_of(self, expression: ast.expr) -> ast.ClassDef | None:
        """The class of this file that an object is of (``trainer.optimizer``)."""
        kind = self._semantics.kind(expression)
        return kind.class_node if kind is not None else None

    def _all(self, values: Iterable[tuple[ast.expr | None, _Path]], depth: int) -> bool:
        """Whether there are values and each is fully followed; all are, so that every call is noted."""
        results = [self.follow(value, depth + 1, path) for value, path in values]
        return bool(results) and all(results)

    def _writes(self, owner: ast.ClassDef, attribute: str) -> tuple[AttributeWrite, ...]:
        writes = self._semantics.module.attribute_writes(owner, attribute)
        if writes:
            return writes
        for base in self._semantics.local_bases(owner):
            writes = self._writes(base, attribute)
            if writes:
                return writes
        return ()

    def _call(self, call: ast.Call, depth: int, path: _Path) -> bool:
        semantics = self._semantics
        function = self._called(call.func)
        if function is not None:
            return self._all([(value, path) for value in semantics.returned_values(function)], depth)
        if path:
            if not semantics.is_named(call.func, *self._parts_of):
                return False
        elif isinstance(call.func, ast.Attribute) and call.func.attr in MODULE_RETURNS_SELF:
            kind = semantics.kind(call.func.value)
            if kind is not None and kind.is_module:
                return self.follow(call.func.value, depth + 1)
        elif semantics.is_named(call.func, *WRAPPERS) and call.args:
            return self.follow(call.args[0], depth + 1)
        self.found[call] = None
        return True

    def _called(self, function: ast.expr) -> FunctionNode | None:
        """The function or method of this file that is called."""
        if not isinstance(function, ast.Attribute):
            return self._semantics.local_function(function)
        owner = self._semantics.class_of_self(function.value) or self._class_of(function.value)
        return self._semantics.find_method(owner, function.attr) if owner is not None else None

    def _definition(self, definition: Definition, depth: int, path: _Path) -> bool:
        if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
            return self.follow(definition.value, depth + 1, (*definition.path, *path))
        if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
            function = enclosing_function_of_parameter(definition.node)
            given = self._semantics.given_for(definition.node, function) if function is not None else ()
            return self._all([(value, path) for value in given], depth)
        return False


def attribute_keeping(semantics: Semantics, parameter: str, function: FunctionNode | None) -> str | None:
    """The attribute of ``self`` that a method keeps a parameter in, and nothing else: ``self.net = net``."""
    owner = enclosing_class(function) if function is not None else None
    if owner is None:
        return None
    for attribute in semantics.module.attributes(owner):
        writes = semantics.module.attribute_writes(owner, attribute)
        value = writes[0].value if len(writes) == 1 else None
        if value is not None and writes[0].path:
            value = element_of(value, writes[0].path)  # ``self.net, self.head = net, head``
        if isinstance(value, ast.Name) and value.id == parameter and enclosing_function(value) is function:
            return attribute
    return None


def modules_given(semantics: Semantics, build: ast.Call) -> frozenset[str] | None:
    """The modules whose parameters an optimizer is given where it is built, as paths that hold in the function of the
    call (see ``flow.Ref``); None where they cannot all be told."""
    return _modules_of(semantics, Tracer(semantics), argument(build, 0, "params"), 0)


def _modules_of(semantics: Semantics, tracer: Tracer, expression: ast.expr | None, depth: int) -> frozenset[str] | None:
    def of(inner: ast.expr | None) -> frozenset[str] | None:
        return _modules_of(semantics, tracer, inner, depth + 1)

    def of_all(inner: list[ast.expr]) -> frozenset[str] | None:
        found: set[str] = set()
        for item in inner:
            modules = of(item)
            if modules is None:
                return None
            found |= modules
        return frozenset(found) or None

    expression = semantics.value_of(expression)
    if expression is None or depth > _DEEPEST:
        return None
    match expression:
        case ast.Call(func=ast.Attribute(value=module, attr="parameters" | "named_parameters")):
            path = tracer.path(module)
            return frozenset((path,)) if path else None
        case ast.Call(func=ast.Name(id=name), args=[first]) if name in _SAME_PARAMETERS:
            return of(first)
        case ast.Call(func=ast.Name(id="filter"), args=[_, second]):
            return of(second)
        case ast.Call() if semantics.is_named(expression.func, "itertools.chain"):
            return of_all(expression.args)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return of_all(elements)
        case ast.Starred(value=value):
            return of(value)
        case ast.Dict(keys=keys, values=values):
            given = [
                v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == "params"
            ]
            return of_all(given)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return of_all([left, right])
        case ast.ListComp(generators=[generator]) | ast.GeneratorExp(generators=[generator]):
            return of(generator.iter)
        case _:
            return None
