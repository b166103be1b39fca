"""Where all parameters of a module are frozen: ``requires_grad_(False)``, or a loop that says it to each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.training.paths import path_when_returned
from torchlint.idioms.training.vocabulary import Training
from torchlint.semantics.classes import ClassView
from torchlint.semantics.flow import Action, Ref
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Functions of libraries that freeze the module that they are given.
_FREEZERS = frozenset(("lightly.models.utils.deactivate_requires_grad",))
#: Where a LightningModule makes its layers.
_SETUP = ("__init__", "configure_model", "setup")


@dataclass(frozen=True, eq=False, slots=True)
class Freeze:
    """At ``node`` the parameters of ``module`` are frozen; ``path``: where the root of the flow has it."""

    module: Ref
    node: ast.AST
    path: str


def freezes(found: Training) -> Iterator[Freeze]:
    """The modules whose parameters are all frozen in a flow."""
    for action in found.actions:
        receiver = action.receiver
        if action.verb in _FREEZERS and action.arguments and action.arguments[0].path:
            yield _freeze(found, action, action.arguments[0], action.node)
        if receiver is None or not receiver.path or not isinstance(action.node, ast.Call):
            continue
        if action.verb == "requires_grad_" and receiver.kind is not None and receiver.kind.is_module:
            if is_told_false(found.semantics, action.node):
                yield _freeze(found, action, receiver, action.node)
        elif action.verb == "parameters" and not action.arguments and (loop := _frozen_by_loop(action.node)):
            yield _freeze(found, action, receiver, loop)


def _freeze(found: Training, action: Action, module: Ref, node: ast.AST) -> Freeze:
    return Freeze(module, node, path_when_returned(found, action, module.path))


def frozen_attributes(view: ClassView) -> Iterator[tuple[ast.Attribute, ast.AST]]:
    """The attributes of a class that its setup freezes, each with what freezes it."""
    for method in sorted(view.called_from(*_SETUP), key=lambda method: method.name):
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            module, node = _frozen_by(call, view.semantics)
            if isinstance(module, ast.Attribute) and node is not None and view.semantics.class_of_self(module.value):
                yield module, node


def _frozen_by(call: ast.Call, semantics: Semantics) -> tuple[ast.expr | None, ast.AST | None]:
    """The module that a call freezes, or the loop whose parameters it gives."""
    match call:
        case ast.Call(func=ast.Attribute(value=module, attr="requires_grad_")):
            return (module, call) if is_told_false(semantics, call) else (None, None)
        case ast.Call(func=ast.Attribute(value=module, attr="parameters"), args=[]):
            return module, _frozen_by_loop(call)
        case ast.Call(args=[module]):
            function = semantics.local_function(call.func)
            frozen = semantics.is_named(call.func, *_FREEZERS) or (function is not None and _freezes(function))
            return (module, call) if frozen else (None, None)
        case _:
            return None, None


def _freezes(function: FunctionNode) -> bool:
    """Whether a function freezes the module that it is given first."""
    if not function.args.args:
        return False
    given = function.args.args[0].arg
    for call in nodes_within(function, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters"), args=[]) if name == given:
                if _frozen_by_loop(call) is not None:
                    return True
    return False


def is_told_false(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call of ``requires_grad_`` freezes."""
    given = call.args[0] if call.args else next((item.value for item in call.keywords), None)
    return given is not None and semantics.literal(given) is False


def _frozen_by_loop(parameters: ast.Call) -> ast.stmt | None:
    """What freezes each parameter of ``for p in net.parameters(): p.requires_grad = False``."""
    loop = parent_of(parameters)
    if not isinstance(loop, ast.For) or loop.iter is not parameters or len(loop.body) != 1:
        return None
    match loop.target, loop.body[0]:
        case (
            ast.Name(id=one),
            ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=other), attr="requires_grad")], value=ast.Constant(value=False)
            ) as statement,
        ) if one == other:
            return statement
        case ast.Name(id=one), ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=other), attr="requires_grad_"), args=[ast.Constant(value=False)]
            )
        ) as statement if one == other:
            return statement
        case _:
            return None
