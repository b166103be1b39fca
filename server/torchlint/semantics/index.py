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
from torchlint.semantics.binding import ENTER, Enter
from torchlint.semantics.scopes import FunctionNode, Scope
from torchlint.syntax import PARSED_BEHIND, Part, parent_of

_NodeT = TypeVar("_NodeT", bound=ast.AST)
#: Fields that hold no nodes, or nodes that nobody looks at.
_SKIPPED_FIELDS = frozenset(
    "ctx op ops type_comment kind type_ignores id attr arg name asname module level simple conversion is_async rest "
    "kwd_attrs str".split()
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Types whose fields hold no nodes.
_LEAVES = frozenset({ast.Name, ast.Constant, ast.alias, ast.Global, ast.Nonlocal, ast.MatchSingleton})
#: A longer text is no name of an attribute.
_LONGEST_NAME = 200
_Record = Callable[[ast.AST], None]


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
    for name in _PLANS[node.__class__][1][::-1]:
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
    for name in _PLANS[node.__class__][1]:
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
    held = () if node_type in _LEAVES else node_type._fields
    named = node_type.__name__ == "TypeAlias"  # of everything else the name is a text
    return tuple(name for name in reversed(held) if name not in _SKIPPED_FIELDS or (named and name == "name"))


class _Plans(dict[type[ast.AST], tuple[Enter | None, tuple[str, ...]]]):
    """For each type what its nodes bind, and where nodes are inside them; made when a type is first met."""

    def __missing__(self, node_type: type[ast.AST]) -> tuple[Enter | None, tuple[str, ...]]:
        plan = self[node_type] = (ENTER.get(node_type), _child_fields(node_type))
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
    plans: dict[type[ast.AST], tuple[_Record, Enter | None, tuple[str, ...], bool]] = {}
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
