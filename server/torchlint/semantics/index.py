"""The one walk over a part: parents, nodes by type, scopes. All that rules subscribe to is found here.

An index holds nothing of other parts, so it lives as long as its part.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Any, TypeVar, cast

from torchlint.frozen import dataclass
from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode, Scope, dotted
from torchlint.syntax import PARSED_BEHIND, Part, parent_of

_NodeT = TypeVar("_NodeT", bound=ast.AST)
#: Fields that hold no nodes, or nodes that nobody looks at.
_SKIPPED_FIELDS = frozenset(
    "ctx op ops type_comment kind type_ignores id attr arg name asname module level simple conversion is_async rest "
    "kwd_attrs str".split()
)
#: Types whose fields hold no nodes.
_NAMED = (ast.Name, ast.Attribute)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVES = frozenset({ast.Name, ast.Constant, ast.alias, ast.Global, ast.Nonlocal, ast.MatchSingleton})
#: A longer text is no name of an attribute.
_LONGEST_NAME = 200
_Record = Callable[[ast.AST], None]
#: What a node binds, and the scope of what is inside it; each function takes the nodes of its own types.
_Enter = Callable[..., Scope]
_CHILD_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


@dataclass(eq=False, slots=True)
class PartIndex:
    """What stands in one part. ``nodes`` holds the nodes of each exact type in the order of the source."""

    part: Part
    top: Scope
    nodes: dict[type[ast.AST], list[ast.AST]] = field(default_factory=dict)
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    #: Attribute names that are called (``x.backward()`` gives ``backward``), and plain names that are called.
    called: set[str] = field(default_factory=set)
    #: Names that are assigned from a name or attribute (``ce = F.cross_entropy``): other names for something.
    aliases: set[str] = field(default_factory=set)
    #: The places of the nodes of each type that was searched.
    _places: dict[type[ast.AST], list[int]] = field(default_factory=dict)

    def within(self, root: ast.AST, node_type: type[ast.AST]) -> list[ast.AST]:
        """The nodes of a type inside ``root`` (itself included)."""
        found = self.nodes.get(node_type)
        if not found:
            return []
        places = self._places.get(node_type)
        if places is None:
            places = self._places[node_type] = [node._order for node in found]  # type: ignore[attr-defined]
        start, end = self.extent(root)
        return found[bisect_left(places, start) : bisect_left(places, end)]

    def contains(self, root: ast.AST, node: ast.AST) -> bool:
        """Whether ``node`` is ``root`` or stands inside it."""
        start, end = self.extent(root)
        return start <= node._order < end  # type: ignore[attr-defined, no-any-return]

    def place(self, node: ast.AST) -> int:
        """The place of a node of this part in the order of the source."""
        return node._order  # type: ignore[attr-defined, no-any-return]

    def extent(self, root: ast.AST) -> tuple[int, int]:
        """The places of a node and of what is inside it: the first, and the one behind the last."""
        return self.place(root), self.place(_last_inside(root)) + 1

    def all(self, node_type: type[_NodeT], *others: type[_NodeT]) -> Sequence[_NodeT]:
        """The nodes of some exact types, in the order of the source for each type."""
        nodes: Any = self.nodes
        found: Sequence[_NodeT] = nodes.get(node_type, ())
        return [*found, *(node for other in others for node in nodes.get(other, ()))] if others else found

    def functions(self) -> Sequence[FunctionNode]:
        """All functions and methods."""
        found, others = self.all(ast.FunctionDef), self.all(ast.AsyncFunctionDef)
        return [*found, *others] if others else found


def index_of(part: Part) -> PartIndex:
    """The index of a part, made when it is first asked for."""
    known: PartIndex | None = part.__dict__.get("_index")
    if known is None:
        known = part.__dict__["_index"] = _index(part)
    return known


def take_apart(part: Part) -> None:
    """Make a part and its nodes forget each other, so that they are freed as soon as nobody holds them."""
    for nodes in index_of(part).nodes.values():
        for node in nodes:
            node.__dict__.clear()
    part.__dict__.clear()


def attributes_read(part: Part) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names of all attributes that the code of a part reads: of anything, of anything but ``self``, and those of
    the latter that it reads with a dot.

    A text that is a dotted name (``"fc"``, ``"fc.weight"``) may be one that is read in other ways, and counts for the
    first two.
    """
    known = part.__dict__.get("_attributes_read")
    if known is None:
        index = index_of(part)
        methods = (node for node in index.functions() if _is_method(node, index))
        parameters = (node.args.posonlyargs or node.args.args for node in methods)
        own = {names[0].arg for names in parameters if names}
        texts = [node.value for node in index.all(ast.Constant) if node.value.__class__ is str]
        named = {text.partition(".")[0] for text in texts if len(text) < _LONGEST_NAME and _is_dotted_name(text)}
        read, others = set(named), set[str]()
        for node in index.all(ast.Attribute):
            if node.ctx.__class__ is ast.Load:
                read.add(node.attr)
                if node.value.__class__ is not ast.Name or node.value.id not in own:
                    others.add(node.attr)
        known = (frozenset(read), frozenset(others | named), frozenset(others))
        part.__dict__["_attributes_read"] = known
    return cast("tuple[frozenset[str], frozenset[str], frozenset[str]]", known)


