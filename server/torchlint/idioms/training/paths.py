"""Objects of a called function as the function at the root of a flow knows them, for what is no action of the flow:
targets of assignments, arguments."""

from __future__ import annotations

import ast

from torchlint.idioms.training.construction import modules_given
from torchlint.idioms.training.vocabulary import Optimizer, Training
from torchlint.semantics.flow import Action, Followed
from torchlint.semantics.nodes import argument, is_static
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.tracing import Tracer
from torchlint.syntax import parent_of


def path_at_root(found: Training, action: Action, expression: ast.expr) -> str:
    """The path (see ``flow.Ref``) of an expression that stands in the function of an action, in the function at the
    root; empty where it is something that only the called function knows."""
    tracer = Tracer(found.semantics)
    path = tracer.path(expression)
    for call in reversed(found.places[action].calls):
        if not path:
            return ""
        path = _as_caller_sees(found.semantics, tracer, path, call)
    return path


def modules_at_root(found: Training, optimizer: Optimizer) -> frozenset[str] | None:
    """The modules of an optimizer, as paths of the function at the root: where it is kept in another object too
    (``trainer.optimizer``), if the calls that build it are in the flow. None where not all are known."""
    if optimizer.modules is not None or not optimizer.builds:
        return optimizer.modules
    tracer = Tracer(found.semantics)
    modules: set[str] = set()
    for build in optimizer.builds:
        action = next((action for action in found.actions if action.node is build), None)
        given = modules_given(found.semantics, build) if action is not None else None
        if action is None or not given:
            return None
        for path in given:
            for call in reversed(found.places[action].calls):
                path = _as_caller_sees(found.semantics, tracer, path, call) if path else ""
            if not path:
                return None
            modules.add(path)
    return frozenset(modules)


def _as_caller_sees(semantics: Semantics, tracer: Tracer, path: str, call: Followed) -> str:
    if path.startswith("::"):
        return path
    end = next((position for position, mark in enumerate(path) if mark in ".["), len(path))
    head, rest = path[:end], path[end:]
    known: ast.expr | None = None
    if head == "self" and isinstance(call.node.func, ast.Attribute):
        known = call.node.func.value
    elif head.startswith("%"):
        known = _given(call, head[1:])
    inner = tracer.path(known) if known is not None else ""
    return f"{inner}{rest}" if inner else ""


def _given(call: Followed, parameter: str) -> ast.expr | None:
    """What a followed call passes for a parameter."""
    names = [item.arg for item in (*call.function.args.posonlyargs, *call.function.args.args)]
    if isinstance(parent_of(call.function), ast.ClassDef) and not is_static(call.function):
        names = names[1:]
    return argument(call.node, names.index(parameter) if parameter in names else None, parameter)


def path_when_returned(found: Training, action: Action, path: str) -> str:
    """The path at the root of an object that a followed function makes and returns (``net = build()``, where ``build``
    calls it ``$model``); other paths as they are."""
    if not path.startswith("$") or "@" not in path or not found.places[action].calls:
        return path
    call = found.places[action].calls[0]
    name, _, rest = path[1:].partition("@")
    returned = found.semantics.returned_values(call.function)
    target = assigned_to(call.node)
    if target is None or not returned:
        return path
    if not all(isinstance(value, ast.Name) and value.id == name for value in returned):
        return path
    outer = Tracer(found.semantics).path(target)
    return f"{outer}{rest.lstrip('0123456789')}" if outer else path


def assigned_to(node: ast.AST) -> ast.expr | None:
    """The target of the assignment whose value is this expression, as it is or converted in place
    (``net = Net().to(device)``)."""
    holder = parent_of(node)
    while isinstance(holder, ast.Attribute | ast.Call) and node in (
        getattr(holder, "value", None),
        getattr(holder, "func", None),
    ):
        node, holder = holder, parent_of(holder)
    match holder:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return target
        case _:
            return None
