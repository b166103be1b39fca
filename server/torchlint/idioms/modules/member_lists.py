"""The members of an ``nn.Sequential`` in the order in which they run: given, in a list that grew, or added later."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView
from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import contains, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import Part, parent_of, part_of

#: The members in order; None stands for what cannot be read, and for the edges of what may run or not.
Members = list[ast.expr | None]
_BLOCKS = ("body", "orelse", "handlers", "finalbody")
#: Calls that only look at a list of layers, or give it to the container that is read.
_HARMLESS = frozenset({"len", "print", "Sequential"})


def members_of_call(call: ast.Call, semantics: Semantics) -> Members:
    """The members that a call of ``nn.Sequential`` is given, and those that are added to what it makes."""
    members = _given(call.args, call, semantics)
    statement = parent_of(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is call:
        later = _added_later(statement, statement.targets[0], semantics)
        return [None] if later is None else members + later
    return members


def members_of_class(view: ClassView) -> Members:
    """The members that the constructor of a subclass of ``nn.Sequential`` gives to its base, or adds to itself."""
    constructor = view.method("__init__")
    own = first_parameter(constructor) if constructor is not None else None
    if constructor is None or own is None:
        return []
    reader = _Reader(own, view.semantics, None, shared=True, inherits=True)
    reader.read(constructor.body)
    return reader.members if reader.certain else []


def _given(arguments: Sequence[ast.expr], call: ast.Call, semantics: Semantics) -> Members:
    match arguments:
        case [ast.Call(func=ast.Name(id="OrderedDict") | ast.Attribute(attr="OrderedDict"), args=[inner])]:
            return _pairs(inner)
        case [ast.Dict() as inner]:
            return _pairs(inner)
        case [ast.Name() as name] if _is_dict(semantics.value_of(name), semantics):
            return _variable(name, call, semantics)
    members: Members = []
    for item in arguments:
        members += _display(item.value, call, semantics) if isinstance(item, ast.Starred) else [item]
    return members


def _pairs(inner: ast.expr) -> Members:
    """The values of what an ``OrderedDict`` is made of."""
    match inner:
        case ast.Dict(keys=keys, values=values):
            return [value if key is not None else None for key, value in zip(keys, values, strict=True)]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [item.elts[1] if isinstance(item, ast.Tuple) and len(item.elts) == 2 else None for item in elements]
        case _:
            return [None]


def _is_dict(value: ast.expr | None, semantics: Semantics) -> bool:
    return isinstance(value, ast.Call) and semantics.is_named(value.func, "collections.OrderedDict")


def _display(value: ast.expr, call: ast.AST, semantics: Semantics) -> Members:
    """The elements of a list of layers at the place of ``call``."""
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            found: Members = []
            for element in elements:
                found += _display(element.value, call, semantics) if isinstance(element, ast.Starred) else [element]
            return found
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _display(left, call, semantics) + _display(right, call, semantics)
        case ast.Name():
            return _variable(value, call, semantics)
        case _:
            return [None]


def _variable(name: ast.Name, call: ast.AST, semantics: Semantics) -> Members:
    """What a local list holds when ``call`` reads it."""
    function = enclosing_function(name)
    bindings = semantics.bindings(name)
    if any(item.kind not in (Binding.ASSIGNMENT, Binding.AUGMENTED, Binding.ANNOTATION) for item in bindings):
        return [None]
    if function is None:
        value = semantics.value_of(name)
        grows = any(semantics.module.calls_of(method) for method in ("append", "extend", "insert", "pop"))
        plain = isinstance(value, ast.List | ast.Tuple) and len(bindings) == 1 and not grows
        return _display(value, call, semantics) if plain and value is not None else [None]
    body = function.body

    def read() -> Members:
        reader = _Reader(name.id, semantics, call)
        reader.read(body)
        return reader.members if reader.certain and reader.done else [None]

    return semantics.module.memo.cached(("members of", name), read, [None])


def _added_later(statement: ast.Assign, target: ast.expr, semantics: Semantics) -> Members | None:
    """What the rest of the block adds to the container that a statement makes; None where other code may change it."""
    function = enclosing_function(statement)
    match target:
        case ast.Name(id=name):
            holder = name
        case ast.Attribute(value=ast.Name(id=own), attr=attribute):
            holder = f"{own}.{attribute}"
        case _:
            return None
    block = next(
        (
            body
            for field in _BLOCKS
            if statement in (body := getattr(parent_of(statement) or function, field, None) or ())
        ),
        None,
    )
    if block is None or function is None:
        return []
    reader = _Reader(holder, semantics, None, shared=True)
    reader.read(block[block.index(statement) + 1 :])
    return reader.members if reader.certain else None


class _Reader:
    """Reads the statements that fill a list, ordered dict or Sequential, in order, up to the node ``until``."""

    def __init__(
        self, holder: str, semantics: Semantics, until: ast.AST | None, shared: bool = False, inherits: bool = False
    ) -> None:
        self.members: Members = []
        #: Whether nothing else could have changed the members.
        self.certain = True
        #: Whether ``until`` was met.
        self.done = False
        self._holder = holder
        self._semantics = semantics
        self._until = until
        #: Whether functions that are given the container leave its members alone, as they do with a module.
        self._shared = shared
        #: Whether it is ``self`` of a class whose base is given members by ``super().__init__(...)``.
        self._inherits = inherits
        #: The statements that mention it, and those around them.
        self._statements: set[ast.AST] = set()

    def read(self, body: Sequence[ast.stmt], certain: bool = True) -> None:
        if body and not self._statements:
            self._statements = _mentioning(part_of(body[0]), self._holder, *(("super",) if self._inherits else ()))
        for statement in body:
            if self.done:
                return
            if self._until is not None and contains(statement, self._until):
                self._enter(statement, certain)
                self.done = True
            elif statement in self._statements:
                self._statement(statement, certain)

    def _enter(self, statement: ast.stmt, certain: bool) -> None:
        """Read the block of a compound statement that leads to ``until``."""
        for block in _blocks(statement):
            if any(self._until is not None and contains(inner, self._until) for inner in block):
                self.read(block, certain)
                return

    def _is_holder(self, expression: ast.expr) -> bool:
        match expression:
            case ast.Name(id=name):
                return name == self._holder
            case ast.Attribute(value=ast.Name(id=own), attr=attribute):
                return f"{own}.{attribute}" == self._holder
            case _:
                return False

    def _statement(self, statement: ast.stmt, certain: bool) -> None:
        match statement:
            case (
                ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value)
            ) if self._is_holder(target):
                self._assigned(value, certain)
            case ast.Assign(
                targets=[ast.Subscript(value=target, slice=ast.Constant(value=str()) | ast.JoinedStr())], value=value
            ) if self._is_holder(target):
                self.members.append(value)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=own))], value=value) if own == self._holder:
                self._attribute(value)
            case ast.AugAssign(target=target, op=ast.Add(), value=value) if self._is_holder(target):
                self.members += self._elements(value)
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.With(body=body):
                self.read(body, certain)
            case ast.If() | ast.For() | ast.While() | ast.Try():
                for block in _blocks(statement):
                    before = len(self.members)
                    self.members.append(None)
                    self.read(block, certain=False)
                    if len(self.members) == before + 1:
                        self.members.pop()  # the block only uses the container
                    else:
                        self.members.append(None)
            case ast.Return():
                pass
            case _ if self._reaches_elsewhere(statement):
                self.certain = False

    def _assigned(self, value: ast.expr, certain: bool) -> None:
        """``layers = [...]``, or ``layers = layers + [...]``."""
        match value:
            case ast.BinOp(op=ast.Add(), left=left, right=right) if self._is_holder(left):
                self.members += _display(right, value, self._semantics)
            case _:
                start = self._elements(value)
                self.members = start if certain else [*self.members, None, *start]

    def _attribute(self, value: ast.expr) -> None:
        """``self.conv = nn.Conv2d(...)`` in a subclass of Sequential adds a member."""
        kind = self._semantics.kind(value)
        if kind is None or kind.is_module:
            self.members.append(value)

    def _elements(self, value: ast.expr) -> Members:
        if _is_dict(value, self._semantics) and isinstance(value, ast.Call):
            return _pairs(value.args[0]) if value.args else []
        if isinstance(value, ast.Call) and self._semantics.is_named(value.func, "torch.nn.Sequential"):
            return members_of_call(value, self._semantics)
        return _display(value, value, self._semantics)

    def _call(self, call: ast.Call) -> None:
        match call:
            case ast.Call(
                func=ast.Attribute(value=target, attr="append" | "add_module" as method), args=[*_, member]
            ) if self._is_holder(target) and (method == "add_module") == (len(call.args) == 2):
                self.members.append(member)
            case ast.Call(func=ast.Attribute(value=target, attr="extend"), args=[given]) if self._is_holder(target):
                self.members += _display(given, call, self._semantics)
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"), args=given
            ) if self._inherits:
                self.members += _given(given, call, self._semantics)
            case _ if self._reaches_elsewhere(call):
                self.certain = False

    def _reaches_elsewhere(self, node: ast.AST) -> bool:
        """Whether the container is given to something, or changed in a way that is not read here."""
        for inner in nodes_within(node, ast.Name, ast.Attribute):
            if not isinstance(inner, ast.Name | ast.Attribute) or not self._is_holder(inner):
                continue
            match parent_of(inner):
                case ast.Attribute(attr="insert" | "pop" | "remove" | "clear" | "__setitem__" | "update" | "reverse"):
                    return True
                case ast.Attribute():
                    pass  # an attribute of `self`, or a method that changes nothing
                case ast.Subscript(ctx=context):
                    if not isinstance(context, ast.Load):
                        return True
                case ast.Starred():
                    pass
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _HARMLESS:
                    pass
                case _ if not self._shared:
                    return True
        return False


def _mentioning(part: Part, *holders: str) -> set[ast.AST]:
    """The statements of a part that mention names or attributes of names (``self.body``), with those around them."""
    found: set[ast.AST] = set()
    mentions = _mentions_in(part)
    for holder in holders:
        for node in mentions.get(holder, ()):
            current: ast.AST | None = node
            while current is not None and current not in found:
                found.add(current)
                current = parent_of(current)
    return found


def _mentions_in(part: Part) -> dict[str, list[ast.AST]]:
    """Where a part mentions each name, and each attribute of a name."""
    known: dict[str, list[ast.AST]] | None = part.__dict__.get("_mentions")
    if known is None:  # depends on nothing outside the part
        known = {}
        for name in index_of(part).all(ast.Name):
            known.setdefault(name.id, []).append(name)
        for attribute in index_of(part).all(ast.Attribute):
            if isinstance(attribute.value, ast.Name):
                known.setdefault(f"{attribute.value.id}.{attribute.attr}", []).append(attribute)
        part.__dict__["_mentions"] = known
    return known


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement, in order."""
    found: list[list[ast.stmt]] = []
    for field in _BLOCKS:
        inner = getattr(statement, field, None) or []
        found += [item.body for item in inner] if field == "handlers" else [inner] if inner else []
    return found