def _is_dotted_name(text: str) -> bool:
    return text.replace(".", "_").isidentifier()


def attributes_written(part: Part) -> frozenset[str]:
    """The names of all attributes that the code of a part assigns on anything but ``self``."""
    known = part.__dict__.get("_attributes_written")
    if known is None:
        written = (node for node in index_of(part).all(ast.Attribute) if isinstance(node.ctx, ast.Store))
        known = frozenset(node.attr for node in written if getattr(node.value, "id", "") != "self")
        part.__dict__["_attributes_written"] = known
    return cast("frozenset[str]", known)


def names_read(part: Part) -> frozenset[str]:
    """The plain names that the code of a part reads."""
    known = part.__dict__.get("_names_read")
    if known is None:
        known = frozenset(node.id for node in index_of(part).all(ast.Name) if isinstance(node.ctx, ast.Load))
        part.__dict__["_names_read"] = known
    return cast("frozenset[str]", known)


def keywords_passed(part: Part) -> frozenset[str]:
    """The names of all keyword arguments of the calls in a part."""
    known = part.__dict__.get("_keywords_passed")
    if known is None:
        known = frozenset(node.arg for node in index_of(part).all(ast.keyword) if node.arg is not None)
        part.__dict__["_keywords_passed"] = known
    return cast("frozenset[str]", known)


def imported_names(index: PartIndex, last_names: Collection[str]) -> dict[str, str]:
    """The names that import statements of a part bind to something with one of these last names, and which."""
    return {
        alias.asname or alias.name: alias.name
        for node in index.all(ast.ImportFrom)
        for alias in node.names
        if alias.name in last_names
    }


def _is_method(function: FunctionNode, index: PartIndex) -> bool:
    holder = parent_of(function)
    return isinstance(holder, ast.ClassDef) or (holder is None and index.top.of_member)


def children_of(node: ast.AST) -> list[ast.AST]:
    """The expressions and statements directly inside a node, in the order of its fields."""
    found: list[ast.AST] = []
    for name in _child_fields(node.__class__)[::-1]:
        value = node.__dict__.get(name)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _last_inside(node: ast.AST) -> ast.AST:
    """The last node inside a node in the order of the source; the node itself where nothing is inside."""
    while (child := _last_child(node)) is not None:
        node = child
    return node


def _last_child(node: ast.AST) -> ast.AST | None:
    attributes = node.__dict__
    for name in _child_fields(node.__class__):
        value = attributes[name]
        if value.__class__ is list:
            for item in reversed(value):
                if item is not None:
                    return cast("ast.AST", item)
        elif value is not None:
            return cast("ast.AST", value)
    return None


