"""What is certainly an array of NumPy with at least one axis, and lists of such."""

from __future__ import annotations

import ast

from torchlint.idioms.values.origins import origin_of
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics

#: Functions of NumPy that give an array whatever they are given; ``numpy.mean`` and its like may give a number.
_MAKERS = frozenset(
    f"numpy.{name}"
    for name in "zeros ones empty full arange linspace eye identity stack concatenate vstack hstack zeros_like "
    "ones_like full_like expand_dims frombuffer fromiter tile repeat pad copy ascontiguousarray atleast_1d atleast_2d "
    "random.permutation meshgrid".split()
)
#: Functions that give an array unless what they are given is a number.
_CONVERTERS = frozenset(("numpy.array", "numpy.asarray", "numpy.asanyarray"))
#: Random numbers: an array as soon as a size is given.
_DRAWS = {
    "numpy.random.rand": 1,
    "numpy.random.randn": 1,
    "numpy.random.random": 1,
    "numpy.random.uniform": 3,
    "numpy.random.normal": 3,
    "numpy.random.randint": 3,
}
_DEEPEST = 3
_SAME = frozenset("astype copy reshape transpose flatten ravel squeeze".split())


def is_array(semantics: Semantics, expression: ast.expr | None) -> bool:
    """Whether an expression is certainly an array with at least one axis."""
    value = semantics.value_of(expression)
    match value:
        case ast.Call(func=ast.Attribute(value=receiver, attr="numpy"), args=[]) if not semantics.names(value.func):
            kind = semantics.kind(receiver)
            return kind is None or kind.is_tensor
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in _SAME:
            if not semantics.names(value.func):
                return is_array(semantics, receiver)
        case ast.BinOp(left=left, right=right):
            return is_array(semantics, left) or is_array(semantics, right)
        case ast.Name():
            kind = semantics.kind(value)
            return kind is not None and kind.what is What.ARRAY and kind.evidence == "annotated"
        case ast.Attribute():
            written = origin_of(semantics, value)
            return written is not value and is_array(semantics, written)
    if not isinstance(value, ast.Call):
        return False
    name = semantics.name(value.func)
    if name in _MAKERS:
        return True
    if name in _CONVERTERS and value.args:
        return _is_sequence(semantics, value.args[0])
    sized = len(value.args) >= _DRAWS.get(name, 99) or any(item.arg == "size" for item in value.keywords)
    return name.startswith("numpy.random.") and sized


def _is_sequence(semantics: Semantics, expression: ast.expr) -> bool:
    value = semantics.value_of(expression)
    if isinstance(value, ast.List | ast.Tuple | ast.ListComp):
        return True
    if literal_of(value) is not UNKNOWN:
        return False
    kind = semantics.kind(value)
    return kind is None or kind.what is not What.NUMBER


def array_in_list(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> ast.expr | None:
    """The first of the arrays of which a list or tuple, or the lists in it, consist; else None. One array in a list is
    read number by number too (torch 2.13 warns)."""
    value = origin_of(semantics, expression)
    match value:
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return _array(semantics, first, depth)
        case ast.ListComp(elt=element):
            return _array(semantics, element, depth)
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.GeneratorExp(elt=element)]):
            return _array(semantics, element, depth) if semantics.kind(value) is not None else None
        case ast.BinOp(left=ast.List(elts=[first, *_]), op=ast.Mult()):
            return _array(semantics, first, depth)
        case ast.List(elts=[]) if isinstance(expression, ast.Name):
            return _array_appended(semantics, expression)
        case ast.Name() if _is_list_of_arrays(semantics, value):
            return value
    return None


def _is_list_of_arrays(semantics: Semantics, name: ast.Name) -> bool:
    """Whether an annotation says so: ``rows: list[np.ndarray]``."""
    kind = semantics.kind(name)
    if kind is None or kind.what is not What.LIST or not isinstance(kind.node, ast.Subscript):
        return False
    return semantics.is_named(kind.node.slice, "numpy.ndarray")


def _array(semantics: Semantics, element: ast.expr, depth: int) -> ast.expr | None:
    """The element if it is an array, or the first array in it if it is a list."""
    if is_array(semantics, element):
        return element
    match element:
        case ast.List(elts=[first]) | ast.Tuple(elts=[first]) if is_array(semantics, first):
            return first
        case ast.List() | ast.Tuple() | ast.ListComp() if depth < _DEEPEST:
            return array_in_list(semantics, element, depth + 1)
    return None


def _array_appended(semantics: Semantics, name: ast.Name) -> ast.expr | None:
    """The array that is appended to a list that begins empty, if only arrays are."""
    if [item.kind for item in semantics.bindings(name)] != [Binding.ASSIGNMENT]:
        return None
    function = enclosing_function(name)
    appended: list[ast.expr] = []
    for method in ("append", "extend", "insert"):
        for call in semantics.module.calls_of(method):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name.id)), args=given):
                    if enclosing_function(call) is not function:
                        continue
                    if method != "append" or len(given) != 1:
                        return None
                    appended.append(given[0])
    return appended[0] if appended and all(is_array(semantics, element) for element in appended) else None
