"""Values that can be read off the source."""

from __future__ import annotations

import ast
from typing import Final


class _Unknown:
    """What stands for a value that the source does not tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false: compare with `is UNKNOWN`")


UNKNOWN: Final = _Unknown()


def literal_of(expression: ast.expr | None) -> object:
    """The value of a constant, of a sign before one, or of a tuple, list or dict of such; else ``UNKNOWN``."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = literal_of(operand)
            return -number if isinstance(number, int | float | complex) else UNKNOWN
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            number = literal_of(operand)
            return number if isinstance(number, int | float | complex) else UNKNOWN
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            truth = literal_of(operand)
            return UNKNOWN if truth is UNKNOWN else not truth
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            values = [literal_of(element) for element in elements]
            if any(value is UNKNOWN for value in values):
                return UNKNOWN
            return tuple(values) if isinstance(expression, ast.Tuple) else values
        case _:
            return UNKNOWN
