"""What the elements of a value are: unpacked, iterated over, or indexed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint.semantics.kinds import Grade, Kind, What, merged
from torchlint.semantics.literals import literal_of

if TYPE_CHECKING:
    from torchlint.semantics.semantics import Semantics

_PROVEN, _LIKELY = Grade.PROVEN, Grade.LIKELY
_LISTS_OF_MODULES = ("torch.nn.Sequential", "torch.nn.ModuleList")
_LSTM = "torch.nn.LSTM"


class ElementKinds:
    """Answers for elements; ``kind`` infers the kind of an expression, ``annotated`` what an annotation promises."""

    def __init__(
        self,
        semantics: Semantics,
        kind: Callable[[ast.expr | None], Kind | None],
        annotated: Callable[[ast.expr | None], Kind | None],
    ) -> None:
        self._semantics = semantics
        self._kind = kind
        self._annotated = annotated

    def element(self, value: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        expression = value
        for position, index in enumerate(path):
            if isinstance(expression, ast.Tuple | ast.List) and index is not None and _has(expression.elts, index):
                expression = expression.elts[index]
                continue
            return self._unpacked(self._kind(expression), expression, path[position:])
        return self._kind(expression)

    def _unpacked(self, kind: Kind | None, value: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        if kind is None:
            return None
        if kind.is_tensor:
            return Kind(What.TENSOR, kind.grade, "a slice of a tensor") if path[0] is not None else None
        if kind.what is What.TUPLE and isinstance(kind.node, ast.Tuple) and path[0] is not None:
            return self.element(kind.node, path) if kind.node is not value else None
        if kind.what is What.TUPLE and kind.origin == _LSTM:
            return _output_of_lstm(kind, path)
        if kind.what is What.TUPLE and kind.origin and len(path) == 1:
            return Kind(What.TENSOR, _LIKELY, f"an element of what {kind.origin} returns")
        return None

    def iterated(self, source: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        """What an element of an iterable is (``path`` leads into the element)."""
        if isinstance(source, ast.Call):
            name = builtin_called(self._semantics, source)
            if name == "enumerate" and source.args:
                if path[:1] == (1,):
                    return self.iterated(source.args[0], path[1:])
                return Kind(What.NUMBER, _PROVEN, "a count") if path == (0,) else None
            if name == "range":
                return Kind(What.NUMBER, _PROVEN, "a count")
            if name == "zip" and path and path[0] is not None and _has(source.args, path[0]):
                return self.iterated(source.args[path[0]], path[1:])
            called = self._semantics.names(source.func)
            if (
                called
                and all(item.rpartition(".")[2] in ("tqdm", "track", "trange") for item in called)
                and source.args
            ):
                return self.iterated(source.args[0], path)
            of_dict = self._values_of_dict(source, path)
            if of_dict is not None:
                return of_dict
        kind = self._kind(source)
        if kind is None:
            return self._elements_of(source, path)
        if kind.what is What.LOADER:
            return Kind(What.TENSOR, _LIKELY, "part of a batch of a DataLoader") if path else None
        if kind.is_tensor and not path:
            return Kind(What.TENSOR, kind.grade, "a row of a tensor")
        if kind.what is What.PARAMETERS:
            if kind.origin.startswith("named_"):
                if path == (1,):
                    return Kind(What.PARAMETER, kind.grade, "a parameter of a module")
                return Kind(What.TEXT, kind.grade, "a name") if path == (0,) else None
            return Kind(What.PARAMETER, kind.grade, "a parameter of a module") if not path else None
        if kind.is_module and kind.origin in _LISTS_OF_MODULES:
            return Kind(What.MODULE, kind.grade, "a member of a module container") if not path else None
        if kind.what is What.LIST and isinstance(kind.node, ast.Subscript):
            return self._annotated(_promised(kind.node)) if not path else None
        return self._elements_of(kind.node if isinstance(kind.node, ast.expr) else source, path)

    def _values_of_dict(self, call: ast.Call, path: tuple[int | None, ...]) -> Kind | None:
        """``values`` and ``items`` of what is annotated as ``dict[str, torch.Tensor]``."""
        match call:
            case ast.Call(func=ast.Attribute(value=mapping, attr="values"), args=[]) if not path:
                pass
            case ast.Call(func=ast.Attribute(value=mapping, attr="items"), args=[]) if path == (1,):
                pass
            case _:
                return None
        kind = self._kind(mapping)
        if kind is None or kind.what is not What.MAPPING or not isinstance(kind.node, ast.Subscript):
            return None
        return self._annotated(_promised(kind.node))

    def _elements_of(self, source: ast.expr | None, path: tuple[int | None, ...]) -> Kind | None:
        if isinstance(source, ast.List | ast.Tuple) and source.elts:
            return merged(self.element(element, path) for element in source.elts)
        if isinstance(source, ast.ListComp) and not path:
            return self._kind(source.elt)
        return None

    def subscripted(self, kind: Kind | None, expression: ast.Subscript) -> Kind | None:
        if kind is None:
            return None
        if kind.is_tensor:
            return Kind(What.TENSOR, kind.grade, "an index into a tensor")
        index = literal_of(expression.slice)
        if kind.what in (What.LIST, What.MAPPING) and isinstance(kind.node, ast.Subscript):
            return self._annotated(_promised(kind.node)) if not isinstance(expression.slice, ast.Slice) else None
        if kind.what in (What.TUPLE, What.LIST) and isinstance(index, int):
            if isinstance(kind.node, ast.Tuple | ast.List) and _has(kind.node.elts, index):
                return self._kind(kind.node.elts[index])
            return self._unpacked(kind, expression.value, (index,))
        if kind.what is What.LIST and isinstance(kind.node, ast.ListComp):
            return self._kind(kind.node.elt)
        if (
            kind.what is What.LIST
            and isinstance(kind.node, ast.Subscript)
            and not isinstance(expression.slice, ast.Slice)
        ):
            return self._annotated(kind.node.slice)
        if kind.what is What.MAPPING and isinstance(kind.node, ast.Dict):
            member = self._kind(_value_for(kind.node, index))
            return member if member is not None and member.is_module else None  # other values come and go
        if kind.is_module and kind.origin in (*_LISTS_OF_MODULES, "torch.nn.ModuleDict"):
            return self._member(kind, index)
        if kind.what is What.ARRAY:
            return kind
        return None

    def _member(self, container: Kind, index: object) -> Kind | None:
        call = container.node
        if not isinstance(call, ast.Call):
            return None
        elements: list[ast.expr] = list(call.args)
        if container.origin != "torch.nn.Sequential" and len(elements) == 1 and isinstance(elements[0], ast.List):
            elements = elements[0].elts
        if container.origin == "torch.nn.ModuleDict" and len(elements) == 1 and isinstance(elements[0], ast.Dict):
            return self._kind(_value_for(elements[0], index))
        if isinstance(index, int) and _has(elements, index) and not any(isinstance(e, ast.Starred) for e in elements):
            return self._kind(elements[index])
        return Kind(What.MODULE, container.grade, "a member of a module container")


def builtin_called(semantics: Semantics, call: ast.Call) -> str | None:
    """The name of a builtin that is called and that nothing in the file rebinds."""
    if isinstance(call.func, ast.Name) and not semantics.definitions(call.func):
        return call.func.id
    return None


def _has(elements: list[ast.expr], index: int) -> bool:
    return -len(elements) <= index < len(elements)


def _promised(annotation: ast.Subscript) -> ast.expr | None:
    """What ``list[T]`` or ``dict[str, T]`` says that the elements are."""
    match annotation.slice:
        case ast.Tuple(elts=[_, value]):
            return value
        case ast.Tuple():
            return None
        case value:
            return value


def _value_for(display: ast.Dict, key: object) -> ast.expr | None:
    """The value that a dict display has for a literal key."""
    if not isinstance(key, str | int):
        return None
    found = [value for name, value in zip(display.keys, display.values, strict=True) if literal_of(name) == key]
    return found[-1] if found else None


def _output_of_lstm(kind: Kind, path: tuple[int | None, ...]) -> Kind | None:
    """An element of ``(output, (hidden, cell))``."""
    match path:
        case (1, 0) | (1, 1):
            return Kind(What.TENSOR, kind.grade, f"a state of {_LSTM}")
        case (0,):
            return Kind(What.TENSOR, _LIKELY, f"an element of what {_LSTM} returns")  # or a packed sequence
        case (1,):
            return Kind(What.TUPLE, kind.grade, f"the states of {_LSTM}", f"{_LSTM}.states")
        case _:
            return None
