"""Groups of parameters (``{"params": [...], "lr": ...}``) that are filled for an optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_FILLING = frozenset(("append", "extend"))


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """A group under a name; ``filled``: what is put into it first."""

    name: str
    node: ast.Dict
    filled: ast.expr


def lost_groups(semantics: Semantics, build: ast.Call, given: ast.expr) -> Iterator[Group]:
    """The groups that the function of an optimizer fills, and that nothing receives: neither the list of groups that
    the optimizer is ``given``, which other groups are put into, nor anything else."""
    function = enclosing_function(build)
    if function is None or not isinstance(given, ast.Name):
        return
    reads = [n for n in nodes_within(function, ast.Name) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    for group in nodes_within(function, ast.Dict):
        match parent_of(group):
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) as statement:
                pass
            case _:
                continue
        if not isinstance(group, ast.Dict):
            continue
        uses = [
            read
            for read in reads
            if read.id == name and any(found.node is statement for found in semantics.definitions(read))
        ]
        filled = [node for node in (_filled_at_once(group), *map(_filling, uses)) if node is not None]
        if filled and all(_filling(use) is not None or _is_entry(use) for use in uses):
            yield Group(name, group, filled[0])


def _filled_at_once(group: ast.Dict) -> ast.expr | None:
    """``{"params": [p for p in net.parameters()]}``."""
    for key, value in zip(group.keys, group.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "params":
            return None if _is_empty(value) else value
    return None


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _filling(use: ast.Name) -> ast.expr | None:
    """What is put into a group: ``group["params"].append(...)``, ``group["params"] = [...]``."""
    match parent_of(use):
        case ast.Subscript(slice=ast.Constant(value="params")) as entry:
            holder = parent_of(entry)
            if isinstance(holder, ast.Assign):
                return None if _is_empty(holder.value) else holder.value
            call = parent_of(holder) if isinstance(holder, ast.Attribute) and holder.attr in _FILLING else None
            return call if isinstance(call, ast.Call) else None
        case _:
            return None


def _is_entry(use: ast.Name) -> bool:
    """``group["lr"] = ...``, which gives the group to nobody."""
    holder = parent_of(use)
    return isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store)
