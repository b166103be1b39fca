"""Tensors that come out of a ``DataLoader`` in a loop: their first axis is the batch."""

from __future__ import annotations

import ast

from torchlint.idioms.data.loaders import LOADER, loader_argument
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, element_of
from torchlint.semantics.scopes import Binding, Definition, last_name
from torchlint.semantics.semantics import Semantics

_WRAPPERS = frozenset("enumerate tqdm track progress_bar".split())
#: What leaves the batch the first axis.
_KEEPS_BATCH = frozenset(
    "to cuda cpu float double half long int bool squeeze contiguous clone detach requires_grad_".split()
)
_MOVES = _KEEPS_BATCH - {"squeeze"}
_DEEPEST = 8


def is_loaded_batch(semantics: Semantics, expression: ast.expr, depth: int = 0) -> bool:
    """Whether a value is what a loop over a ``DataLoader`` gives (or an element of it), perhaps on another device.

    A loader with ``batch_size`` 1 or None, and one with its own ``collate_fn``, does not count.
    """
    if depth > _DEEPEST:
        return False
    match expression:
        case ast.Name():
            definitions = semantics.definitions(expression)
            return bool(definitions) and all(_is_of_loop(semantics, item, expression, depth) for item in definitions)
        case ast.Subscript(value=value):
            return is_loaded_batch(semantics, value, depth + 1) and isinstance(semantics.literal(expression.slice), str)
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in _KEEPS_BATCH:
            return is_loaded_batch(semantics, receiver, depth + 1)
        case _:
            return False


def loaded_element(semantics: Semantics, expression: ast.expr, any_size: bool = False) -> tuple[ast.Call, int] | None:
    """The ``DataLoader(...)`` and the place in what it gives, for ``y`` of ``for x, y in loader``; else None.

    ``any_size``: also where its batches may have one example.
    """
    place: int | None = None
    for _ in range(_DEEPEST):
        while isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
            if expression.func.attr not in _MOVES:
                return None
            expression = expression.func.value
        if isinstance(expression, ast.Subscript) and place is None:
            index = semantics.literal(expression.slice)
            place, expression = (index if isinstance(index, int) else None), expression.value
            continue
        if not isinstance(expression, ast.Name):
            return None
        definitions = semantics.definitions(expression)
        if len(definitions) != 1 or definitions[0].value is None:
            return None
        (definition,) = definitions
        assert definition.value is not None
        path = definition.path
        if definition.kind is Binding.LOOP:
            source, path = _unwrapped(definition.value, path)
            kind = semantics.kind(source)
            places = [*path, *((place,) if place is not None else ())]
            is_loader = kind is not None and kind.what is What.LOADER and isinstance(kind.node, ast.Call)
            if not is_loader or len(places) != 1 or places[0] is None or places[0] < 0:
                return None
            assert kind is not None
            assert isinstance(kind.node, ast.Call)
            collates = _collates if any_size else _collates_batches
            plain = semantics.is_named(kind.node.func, LOADER) and collates(semantics, kind.node)
            return (kind.node, places[0]) if plain else None
        if definition.kind is not Binding.ASSIGNMENT or len(path) > 1 or (path and place is not None):
            return None
        element = element_of(definition.value, path) if path else None
        if path and element is None:
            place = path[0]
        expression = element or definition.value
    return None


def _is_of_loop(semantics: Semantics, definition: Definition, use: ast.Name, depth: int) -> bool:
    value = definition.value
    if value is None:
        return False
    if definition.kind is Binding.ASSIGNMENT:
        element = element_of(value, definition.path) if definition.path else None
        if element is not None:
            return is_loaded_batch(semantics, element, depth + 1)
        if isinstance(value, ast.Tuple | ast.List):
            return False
        return len(definition.path) < 2 and is_loaded_batch(semantics, value, depth + 1)
    if definition.kind is not Binding.LOOP:
        return False
    source, path = _unwrapped(value, definition.path)
    kind = semantics.kind(source)
    if kind is None or kind.what is not What.LOADER or not isinstance(kind.node, ast.Call):
        return False
    return len(path) < 2 and semantics.is_named(kind.node.func, LOADER) and _collates_batches(semantics, kind.node)


def _unwrapped(iterable: ast.expr, path: tuple[int | None, ...]) -> tuple[ast.expr, tuple[int | None, ...]]:
    """The loader behind ``enumerate(tqdm(loader))``, and the way into what it gives."""
    while isinstance(iterable, ast.Call) and iterable.args:
        function = iterable.func
        name = last_name(function)
        if name not in _WRAPPERS:
            break
        if name == "enumerate":
            if path[:1] != (1,):
                return iterable, path
            path = path[1:]
        iterable = iterable.args[0]
    return iterable, path


def _collates_batches(semantics: Semantics, call: ast.Call) -> bool:
    size = loader_argument(call, "batch_size")
    return size is not None and semantics.literal(size) not in (1, None) and _collates(semantics, call)


def _collates(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a loader puts examples together in torch's way: what it gives is tensors, and lists and dicts of them."""
    size = loader_argument(call, "batch_size")
    if isinstance(size, ast.Constant) and size.value is None:
        return False
    return argument(call, None, "collate_fn") is None and not any(item.arg is None for item in call.keywords)
