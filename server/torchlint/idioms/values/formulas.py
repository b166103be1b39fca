"""Formulas read off expressions: sums as signed terms, products as factors, powers, logarithms and exponentials.

A formula may be written with operators, functions or methods (``-mu.pow(2)``, ``torch.exp(s)``, ``x.mul(-1).add_(1)``):
what these functions say is the same for each spelling.
"""

from __future__ import annotations

import ast

from torchlint.semantics.literals import literal_of
from torchlint.semantics.semantics import Semantics

Term = tuple[int, ast.expr]

_TENSOR_MODULES = ("torch", "torch.nn.functional", "torch.special", "math", "numpy")


def same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are written alike."""
    return one is other or ast.dump(one) == ast.dump(other)


def terms(expression: ast.expr, sign: int = 1) -> list[Term]:
    """The terms of a sum with their signs: ``1 + a - b`` is +1, +a, -b."""
    match expression:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*terms(left, sign), *terms(right, sign)]
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return [*terms(left, sign), *terms(right, -sign)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return terms(operand, -sign)
        case ast.Call(func=ast.Attribute(value=left, attr="add" | "add_"), args=[right], keywords=[]):
            return [*terms(left, sign), *terms(right, sign)]
        case ast.Call(func=ast.Attribute(value=left, attr="sub" | "sub_"), args=[right], keywords=[]):
            return [*terms(left, sign), *terms(right, -sign)]
        case ast.Call(func=ast.Attribute(value=left, attr="mul" | "mul_"), args=[right]) if literal_of(right) == -1:
            return terms(left, -sign)
        case ast.Call(func=ast.Attribute(value=left, attr="neg" | "neg_"), args=[]):
            return terms(left, -sign)
        case _:
            return [(sign, expression)]


def factors(expression: ast.expr) -> list[ast.expr]:
    """The factors of a product; what is no product is its own only factor."""
    match expression:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return [*factors(left), *factors(right)]
        case ast.Call(func=ast.Attribute(value=left, attr="mul" | "mul_"), args=[right], keywords=[]):
            return [*factors(left), *factors(right)]
        case _:
            return [expression]


def applied(semantics: Semantics, expression: ast.expr, *functions: str) -> ast.expr | None:
    """The operand where one of these functions (``exp``, ``log``) is applied, as function or method; else None."""
    match expression:
        case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=arguments):
            plain = name.removesuffix("_")
            if plain not in functions:
                return None
            head = semantics.name(receiver)
            if head in _TENSOR_MODULES:
                return arguments[0] if arguments else None
            takes_axis = plain.endswith("softmax") and len(arguments) == 1 and isinstance(literal_of(arguments[0]), int)
            return receiver if not head and (not arguments or takes_axis) else None
        case ast.Call(func=ast.Name() as function, args=[operand, *_]):
            head, _, tail = semantics.name(function).rpartition(".")
            return operand if tail in functions and head in _TENSOR_MODULES else None
        case _:
            return None


def squared(semantics: Semantics, expression: ast.expr) -> ast.expr | None:
    """The base of a square: ``x`` of ``x ** 2``, ``x.pow(2)``, ``torch.square(x)``, ``x * x``; else None."""
    match expression:
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent) if literal_of(exponent) == 2:
            return base
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if same(left, right):
            return left
        case ast.Call(func=ast.Attribute(value=base, attr="pow" | "pow_"), args=[exponent]):
            return base if literal_of(exponent) == 2 else None
        case ast.Call(args=[base, exponent]) if semantics.name(expression.func) == "torch.pow":
            return base if literal_of(exponent) == 2 else None
        case _:
            return applied(semantics, expression, "square")


def doubled(expression: ast.expr) -> ast.expr | None:
    """``x`` of ``2 * x``; else None."""
    match factors(expression):
        case [one, other] if literal_of(one) == 2:
            return other
        case [one, other] if literal_of(other) == 2:
            return one
        case _:
            return None


def without_epsilon(expression: ast.expr) -> ast.expr:
    """``x`` of ``x + 1e-8`` (any number, or a name with eps in it), else the expression itself."""
    match expression:
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_small(right):
            return left
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_small(left):
            return right
        case _:
            return expression


def _is_small(expression: ast.expr) -> bool:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "eps" in name.lower() or name.lower() == "tiny"
        case _:
            value = literal_of(expression)
            return isinstance(value, float) and 0 < value < 1e-2


def complement(expression: ast.expr) -> ast.expr | None:
    """``x`` of ``1 - x``; else None."""
    match expression:
        case ast.BinOp(left=one, op=ast.Sub(), right=right) if literal_of(one) == 1:
            return right
        case _:
            return None


def is_log_of_two_pi(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether an expression is ``log(2 * pi)`` (with a factor), or the square root's, or a number that is."""
    for factor in factors(expression):
        value = literal_of(factor)
        if isinstance(value, float) and any(abs(abs(value) - known) < 1e-3 for known in (1.8378770664, 0.9189385332)):
            return True
        operand = applied(semantics, factor, "log")
        if operand is not None and any(_is_pi(node) for node in ast.walk(operand)):
            return True
    match expression:
        case ast.BinOp(left=left, op=ast.Div()):
            return is_log_of_two_pi(semantics, left)
        case _:
            return False


def _is_pi(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="pi") | ast.Name(id="pi"):
            return True
        case ast.Constant(value=float(value)):
            return abs(value - 3.14159) < 1e-4 or abs(value - 6.28318) < 1e-4
        case _:
            return False
