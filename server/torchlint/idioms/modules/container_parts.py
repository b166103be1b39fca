"""What an expression puts into a list, tuple or dict of Python: displays, comprehensions, helpers that build one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import TypeGuard

from torchlint.frozen import dataclass
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 4
_DEQUE = "collections.deque"
_DICTS = ("collections.OrderedDict", "collections.defaultdict")
GROWING = frozenset({"append", "extend", "insert", "update", "setdefault", "appendleft"})


class Sort(Enum):
    """What sort of container it is."""

    LIST = "list"
    TUPLE = "tuple"
    DICT = "dict"


def growth_of(use: ast.expr) -> ast.AST | None:
    """The call or assignment that puts something into the container at this use of it."""
    parent = parent_of(use)
    match parent:
        case ast.Attribute(attr=method) if method in GROWING:
            call = parent_of(parent)
            return call if isinstance(call, ast.Call) and call.func is parent else None
        case ast.Subscript(value=value, ctx=ast.Store()) if value is use:
            return parent_of(parent)
        case ast.AugAssign(target=target) if target is use:
            return parent
        case _:
            return None


def may_be_container(value: ast.expr | None, semantics: Semantics, depth: int = 0) -> bool:
    """Whether ``sort_of`` may tell what a value is, by its form and those of all that its name is bound to: asked of
    every attribute, before anything is followed along the paths of a function."""
    match value:
        case ast.List() | ast.ListComp() | ast.Tuple() | ast.Dict() | ast.DictComp():
            return True
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict")):
            return True
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if not called[:1].isupper():
            return semantics.is_named(value.func, *_DICTS, _DEQUE) or _called(value, semantics) is not None
        case ast.Call(func=function):
            return last_name(function) == "OrderedDict"
        case ast.BinOp(op=ast.Add() | ast.Mult(), left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return depth > _DEEPEST or any(may_be_container(side, semantics, depth + 1) for side in (one, other))
        case ast.Name():
            made = (item.value for item in semantics.bindings(value) if item.kind is Binding.ASSIGNMENT)
            return depth > _DEEPEST or any(may_be_container(item, semantics, depth + 1) for item in made)
        case _:
            return False


def sort_of(value: ast.expr | None, semantics: Semantics) -> Sort | None:
    display = display_of(value, semantics)
    match display:
        case ast.List() | ast.ListComp():
            return Sort.LIST
        case ast.Tuple():
            return Sort.TUPLE
        case ast.Dict() | ast.DictComp():
            return Sort.DICT
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return sort_of(left, semantics) or sort_of(right, semantics)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sort = sort_of(left, semantics)
            return sort if sort is sort_of(right, semantics) else None
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict" as made)):
            return Sort(made)
        case ast.Call() if semantics.is_named(display.func, *_DICTS):
            return Sort.DICT
        case ast.Call() if semantics.is_named(display.func, _DEQUE):
            return Sort.LIST
        case ast.IfExp(body=body, orelse=other):
            sort = sort_of(body, semantics)
            return sort if sort is sort_of(other, semantics) else None
        case ast.Call():
            built = built_by(display, semantics)
            return sort_of(built.display, semantics) if built is not None else None
        case _:
            return None


def display_of(value: ast.expr | None, semantics: Semantics) -> ast.expr | None:
    """The expression that makes the container that a value is; the first one where ``+=`` adds to it later."""
    if not isinstance(value, ast.Name):
        return value
    made: set[ast.expr | None] = set()
    queue = list(semantics.definitions(value))
    seen: set[ast.AST] = set()
    while queue:
        definition = queue.pop()
        if definition.node in seen:
            continue
        seen.add(definition.node)
        if definition.kind is Binding.AUGMENTED and isinstance(definition.node, ast.AugAssign):
            target = definition.node.target
            queue += semantics.definitions(target) if isinstance(target, ast.Name) else ()
        elif definition.kind is Binding.ASSIGNMENT and not definition.path:
            made.add(definition.value)
        else:
            return None
    only = made.pop() if len(made) == 1 else None
    return None if isinstance(only, ast.Name) else only


@dataclass(frozen=True, eq=False)
class Built:
    """A container that a function makes and returns, and what puts more into it there."""

    display: ast.expr
    growth: tuple[ast.AST, ...] = ()


def built_by(call: ast.expr | None, semantics: Semantics) -> Built | None:
    """The container that a call of a function of the file, or of a method of the class, returns: a display, or a
    variable that the function only fills."""
    function = _called(call, semantics) if isinstance(call, ast.Call) else None
    returned = semantics.returned_values(function) if function is not None else ()
    if function is None or len(returned) != 1:
        return None
    (value,) = returned
    display = display_of(value, semantics)
    if not isinstance(display, ast.List | ast.ListComp | ast.Dict | ast.DictComp):
        return None
    growth: list[ast.AST] = []
    for use in nodes_within(function, ast.Name) if isinstance(value, ast.Name) else ():
        assert isinstance(use, ast.Name)
        if use.id != value.id or use is value or isinstance(use.ctx, ast.Store):  # type: ignore[attr-defined]
            continue
        growing = growth_of(use)
        if growing is None:
            return None
        growth.append(growing)
    return Built(display, tuple(growth))


def _called(call: ast.Call, semantics: Semantics) -> FunctionNode | None:
    function = semantics.local_function(call.func)
    if function is None and isinstance(call.func, ast.Attribute):
        owner = semantics.class_of_self(call.func.value)
        function = semantics.find_method(owner, call.func.attr) if owner is not None else None
    if function is None or any(not isinstance(item, ast.Name) for item in function.decorator_list):
        return None
    return function if all(last_name(item) == "staticmethod" for item in function.decorator_list) else None


def elements_of(value: ast.AST | None, semantics: Semantics) -> Iterator[ast.expr | None]:
    """What an expression or statement puts into a container."""
    match value:
        case ast.Name():
            display = display_of(value, semantics)
            if display is not None:
                yield from elements_of(display, semantics)
            else:
                yield value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _of_element(element, semantics)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
            yield from _of_element(element, semantics)
        case ast.Dict(values=values):
            for element in values:
                yield from _of_element(element, semantics)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            yield from elements_of(left if sort_of(left, semantics) is not None else right, semantics)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from elements_of(left, semantics)
            yield from elements_of(right, semantics)
        case ast.Call(func=ast.Attribute(attr="append" | "insert" | "setdefault" | "appendleft"), args=[*_, element]):
            yield from _of_element(element, semantics)
        case ast.Call(func=ast.Attribute(attr="extend" | "update"), args=[given]):
            yield from elements_of(given, semantics)
        case ast.Call(
            func=ast.Name(id="dict" | "OrderedDict"), args=[ast.Call(func=ast.Name(id="zip"), args=[_, values])]
        ):
            yield from elements_of(values, semantics)
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict" | "OrderedDict" | "deque")):
            for item in value.args:
                if isinstance(item, ast.List | ast.Tuple) and last_name(value.func) in ("dict", "OrderedDict"):
                    for pair in item.elts:
                        yield from _of_element(pair.elts[1] if _is_pair(pair) else pair, semantics)
                else:
                    yield from elements_of(item, semantics)
            for keyword in value.keywords:
                yield from _of_element(keyword.value, semantics)
        case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(body=element), *_]):
            yield from _of_element(element, semantics)
        case ast.Call() if (built := built_by(value, semantics)) is not None:
            for inner in (built.display, *built.growth):
                yield from elements_of(inner, semantics)
        case ast.IfExp(body=body, orelse=other):
            yield from elements_of(body, semantics)
            yield from elements_of(other, semantics)
        case ast.AugAssign(value=given):
            yield from elements_of(given, semantics)
        case ast.Assign(value=element):
            yield from _of_element(element, semantics)
        case _:
            yield None


def _is_pair(element: ast.expr) -> TypeGuard[ast.Tuple]:
    return isinstance(element, ast.Tuple) and len(element.elts) == 2


def _of_element(element: ast.expr, semantics: Semantics) -> Iterator[ast.expr | None]:
    """An element, or the elements of one that is a container itself."""
    if isinstance(element, ast.Starred):
        yield from elements_of(element.value, semantics)
    elif isinstance(element, ast.List | ast.Tuple | ast.ListComp | ast.Dict | ast.DictComp):
        yield from elements_of(element, semantics)
    else:
        yield element
