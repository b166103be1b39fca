"""What a ``DataLoader`` is given: its arguments by name, how many workers it starts, and whose samples it loads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, default_of, has_unknown_arguments
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

LOADER = "torch.utils.data.DataLoader"
#: The parameters of ``DataLoader`` that may be given by position (torch 2.13); those after them are keyword-only.
LOADER_PARAMETERS = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
)
_POSITIONS = {name: position for position, name in enumerate(LOADER_PARAMETERS)}
#: Datasets over (a part of) the dataset that they are given first.
_PARTS = ("torch.utils.data.Subset", "torch.utils.data.random_split")
_COUNTS = ("os.cpu_count", "multiprocessing.cpu_count", "psutil.cpu_count")
_DEEPEST = 5


def loader_argument(call: ast.Call, name: str) -> ast.expr | None:
    """What a call of ``DataLoader`` gives for a parameter, by position or by name; None if absent."""
    return argument(call, _POSITIONS.get(name), name)


def worker_count(semantics: Semantics, call: ast.Call) -> int | None:
    """How many worker processes a ``DataLoader`` starts; None where the file does not say.

    A parameter counts by its default, an option of ``argparse`` by the default that the file gives it, and the number
    of processors as 1 (it is at least that).
    """
    given = loader_argument(call, "num_workers")
    if given is None:
        return None if has_unknown_arguments(call) else 0
    return stated_number(semantics, given)


def stated_number(semantics: Semantics, expression: ast.expr) -> int | None:
    """The whole number that an expression is, as far as the file says: a literal, or the default of a parameter or
    option (see ``worker_count``)."""
    return _count(semantics, expression, 0)


def has_workers(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a ``DataLoader`` is told to start worker processes: their number is given, and not known to be 0."""
    count = worker_count(semantics, call)
    return count > 0 if count is not None else loader_argument(call, "num_workers") is not None


def _count(semantics: Semantics, expression: ast.expr, depth: int) -> int | None:
    value = semantics.literal(expression)
    if isinstance(value, int):
        return int(value)
    if depth > _DEEPEST:
        return None
    match expression:
        case ast.Call() if semantics.is_named(expression.func, *_COUNTS):
            return 1
        case ast.Name():
            definitions = semantics.definitions(expression)
            if len(definitions) != 1:
                return None
            (definition,) = definitions
            if definition.kind is Binding.ASSIGNMENT and not definition.path and definition.value is not None:
                return _count(semantics, definition.value, depth + 1)
            if definition.kind is Binding.PARAMETER and isinstance(definition.node, ast.arg):
                default = default_of(definition.node)
                literal = literal_of(default)
                return literal if isinstance(literal, int) else None
            return None
        case ast.Attribute(value=ast.Name(), attr=option):
            return _option_default(semantics, option)
        case _:
            return None


def _option_default(semantics: Semantics, option: str) -> int | None:
    """The default of ``parser.add_argument("--option", default=...)`` in this file."""
    for call in semantics.module.calls_of("add_argument"):
        names = [name for item in call.args if isinstance(name := literal_of(item), str)]
        known = {name.lstrip("-").replace("-", "_") for name in names if name.startswith("--")}
        if option in known or literal_of(argument(call, None, "dest")) == option:
            default = literal_of(argument(call, None, "default"))
            return default if isinstance(default, int) else None
    return None


def loaded_class(semantics: Semantics, call: ast.Call) -> ast.ClassDef | None:
    """The class of this file whose instance a ``DataLoader`` is given, directly or as a part of it (``Subset``)."""
    return _class_of(semantics, loader_argument(call, "dataset"), 0)


def _class_of(semantics: Semantics, expression: ast.expr | None, depth: int) -> ast.ClassDef | None:
    if expression is None or depth > _DEEPEST:
        return None
    kind = semantics.kind(expression)
    if kind is not None and kind.class_node is not None:
        return kind.class_node
    if isinstance(expression, ast.Name):
        definitions = semantics.definitions(expression)
        if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT:
            return None
        expression = definitions[0].value
    if isinstance(expression, ast.Call) and semantics.is_named(expression.func, *_PARTS):
        return _class_of(semantics, argument(expression, 0, "dataset"), depth + 1)
    return None


def all_loaders(semantics: Semantics) -> Iterator[ast.Call]:
    """The calls of ``DataLoader`` in this file, by whatever name it was imported."""
    names = {"DataLoader", *semantics.module.imported_from(frozenset(("DataLoader",)))}
    for name in sorted(names):
        for call in semantics.module.calls_of(name):
            if semantics.is_named(call.func, LOADER):
                yield call


def loaders_of(semantics: Semantics, node: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls of ``DataLoader`` in this file that are given an instance of a class of this file or of a class that
    derives from it."""
    for call in all_loaders(semantics):
        found = loaded_class(semantics, call)
        if found is not None and node in semantics.lineage(found):
            yield call


__all__ = [
    "LOADER",
    "LOADER_PARAMETERS",
    "all_loaders",
    "has_workers",
    "loaded_class",
    "loader_argument",
    "loaders_of",
    "stated_number",
    "worker_count",
]
