"""Lists, tuples and dicts that a class keeps on ``self``, with what is put into them while an object is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchlint.frozen import dataclass
from torchlint.idioms.modules.container_parts import (
    GROWING,
    Sort,
    built_by,
    display_of,
    elements_of,
    growth_of,
    may_be_container,
    sort_of,
)
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import (
    are_exclusive,
    contains,
    element_of,
    enclosing_function,
    nodes_within,
    statement_of,
)
from torchlint.semantics.scopes import AttributeWrite, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Builtins that only look at what they are given.
_LOOKING = frozenset(
    {"len", "range", "enumerate", "zip", "reversed", "print", "isinstance", "any", "all", "id", "repr"}
)


@dataclass(frozen=True, eq=False)
class PlainContainer:
    """``self.<name>`` is a list, tuple or dict of Python when construction ends.

    ``write`` is the assignment to ``self``, ``display`` the expression that makes the container (elsewhere than in
    ``write`` where it was built in a local variable), ``growth`` the calls and assignments that put more into it.
    ``elements`` are the expressions put into it; None stands for something that cannot be read.
    """

    name: str
    sort: Sort
    write: AttributeWrite
    display: ast.expr
    growth: tuple[ast.AST, ...]
    elements: tuple[ast.expr | None, ...]


def plain_containers(view: ClassView) -> Iterator[PlainContainer]:
    """The attributes that hold a container of Python for certain when the constructor is done, and that no code there
    gives to anything that could keep or wrap them."""
    making = view.called_from("__init__")
    for name in view.attributes:
        found = _container(view, name, making)
        if found is not None:
            yield found


def _container(view: ClassView, name: str, making: frozenset[FunctionNode]) -> PlainContainer | None:
    semantics = view.semantics
    writes = [_straight(write) for write in view.writes(name) if not write.augmented]
    if not any(may_be_container(write.value, semantics) for write in writes):
        return None
    written = [write for write in writes if _outer_method(write.statement) in making and not _is_none(write.value)]
    if not written or any(write.path for write in written):
        return None
    plain = [write for write in written if sort_of(write.value, semantics) is not None]
    if not plain or not all(write in plain or _leaves_plain(write, name, plain[-1], making) for write in writes):
        return None
    last, written = next((write for write in reversed(plain) if not _is_empty(write.value)), plain[-1]), plain
    sort = sort_of(last.value, semantics)
    display = display_of(last.value, semantics)
    if sort is None or display is None:
        return None
    local = last.value if isinstance(last.value, ast.Name) else None
    growth: list[ast.AST] = []
    for method in making:
        for use in _uses(name, local, last, method):
            growing = growth_of(use)
            if growing is not None:
                if not any(are_exclusive(statement_of(growing), write.statement) for write in written):
                    growth.append(growing)
            elif not _only_looks(use, last) or _hands_on(use):
                return None
    elements: list[ast.expr | None] = []
    for value in [write.value for write in written] + list(growth):
        elements += elements_of(value, semantics)
    for write in written:
        built = built_by(write.value, semantics)
        growth += built.growth if built is not None else ()
    return PlainContainer(name, sort, last, display, tuple(sorted(growth, key=_line)), tuple(elements))


def _straight(write: AttributeWrite) -> AttributeWrite:
    """A write with the part of a tuple that it takes for its value: ``self.a, self.b = [...], [...]``."""
    value = element_of(write.value, write.path) if write.path and write.value is not None else None
    return write if value is None else replace(write, value=value, path=())


def _leaves_plain(write: AttributeWrite, name: str, plain: AttributeWrite, making: frozenset[FunctionNode]) -> bool:
    """Whether an attribute can still be the plain container after another write: it gets None, in another method a
    part of itself or something new, or this is the other way through an `if`. A list of what a method was given
    (``self.inputs = [inputs]``) takes the place of what only held the place."""
    value = write.value
    if _is_none(value):
        return True
    if _outer_method(write.statement) not in making:
        whole = value.value if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) else value
        if isinstance(whole, ast.List):
            return not any(isinstance(element, ast.Name) for element in whole.elts)
        return isinstance(whole, ast.Attribute) and whole.attr == name
    return are_exclusive(write.statement, plain.statement)


def _is_empty(value: ast.expr | None) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]) | ast.Call(args=[], keywords=[]):
            return True
        case _:
            return False


def _outer_method(node: ast.AST) -> FunctionNode | None:
    function = enclosing_function(node)
    while function is not None and enclosing_function(function) is not None:
        function = enclosing_function(function)
    return function


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _uses(name: str, local: ast.Name | None, write: AttributeWrite, method: FunctionNode) -> Iterator[ast.expr]:
    """Where a method uses the attribute, or the local variable that it was built in."""
    for node in self_attributes(method):
        if node.attr == name and node is not write.target:
            yield node
    if local is not None and contains(method, local):
        for inner in nodes_within(method, ast.Name):
            assert isinstance(inner, ast.Name)
            used = isinstance(inner.ctx, ast.Load) or isinstance(parent_of(inner), ast.AugAssign)
            if inner.id == local.id and used:
                yield inner


def _only_looks(use: ast.expr, write: AttributeWrite) -> bool:
    """Whether a use neither keeps the container or its elements nor gives them away."""
    if isinstance(use.ctx, ast.Store | ast.Del):  # type: ignore[attr-defined]
        return True  # an assignment is judged as one
    parent = parent_of(use)
    match parent:
        case ast.Assign(value=value) if value is use:
            return parent is write.statement
        case ast.AnnAssign(value=value) if value is use:
            return parent is write.statement
        case ast.For(iter=iterable) if iterable is use:
            return True
        case ast.Call(func=ast.Name(id=called)):
            return called in _LOOKING
        case ast.Subscript(value=value) if value is use:
            return isinstance(parent_of(parent), ast.Attribute)
        case ast.Attribute(attr="values" | "items"):  # `nn.ModuleList(self.layers.values())` keeps them
            return isinstance(_holder_of_call(parent), ast.For)
        case ast.Attribute():
            return True
        case ast.AugAssign(value=value):
            return value is not use
        case ast.If() | ast.While() | ast.Assert() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
            return True
        case _:
            return False


def _hands_on(use: ast.expr) -> bool:
    """Whether a loop over the container gives each element to something that may keep it: a class, another list."""
    iterable: ast.AST = use
    while isinstance(call := parent_of(iterable), ast.Call) and isinstance(call.func, ast.Name):
        iterable = call  # `zip(self.layers, functions)`
    loop = parent_of(iterable)
    if not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not iterable:
        return False
    names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    body = loop if isinstance(loop, ast.For) else parent_of(loop)
    if body is None:
        return False
    for call in nodes_within(body, ast.Call):
        assert isinstance(call, ast.Call)
        given = (*call.args, *(keyword.value for keyword in call.keywords))
        if any(isinstance(item, ast.Name) and item.id in names for item in given):
            called = last_name(call.func)
            if called[:1].isupper() or called in GROWING:
                return True
    return False


def _holder_of_call(method: ast.Attribute) -> ast.AST | None:
    call = parent_of(method)
    return parent_of(call) if call is not None else None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def is_given_elsewhere(element: ast.Name, container: PlainContainer, semantics: Semantics) -> bool:
    """Whether a local variable that is put into a container is also stored on ``self`` or given to another call, so
    that it may be registered there; filling it with numbers (``nn.init.normal_(weight)``) does not."""
    function = enclosing_function(element)
    if function is None:
        return False
    own = {id(node) for node in container.growth}
    for node in nodes_within(function, ast.Name):
        assert isinstance(node, ast.Name)
        if node.id != element.id or node is element or not isinstance(node.ctx, ast.Load):
            continue
        parent = parent_of(node)
        if isinstance(parent, ast.Starred | ast.keyword):
            parent = parent_of(parent)
        if isinstance(parent, ast.Call) and parent.func is not node and id(parent) not in own:
            if semantics.name(parent.func).startswith("torch.nn.init."):
                continue
            return True
        if isinstance(parent, ast.Assign) and parent.value is node and id(parent) not in own:
            return True
        if isinstance(parent, ast.List | ast.Tuple | ast.Dict):
            return True
    return False
