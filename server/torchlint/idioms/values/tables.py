"""Data of tables before they are tensors: a column of values, or a matrix with a row for each example, as pandas and
scikit-learn give them."""

from __future__ import annotations

import ast
from enum import Enum

from torchlint.semantics.literals import literal_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

_DEEPEST = 8
_SPLIT = "sklearn.model_selection.train_test_split"
#: Methods that keep the shape, of arrays and frames.
_KEEPS = frozenset(("astype", "copy", "to_numpy", "float", "fillna"))
#: Methods of preprocessing objects: what they are given and give is a matrix.
_TRANSFORMS = frozenset(("fit_transform", "transform"))
_ARRAYS = ("numpy.array", "numpy.asarray")


class Table(Enum):
    """What data of a table are."""

    COLUMN = "a value for each example"
    MATRIX = "a row for each example"


def table_of(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> Table | None:
    """Whether data are certainly a column of a table or several of its columns; None where that is not shown."""
    if depth > _DEEPEST:
        return None
    value = semantics.value_of(expression)
    match value:
        case ast.Name():
            return _unpacked(semantics, value, depth)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPS:
            return (_of_frame(semantics, inner) if method == "to_numpy" else None) or table_of(
                semantics, inner, depth + 1
            )
        case ast.Call(func=ast.Attribute(attr=method), args=[given]) if method in _TRANSFORMS:
            return Table.MATRIX if table_of(semantics, given, depth + 1) is Table.MATRIX else None
        case ast.Call(args=[given, *_]) if semantics.is_named(value.func, *_ARRAYS):
            return table_of(semantics, given, depth + 1)
        case ast.Attribute(value=inner, attr="values"):
            return _of_frame(semantics, inner)
        case ast.Attribute(value=inner, attr="data" | "target" as part):
            made = semantics.value_of(inner)
            if isinstance(made, ast.Call) and semantics.name(made.func).startswith("sklearn.datasets.load_"):
                return Table.MATRIX if part == "data" else Table.COLUMN
    return None


def _of_frame(semantics: Semantics, expression: ast.expr, depth: int = 0) -> Table | None:
    """What is taken of a frame: ``df["price"]``, ``df[["a", "b"]]``, ``df.iloc[:, :-1]``, ``df.drop("price", axis=1)``;
    also behind ``train_test_split``."""
    value = semantics.value_of(expression)
    match value:
        case ast.Name() if depth < _DEEPEST:
            given = _split(semantics, value)
            return _of_frame(semantics, given, depth + 1) if given is not None else None
        case ast.Subscript(value=ast.Attribute(attr="iloc" | "loc"), slice=ast.Tuple(elts=[ast.Slice(), columns])):
            return Table.MATRIX if isinstance(columns, ast.Slice | ast.List) else _one(columns)
        case ast.Subscript(slice=ast.Constant(value=str())):
            return Table.COLUMN
        case ast.Subscript(slice=ast.List()):
            return Table.MATRIX
        case ast.Call(func=ast.Attribute(attr="drop"), args=args, keywords=keywords):
            names = {item.arg for item in keywords}
            return Table.MATRIX if "columns" in names or (args and "axis" in names) else None
        case _:
            return None


def _one(columns: ast.expr) -> Table | None:
    return Table.COLUMN if isinstance(literal_of(columns), int | str) else None


def _split(semantics: Semantics, name: ast.Name) -> ast.expr | None:
    """What ``train_test_split`` was given for one of the parts that it makes."""
    call, place = _unpacking(semantics, name)
    if call is None or semantics.name(call.func) != _SPLIT:
        return None
    return call.args[place // 2] if place // 2 < len(call.args) else None


def _unpacking(semantics: Semantics, name: ast.Name) -> tuple[ast.Call | None, int]:
    """The call whose result a name is unpacked from, and the place in it."""
    definitions = semantics.definitions(name)
    if len(definitions) != 1 or definitions[0].kind is not Binding.ASSIGNMENT:
        return None, 0
    call, path = definitions[0].value, definitions[0].path
    if not isinstance(call, ast.Call) or len(path) != 1 or path[0] is None or path[0] < 0:
        return None, 0
    return call, path[0]


def _unpacked(semantics: Semantics, name: ast.Name, depth: int) -> Table | None:
    """``X, y = make_regression(...)``, and what ``train_test_split`` makes of such."""
    given = _split(semantics, name)
    if given is not None:
        return table_of(semantics, given, depth + 1)
    call, place = _unpacking(semantics, name)
    if call is None:
        return None
    made = semantics.name(call.func)
    keywords = {item.arg for item in call.keywords}
    loads = made.startswith("sklearn.datasets.load_") and "return_X_y" in keywords
    if not (loads or made.startswith("sklearn.datasets.make_")) or "n_targets" in keywords or None in keywords:
        return None
    return (Table.MATRIX, Table.COLUMN)[place] if place < 2 else None
