"""What a loop adds to something or stores in it: by its own statements, or by a method of the file that does so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.training.grad_mode import GradMode, grad_mode_at
from torchlint.idioms.training.gradient_graph import carried_names, leads_to_backward
from torchlint.semantics.nodes import (
    argument,
    element_of,
    enclosing_class,
    enclosing_function,
    nodes_within,
    position_of_parameter,
)
from torchlint.semantics.scopes import FunctionNode, dotted, last_name
from torchlint.semantics.semantics import Semantics


@dataclass(frozen=True)
class Kept:
    """A statement that adds ``value`` to ``target``, or stores it there as it is. ``inner``: the statement of a method
    that does it, where the other is the call."""

    statement: ast.stmt
    target: ast.Name | ast.Attribute
    name: str
    value: ast.expr
    stored: bool
    inner: ast.stmt | None = None


def kept_in(semantics: Semantics, loop: ast.AST) -> Iterator[Kept]:
    """What a loop adds to something: ``t += v``, ``t = t + v``, ``t.append(v)``, ``t[i] = v``, ``meter.update(v)``."""
    for statement in nodes_within(loop, ast.AugAssign, ast.Assign, ast.Expr):
        assert isinstance(statement, ast.stmt)
        if enclosing_function(statement) is enclosing_function(loop):
            yield from _by_statement(statement)
            yield from _by_method(semantics, statement, loop)


def kept_on_self(semantics: Semantics, function: FunctionNode) -> Iterator[Kept]:
    """What a method adds to an attribute of its object, or stores in it, that it does not set anew itself."""
    holder = enclosing_class(function)
    if holder is None:
        return
    for kept in _lasting(semantics, function, holder):
        attribute = last_name(kept.target)
        writes = semantics.module.attribute_writes(holder, attribute)
        if not any(
            enclosing_function(write.statement) is function
            and not write.augmented
            and not _adds_to_itself(write.value, attribute)
            for write in writes
        ):
            yield kept


def _lasting(semantics: Semantics, method: FunctionNode, owner: ast.ClassDef) -> Iterator[Kept]:
    """What a method keeps, with its graph, in what lasts as long as the object."""
    for statement in nodes_within(method, ast.AugAssign, ast.Assign, ast.Expr):
        assert isinstance(statement, ast.stmt)
        for kept in _by_statement(statement):
            if _lasts(semantics, kept.target, owner) and not _has_no_graph(semantics, kept):
                yield kept


def _by_statement(statement: ast.stmt) -> Iterator[Kept]:
    match statement:
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
            yield from _kept(statement, target, value)
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
            for total in _alternatives(value):
                if isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add):
                    for side, other in ((total.left, total.right), (total.right, total.left)):
                        if dotted(target) in _factors(side):
                            yield from _kept(statement, target, other)
        case ast.Assign(targets=[ast.Subscript(slice=index) as target], value=value):
            if not isinstance(index, ast.Constant):
                yield from _kept(statement, target, value, stored=True)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=target), args=[value])):
            yield from _kept(statement, target, value, stored=True)
        case _:
            pass


def _alternatives(value: ast.expr) -> tuple[ast.expr, ...]:
    """``loss if mean is None else 0.9 * mean + 0.1 * loss``: both."""
    return (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def _factors(term: ast.expr) -> set[str | None]:
    """The dotted names of a term, ``mean``, or of a product, ``0.9 * mean``."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        return {dotted(side) for side in (term.left, term.right)} - {None}
    return {dotted(term)} - {None}


def _kept(statement: ast.stmt, target: ast.expr, value: ast.expr, stored: bool = False) -> Iterator[Kept]:
    while isinstance(target, ast.Subscript):
        target = target.value
    name = dotted(target)
    if name is not None and isinstance(target, ast.Name | ast.Attribute):
        yield Kept(statement, target, name, value, stored)


def _by_method(semantics: Semantics, statement: ast.stmt, loop: ast.AST) -> Iterator[Kept]:
    """``meter.update(loss)``, where a class of the file has ``self.sum += value`` in ``update``."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return
    call = statement.value
    if not isinstance(call.func, ast.Attribute) or not (call.args or call.keywords):
        return
    meter, name = call.func.value, dotted(call.func.value)
    if not isinstance(meter, ast.Name | ast.Attribute):
        return
    kind = semantics.kind(meter)
    owner = kind.class_node if kind is not None else None
    method = semantics.find_method(owner, call.func.attr) if owner is not None else None
    if name is None or owner is None or method is None:
        return
    for kept in _lasting(semantics, method, owner):
        if _is_set_anew(semantics, kept.target, (owner, method), name, loop):
            continue
        for parameter in _parameters_in(semantics, kept.value, method):
            given = argument(call, position_of_parameter(parameter, method), parameter.arg)
            if given is not None:
                yield Kept(statement, meter, name, given, kept.stored, kept.statement)


def _lasts(semantics: Semantics, target: ast.Name | ast.Attribute, owner: ast.ClassDef) -> bool:
    """Whether a method writes an attribute of its object that is no bounded queue and is not backpropagated later."""
    if not isinstance(target, ast.Attribute) or semantics.class_of_self(target.value) is None:
        return False
    writes = semantics.module.attribute_writes(owner, target.attr)
    values = [element_of(write.value, write.path) if write.value is not None else None for write in writes]
    limited = any(semantics.is_call_to(value, "collections.deque") for value in values)
    return not limited and not leads_to_backward(semantics, ast.unparse(target), None)


def _has_no_graph(semantics: Semantics, kept: Kept) -> bool:
    """Whether a sum is made where gradients are off (what is stored keeps its own graph)."""
    return not kept.stored and grad_mode_at(semantics, kept.statement).mode in (GradMode.OFF, GradMode.UNKNOWN)


def _is_set_anew(
    semantics: Semantics,
    target: ast.Name | ast.Attribute,
    kept_by: tuple[ast.ClassDef, FunctionNode],
    meter: str,
    loop: ast.AST,
) -> bool:
    """Whether the method, or another that the loop calls on the same object, sets the attribute to something else."""
    owner, method = kept_by
    attribute = last_name(target)
    called = {
        call.func.attr
        for call in nodes_within(loop, ast.Call)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and dotted(call.func.value) == meter
    }
    methods = [semantics.find_method(owner, name) for name in sorted(called)]
    return any(
        not write.augmented and enclosing_function(write.statement) in methods
        for write in semantics.module.attribute_writes(owner, attribute)
        if enclosing_function(write.statement) is not method or not _adds_to_itself(write.value, attribute)
    )


def _adds_to_itself(value: ast.expr | None, attribute: str) -> bool:
    """``self.sum = self.sum + value``."""
    return value is not None and any(
        isinstance(node, ast.Attribute) and node.attr == attribute for node in nodes_within(value, ast.Attribute)
    )


def _parameters_in(semantics: Semantics, value: ast.expr, method: FunctionNode) -> Iterator[ast.arg]:
    """The parameters of a method whose graphs are part of a value."""
    for carried in carried_names(value):
        nodes = [definition.node for definition in semantics.definitions(carried)]
        if len(nodes) == 1 and isinstance(nodes[0], ast.arg) and enclosing_function(carried) is method:
            yield nodes[0]
