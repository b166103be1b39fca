"""Tests that are asked twice: ``if c: a`` and, right after it, ``if c: b`` run both bodies or none.

Asked of a pruned flow, in which what stands between does not matter. Where something does, the branches stay two: it
would have to be looked at once for each answer.
"""

from __future__ import annotations

import ast

from torchlint.semantics.flow import Branch, Flow, Steps, sequence, with_children
from torchlint.semantics.nodes import enclosing_function, nodes_within, position_of
from torchlint.semantics.semantics import Semantics

#: What a test may consist of, so that asking it again gives the same answer.
_PLAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp),
    *(ast.boolop, ast.cmpop, ast.operator, ast.unaryop, ast.expr_context),
)


def with_repeated_tests_joined(semantics: Semantics, flow: Flow) -> Flow:
    """A flow that means the same, in which a branch under the test of the branch before it is part of that."""
    flow = with_children(flow, lambda inner: with_repeated_tests_joined(semantics, inner))
    if not isinstance(flow, Steps) or sum(isinstance(step, Branch) for step in flow.steps) < 2:
        return flow
    steps: list[Flow] = []
    for step in flow.steps:
        joined = _joined(semantics, steps[-1], step) if steps else None
        if joined is not None:
            steps[-1] = joined
        else:
            steps.append(step)
    return sequence(steps)


def _joined(semantics: Semantics, one: Flow, other: Flow) -> Branch | None:
    """Two branches that follow each other as one, if the test of the second is that of the first, or its opposite."""
    if not isinstance(one, Branch) or not isinstance(other, Branch) or not len(one.arms) == len(other.arms) == 2:
        return None
    test, opposite = _positive(one.test)
    again, opposite_too = _positive(other.test)
    if test is None or again is None or not _are_one(semantics, test, again):
        return None
    arms = other.arms if opposite == opposite_too else tuple(reversed(other.arms))
    return Branch(one.test, tuple(sequence(pair) for pair in zip(one.arms, arms, strict=True)), one.node)


def _positive(test: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """A test without a ``not`` around it, and whether there was one."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand, True
    return test, False


def _are_one(semantics: Semantics, test: ast.expr, again: ast.expr) -> bool:
    """Whether two tests of one function read the same and see the same values."""
    function = enclosing_function(test)
    if ast.unparse(test) != ast.unparse(again) or function is not enclosing_function(again):
        return False
    for one, other in zip(ast.walk(test), ast.walk(again), strict=True):
        if not isinstance(one, _PLAIN):
            return False
        if isinstance(one, ast.Name) and isinstance(other, ast.Name):
            if _is_bound_between(semantics, one, other):
                return False
        elif isinstance(one, ast.Attribute) and (function is None or _is_written(function, one.attr)):
            return False
    return True


def _is_bound_between(semantics: Semantics, one: ast.Name, other: ast.Name) -> bool:
    """Whether the second of two uses of a name may see a value that the first did not."""
    if semantics.definitions(one) != semantics.definitions(other):
        return True
    function = enclosing_function(one)
    return any(
        enclosing_function(definition.node) is function
        and position_of(one) < position_of(definition.node) < position_of(other)
        for definition in semantics.definitions(other)
    )


def _is_written(function: ast.AST, attribute: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and not isinstance(node.ctx, ast.Load)
        for node in nodes_within(function, ast.Attribute)
    )
