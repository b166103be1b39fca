"""What a list of transforms holds when a pipeline is made of it, in the order in which the code puts it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.nodes import contains, nodes_within
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of, part_of

_GROWING = frozenset(("append", "extend"))
_READING = frozenset(("Compose", "len", "print", "list"))
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def steps_of(semantics: Semantics, pipeline: ast.expr | None) -> Iterator[ast.expr | None]:
    """The elements of a list: of a display, of sums of them, and of a name to which elements are appended afterwards.
    None stands for something unknown in this place: what is unpacked, or appended under a condition."""
    value = semantics.value_of(pipeline)
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            written = [None if isinstance(element, ast.Starred) else element for element in elements]
            added = _added(semantics, pipeline, value) if isinstance(pipeline, ast.Name) else []
            yield from [None] if added is None else [*written, *added]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from steps_of(semantics, left)
            yield from steps_of(semantics, right)
        case ast.Name() if (display := _display_before(semantics, value)) is not None:
            added = _added(semantics, value, display)
            yield from [None] if added is None else [*steps_of(semantics, display), *added]
        case ast.expr():
            yield None


def _display_before(semantics: Semantics, use: ast.Name) -> ast.expr | None:
    """The list that a name is bound to once, where all else that binds it adds to that: ``steps += [...]``."""
    bindings = semantics.bindings(use)
    first = [found.value for found in bindings if found.kind is Binding.ASSIGNMENT and not found.path]
    if len(first) != 1 or not all(found.kind in (Binding.ASSIGNMENT, Binding.AUGMENTED) for found in bindings):
        return None
    return first[0] if isinstance(first[0], ast.List) else None


def _added(semantics: Semantics, use: ast.Name, display: ast.expr) -> list[ast.expr | None] | None:
    """What is put at the end of a list between its making and its use; None if it may be changed in another way."""
    made = parent_of(display)
    if not isinstance(made, ast.Assign | ast.AnnAssign):
        return []
    block = semantics.block_of(made)
    found: list[ast.expr | None] = []
    for statement in block[block.index(made) + 1 :] if made in block else ():
        at_end = part_of(statement) is part_of(use) and contains(statement, use)
        if at_end and not isinstance(statement, _COMPOUND):
            break
        if isinstance(statement, ast.AugAssign) and _is_mention(statement.target, use):
            found += list(steps_of(semantics, statement.value)) if isinstance(statement.op, ast.Add) else [None]
            continue
        mentions = [name for name in nodes_within(statement, ast.Name) if _is_mention(name, use)]
        if not all(_grows(name) for name in mentions):
            return None
        if mentions:
            found += [None] if isinstance(statement, _COMPOUND) else _put(semantics, mentions[0])
        if at_end:
            break
    return found


def _is_mention(name: ast.AST, use: ast.Name) -> bool:
    """Whether a name is another mention of a list that is used, and does more than read it."""
    if not isinstance(name, ast.Name) or name.id != use.id or name is use:
        return False
    holder = parent_of(name)
    reads = isinstance(holder, ast.BinOp) or (isinstance(holder, ast.Call) and last_name(holder.func) in _READING)
    return not reads


def _grows(name: ast.AST) -> bool:
    holder = parent_of(name)
    if isinstance(holder, ast.AugAssign):
        return holder.target is name and isinstance(holder.op, ast.Add)
    return isinstance(holder, ast.Attribute) and holder.attr in _GROWING


def _put(semantics: Semantics, name: ast.AST) -> list[ast.expr | None]:
    """What ``name.append(...)`` or ``name.extend(...)`` adds."""
    method = parent_of(name)
    match parent_of(method) if method is not None else None:
        case ast.Call(func=ast.Attribute(attr="append") as called, args=[element]) if called is method:
            return [element]
        case ast.Call(func=ast.Attribute(attr="extend") as called, args=[more]) if called is method:
            return list(steps_of(semantics, more))
        case _:
            return [None]
