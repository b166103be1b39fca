"""Questions about single nodes that their own part answers: what is inside, what is around, the arguments of a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

from torchlint.semantics.index import index_of
from torchlint.semantics.scopes import FunctionNode, Scope
from torchlint.syntax import parent_of, part_of


def scope_at(node: ast.AST) -> Scope:
    """The innermost scope in which a node is evaluated (defaults and decorators belong outside their function)."""
    scope: Scope | None = node.__dict__.get("_scope")
    if scope is None:
        index_of(part_of(node))
        scope = cast("Scope", node.__dict__["_scope"])
    return scope


def enclosing_function(node: ast.AST) -> FunctionNode | None:
    """The innermost function (no lambda) in whose body a node stands; None at the top of a module or class."""
    return scope_at(node).function


def enclosing_class(node: ast.AST) -> ast.ClassDef | None:
    """The class in whose body a function or statement stands directly or in a method (the innermost)."""
    current = parent_of(node)
    while current is not None:
        if isinstance(current, ast.ClassDef):
            return current
        current = parent_of(current)
    return None


def statement_of(node: ast.AST) -> ast.stmt:
    """The innermost statement that holds a node, or is it."""
    current: ast.AST | None = node
    while current is not None and not isinstance(current, ast.stmt):
        current = parent_of(current)
    if current is None:
        raise ValueError("no statement holds the node")
    return current


def targets_of(statement: ast.AST | None) -> list[ast.expr]:
    """What an assignment binds, with an annotation or without; empty for anything else."""
    if isinstance(statement, ast.AnnAssign):
        return [statement.target]
    return statement.targets if isinstance(statement, ast.Assign) else []


def nodes_within(root: ast.AST, *types: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of some types inside ``root`` (itself included), in the order of the source."""
    index = index_of(part_of(root))
    if len(types) == 1:
        return iter(index.within(root, types[0]))
    found = [node for node_type in types for node in index.within(root, node_type)]
    found.sort(key=position_of)
    return iter(found)


_NOT_IN_ORDER = (ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def calls_in_order(expression: ast.AST) -> list[ast.Call] | None:
    """The calls in an expression in the order in which they are evaluated, which is that of their ends in the source;
    None where something in it may be left out, repeated or put off."""
    index = index_of(part_of(expression))
    calls = cast("list[ast.Call]", index.within(expression, ast.Call))
    if not calls:
        return calls
    if any(index.within(expression, held) for held in _NOT_IN_ORDER if held in index.nodes):
        return None
    return sorted(calls, key=_end) if len(calls) > 1 else calls


def _end(node: ast.Call) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def contains(root: ast.AST, node: ast.AST) -> bool:
    """Whether ``node`` is ``root`` or stands inside it."""
    part = part_of(root)
    return part_of(node) is part and index_of(part).contains(root, node)


def element_of(value: ast.expr, path: Sequence[int | None]) -> ast.expr | None:
    """The element of a literal tuple or list that an unpacking path leads to; None where it is not literal."""
    for index in path:
        if (
            not isinstance(value, ast.Tuple | ast.List)
            or index is None
            or not -len(value.elts) <= index < len(value.elts)
        ):
            return None
        if any(isinstance(element, ast.Starred) for element in value.elts):
            return None
        value = value.elts[index]
    return value


def are_exclusive(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether two statements stand on different ways through one `if`."""
    ways = {}
    node: ast.AST = one
    while (parent := parent_of(node)) is not None:
        if isinstance(parent, ast.If) and node is not parent.test:
            ways[parent] = node in parent.body
        node = parent
    node = other
    while (parent := parent_of(node)) is not None:
        if isinstance(parent, ast.If) and parent in ways and ways[parent] != (node in parent.body):
            return True
        node = parent
    return False


def is_static(function: FunctionNode) -> bool:
    """Whether a method has no ``self`` because of its decorators."""
    return any(
        isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod")
        for decorator in function.decorator_list
    )


def position_of_parameter(parameter: ast.arg, function: FunctionNode) -> int | None:
    """Where a call gives a parameter, from 0, without ``self``; None for ``self`` and where only a keyword gives it."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if isinstance(parent_of(function), ast.ClassDef) and not is_static(function):
        positional = positional[1:]
    return positional.index(parameter) if parameter in positional else None


def default_of(parameter: ast.arg) -> ast.expr | None:
    """The default of a parameter of a function or lambda; None if it has none."""
    given = parent_of(parameter)
    if not isinstance(given, ast.arguments):
        return None
    if parameter in given.kwonlyargs:
        return given.kw_defaults[given.kwonlyargs.index(parameter)]
    positional = [*given.posonlyargs, *given.args]
    place = positional.index(parameter) - (len(positional) - len(given.defaults)) if parameter in positional else -1
    return given.defaults[place] if place >= 0 else None


def shortened(node: ast.AST, longest: int) -> str:
    """The code of a node, cut to at most ``longest`` characters."""
    text = ast.unparse(node)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def argument(call: ast.Call, position: int | None, keyword: str | None) -> ast.expr | None:
    """The argument of a call at a position (from 0) or by keyword; None if absent.

    None too where a starred argument stands before the position: use ``has_unknown_arguments`` to tell.
    """
    for item in call.keywords:
        if item.arg is not None and item.arg == keyword:
            return item.value
    if position is None or position >= len(call.args):
        return None
    if any(isinstance(item, ast.Starred) for item in call.args[: position + 1]):
        return None
    return call.args[position]


def has_unknown_arguments(call: ast.Call) -> bool:
    """Whether a call unpacks arguments (``*args``, ``**kwargs``), so that absence of one cannot be proven."""
    return any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords)


def position_of(node: ast.AST) -> tuple[int, int]:
    """Row and column at which a node begins, in its part; (0, 0) for one without a place of its own."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def begins_before(node: ast.AST, other: ast.AST) -> bool:
    """Whether a node begins before another one of its part."""
    return position_of(node) < position_of(other)
