"""The arguments of a ``DataLoader``, with those that a dict of the file brings (``DataLoader(dataset, **options)``)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.idioms.data.loaders import LOADER_PARAMETERS
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.literals import literal_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 4
#: Methods of a dict that change nothing.
_READS = frozenset(("get", "keys", "values", "items", "copy"))


@dataclass(frozen=True, slots=True)
class Arguments:
    """``given`` in any case, by the name of the parameter; ``possible``: what is given on some paths only."""

    given: Mapping[str, ast.expr] = field(default_factory=dict)
    possible: frozenset[str] = frozenset()

    def joined(self, other: Arguments) -> Arguments:
        """All of these, where both are given."""
        return Arguments({**self.given, **other.given}, self.possible | other.possible)


def loader_arguments(semantics: Semantics, call: ast.Call) -> Arguments | None:
    """What a call of ``DataLoader`` gives; None where it unpacks something that is not known."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    return _joined(Arguments(dict(zip(LOADER_PARAMETERS, call.args, strict=False))), semantics, call.keywords, 0)


def _joined(known: Arguments, semantics: Semantics, keywords: Iterable[ast.keyword], depth: int) -> Arguments | None:
    for item in keywords:
        brought = (
            Arguments({item.arg: item.value}) if item.arg is not None else _unpacked(semantics, item.value, depth + 1)
        )
        if brought is None:
            return None
        known = known.joined(brought)
    return known


def _unpacked(semantics: Semantics, options: ast.expr, depth: int) -> Arguments | None:
    """What a dict of the file brings."""
    if depth > _DEEPEST:
        return None
    match options:
        case ast.Dict(keys=keys, values=values):
            known = Arguments()
            for key, value in zip(keys, values, strict=True):
                name = literal_of(key)
                brought = _unpacked(semantics, value, depth + 1) if key is None else None
                if key is not None and isinstance(name, str):
                    brought = Arguments({name: value})
                if brought is None:
                    return None
                known = known.joined(brought)
            return known
        case ast.Call(args=[]) if builtin_called(semantics, options) == "dict":
            return _joined(Arguments(), semantics, options.keywords, depth)
        case ast.IfExp(body=body, orelse=orelse):
            sides = [_unpacked(semantics, side, depth + 1) for side in (body, orelse)]
            known_sides = [side for side in sides if side is not None]
            if len(known_sides) < 2:
                return None
            return Arguments({}, frozenset(name for side in known_sides for name in (*side.given, *side.possible)))
        case ast.Name():
            return _of_name(semantics, options, depth)
        case _:
            return None


def _of_name(semantics: Semantics, name: ast.Name, depth: int) -> Arguments | None:
    """What the dict under a name brings: bound once, and changed in ways that can be read."""
    bindings = semantics.bindings(name)
    if len(bindings) != 1 or bindings[0].kind is not Binding.ASSIGNMENT or bindings[0].path:
        return None
    value = bindings[0].value
    known = _unpacked(semantics, value, depth + 1) if value is not None else None
    if known is None:
        return None
    possible = set(known.possible)
    for use in semantics.module.uses_of_name(name.id):
        if semantics.bindings(use) != bindings:
            continue
        changed = _changed_by(semantics, use, depth)
        if changed is None:
            return None
        possible |= changed
    given = {key: value for key, value in known.given.items() if key not in possible}
    return Arguments(given, frozenset(possible))


def _changed_by(semantics: Semantics, use: ast.Name, depth: int) -> frozenset[str] | None:
    """The keys of a dict that a use of its name may set; None where the use may do anything."""
    match parent_of(use):
        case ast.keyword(arg=None):
            return frozenset()
        case ast.Subscript(value=base, slice=key, ctx=context) if base is use:
            name = literal_of(key)
            if isinstance(context, ast.Load):
                return frozenset()
            return frozenset((name,)) if isinstance(name, str) else None
        case ast.Attribute(attr=method) as attribute:
            call = parent_of(attribute)
            if not isinstance(call, ast.Call) or call.func is not attribute:
                return None
            if method in _READS:
                return frozenset()
            if method in ("update", "setdefault", "pop"):
                return _set_by(semantics, call, method, depth)
            return None
        case ast.Call(func=ast.Attribute(attr="update")):  # of another dict
            return frozenset()
        case ast.Call() as call if builtin_called(semantics, call) in ("print", "len"):
            return frozenset()
        case ast.Dict(keys=keys, values=values) as display:
            return frozenset() if keys[values.index(use)] is None and use in display.values else None
        case _:
            return None


def _set_by(semantics: Semantics, call: ast.Call, method: str, depth: int) -> frozenset[str] | None:
    """The keys that ``options.update(...)``, ``.setdefault(...)`` or ``.pop(...)`` change."""
    if method != "update":
        name = literal_of(call.args[0]) if call.args else None
        return frozenset((name,)) if isinstance(name, str) else None
    brought = _joined(Arguments(), semantics, call.keywords, depth)
    for item in call.args:
        more = _unpacked(semantics, item, depth + 1)
        brought = brought.joined(more) if brought is not None and more is not None else None
    return frozenset((*brought.given, *brought.possible)) if brought is not None else None