def _child_fields(node_type: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a type that hold nodes worth visiting, or lists of them, last first."""
    fields = _CHILD_FIELDS.get(node_type)
    if fields is None:
        held = () if node_type in _LEAVES else node_type._fields
        named = node_type.__name__ == "TypeAlias"  # of everything else the name is a text
        fields = tuple(name for name in reversed(held) if name not in _SKIPPED_FIELDS or (named and name == "name"))
        _CHILD_FIELDS[node_type] = fields
    return fields


class _Plans(dict[type[ast.AST], tuple[_Enter | None, tuple[str, ...]]]):
    """For each type what its nodes bind, and where nodes are inside them; made when a type is first met."""

    def __missing__(self, node_type: type[ast.AST]) -> tuple[_Enter | None, tuple[str, ...]]:
        plan = self[node_type] = (_ENTER.get(node_type), _child_fields(node_type))
        return plan


_PLANS = _Plans()


def _index(part: Part) -> PartIndex:
    top = Scope(None, None, part, of_member=part.kind == "member")
    index = PartIndex(part, top)
    nodes = index.nodes
    lead = PARSED_BEHIND[part.kind]
    #: A part that was parsed with the whole text counts its rows as if it had been parsed by itself.
    shift = part.lead - lead
    #: For each type how a node is recorded, what it binds, and where nodes are inside it: one look-up a node.
    plans: dict[type[ast.AST], tuple[_Record, _Enter | None, tuple[str, ...], bool]] = {}
    stack: list[ast.AST] = []
    for statement in reversed(part.body):
        statement._scope = top  # type: ignore[attr-defined]
        stack.append(statement)
    pop, push, place = stack.pop, stack.append, 0
    while stack:
        node = pop()
        attributes = node.__dict__
        attributes["_order"] = place
        place += 1
        try:
            record, enter, fields, placed = plans[node.__class__]
        except KeyError:
            node_type = node.__class__
            found = nodes[node_type] = []
            placed = bool(shift) and "lineno" in node_type._attributes
            record, enter, fields, _ = plans[node_type] = (found.append, *_PLANS[node_type], placed)
        record(node)
        if placed:
            attributes["lineno"] -= shift
            attributes["end_lineno"] -= shift
        scope = attributes["_scope"]
        if enter is not None:
            inner = enter(node, scope, index)
            if inner is not scope:
                _push_scoped(node, scope, inner, stack)
                continue
        for name in fields:
            value = attributes[name]
            if value.__class__ is list:
                if value:
                    for item in value[::-1]:
                        if item is not None:
                            inside = item.__dict__
                            inside["_parent"] = node
                            inside["_scope"] = scope
                            push(item)
            elif value is not None:
                inside = value.__dict__
                inside["_parent"] = node
                inside["_scope"] = scope
                push(value)
    part.__dict__["lead"] = lead
    return index


def _push_scoped(node: ast.AST, outer: Scope, inner: Scope, stack: list[ast.AST]) -> None:
    """Visit what is inside a node that opens a scope: decorators, defaults, annotations and bases belong outside."""
    children = children_of(node)
    children.reverse()
    for child in children:
        attributes = child.__dict__
        attributes["_parent"] = node
        attributes["_scope"] = inner if evaluated_inside(node, child) else outer
    stack += children


def evaluated_inside(holder: ast.AST, child: ast.AST) -> bool:
    """Whether a node directly inside one that opens a scope is evaluated in that scope."""
    if isinstance(holder, _DEFINITIONS):
        return isinstance(child, ast.stmt)
    return not isinstance(child, ast.arguments)


def bind_target(
    target: ast.expr,
    kind: Binding,
    node: ast.AST,
    value: ast.expr | None,
    scope: Scope,
    path: tuple[int | None, ...] = (),
) -> None:
    """Record what an assignment target binds: names in the scope, attributes as writes."""
    match target:
        case ast.Name(id=name):
            scope.bind(Definition(name, kind, node, value, path))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            starred = False
            for position, element in enumerate(elements):
                if isinstance(element, ast.Starred):
                    starred = True
                    bind_target(element.value, kind, node, value, scope, (*path, None))
                    continue
                place = position - len(elements) if starred else position
                bind_target(element, kind, node, value, scope, (*path, place))
        case ast.Attribute(value=base, attr=name):
            base_name = dotted(base)
            if base_name is not None and isinstance(node, ast.stmt):
                augmented = kind is Binding.AUGMENTED
                scope.writes.append(AttributeWrite(base_name, name, target, node, value, path, augmented))
        case _:
            pass


def _assign(node: ast.Assign, scope: Scope, index: PartIndex) -> Scope:
    for target in node.targets:
        bind_target(target, Binding.ASSIGNMENT, node, node.value, scope)
        if isinstance(target, ast.Name) and isinstance(node.value, _NAMED):
            index.aliases.add(target.id)
    return scope


def _annotated(node: ast.AnnAssign, scope: Scope, index: PartIndex) -> Scope:
    kind = Binding.ASSIGNMENT if node.value is not None else Binding.ANNOTATION
    bind_target(node.target, kind, node, node.value, scope)
    return scope


def _augmented(node: ast.AugAssign, scope: Scope, index: PartIndex) -> Scope:
    bind_target(node.target, Binding.AUGMENTED, node, node.value, scope)
    return scope


def _named_expression(node: ast.NamedExpr, scope: Scope, index: PartIndex) -> Scope:
    holder = scope
    while holder.parent is not None and isinstance(holder.node, _COMPREHENSIONS):
        holder = holder.parent
    bind_target(node.target, Binding.ASSIGNMENT, node, node.value, holder)
    return scope


def _loop(node: ast.For | ast.AsyncFor, scope: Scope, index: PartIndex) -> Scope:
    bind_target(node.target, Binding.LOOP, node, node.iter, scope)
    return scope


def _with(node: ast.With | ast.AsyncWith, scope: Scope, index: PartIndex) -> Scope:
    for item in node.items:
        if item.optional_vars is not None:
            bind_target(item.optional_vars, Binding.WITH, node, item.context_expr, scope)
    return scope


def _except(node: ast.ExceptHandler, scope: Scope, index: PartIndex) -> Scope:
    if node.name:
        scope.bind(Definition(node.name, Binding.EXCEPT, node))
    return scope


def _import(node: ast.Import, scope: Scope, index: PartIndex) -> Scope:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        imported = alias.name if alias.asname else name
        scope.bind(Definition(name, Binding.IMPORT, node, imported=imported))
    return scope


def _import_from(node: ast.ImportFrom, scope: Scope, index: PartIndex) -> Scope:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            scope.star_imports.append(module)
            continue
        imported = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
        scope.bind(Definition(alias.asname or alias.name, Binding.IMPORT, node, imported=imported))
    return scope


def _function(node: FunctionNode, scope: Scope, index: PartIndex) -> Scope:
    scope.bind(Definition(node.name, Binding.FUNCTION, node))
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    _bind_parameters(node.args, inner)
    return inner


def _lambda(node: ast.Lambda, scope: Scope, index: PartIndex) -> Scope:
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    _bind_parameters(node.args, inner)
    return inner


def _bind_parameters(arguments: ast.arguments, scope: Scope) -> None:
    variable = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variable):
        scope.bind(Definition(argument.arg, Binding.PARAMETER, argument))


def _class(node: ast.ClassDef, scope: Scope, index: PartIndex) -> Scope:
    scope.bind(Definition(node.name, Binding.CLASS, node))
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    return inner


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope, index: PartIndex
) -> Scope:
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    for generator in node.generators:
        bind_target(generator.target, Binding.COMPREHENSION, node, generator.iter, inner)
    return inner


def _outer_names(node: ast.Global | ast.Nonlocal, scope: Scope, index: PartIndex) -> Scope:
    scope.outer_names.update(node.names)
    return scope


def _delete(node: ast.Delete, scope: Scope, index: PartIndex) -> Scope:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.bind(Definition(target.id, Binding.DELETED, node))
    return scope


def _pattern(node: ast.AST, scope: Scope, index: PartIndex) -> Scope:
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    if name:
        scope.bind(Definition(name, Binding.OTHER, node))
    return scope


def _call(node: ast.Call, scope: Scope, index: PartIndex) -> Scope:
    function = node.func
    if isinstance(function, ast.Attribute):
        index.called.add(function.attr)
    elif isinstance(function, ast.Name):
        index.called.add(function.id)
    return scope


_ENTER: dict[type[ast.AST], _Enter] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.NamedExpr: _named_expression,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Global: _outer_names,
    ast.Nonlocal: _outer_names,
    ast.Delete: _delete,
    ast.MatchAs: _pattern,
    ast.MatchStar: _pattern,
    ast.MatchMapping: _pattern,
    ast.Call: _call,
}
