"""What the constructor of a class of the file does, in the words of the function that makes an object of it.

Flows do not follow constructors; ``Trainer(model, optimizer)`` may move the model all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.idioms.training.paths import assigned_to, path_at_root
from torchlint.idioms.training.vocabulary import Training
from torchlint.semantics.flow import Action, actions
from torchlint.semantics.nodes import argument, element_of
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.unit import flow_of

Seen = Callable[[str], list[str]]


def constructor_actions(found: Training, making: Action) -> Iterator[tuple[Action, Seen]]:
    """The actions of the constructor that an action runs, each with a function that gives the paths that one of the
    constructor's objects has where the object is made: ``self.net`` is ``$trainer.net``, and what was given for it."""
    call = making.node
    node = found.semantics.local_class(call.func) if isinstance(call, ast.Call) else None
    constructor = found.semantics.find_method(node, "__init__") if node is not None else None
    if not isinstance(call, ast.Call) or node is None or constructor is None:
        return
    target = assigned_to(call)
    made = path_at_root(found, making, target) if target is not None else ""
    given = _given(found, making, call, constructor)
    kept = _kept(found, node, constructor, given)

    def seen(path: str) -> list[str]:
        head, dot, rest = path.partition(".")
        if head.startswith("%"):
            return [f"{outer}{dot}{rest}" for outer in given.get(head[1:], [])]
        if head != "self" or not rest:
            return []
        attribute, more, inner = rest.partition(".")
        paths = [f"{made}.{rest}"] if made else []
        return paths + [f"{outer}{more}{inner}" for outer in kept.get(attribute, [])]

    for action in actions(flow_of(found.semantics, constructor)):
        yield action, seen


def _given(found: Training, making: Action, call: ast.Call, constructor: FunctionNode) -> dict[str, list[str]]:
    """The paths of the arguments of a call, by parameter."""
    paths: dict[str, list[str]] = {}
    for position, parameter in enumerate([*constructor.args.posonlyargs, *constructor.args.args][1:]):
        value = argument(call, position, parameter.arg)
        path = path_at_root(found, making, value) if value is not None else ""
        if path:
            paths[parameter.arg] = [path]
    return paths


def _kept(
    found: Training, node: ast.ClassDef, constructor: FunctionNode, given: dict[str, list[str]]
) -> dict[str, list[str]]:
    """The paths of what a constructor keeps, by attribute: ``self.net = net``, ``self.net, self.lr = net, lr``."""
    paths: dict[str, list[str]] = {}
    for attribute in found.semantics.module.attributes(node):
        for write in found.semantics.module.attribute_writes(node, attribute):
            value = element_of(write.value, write.path) if write.value is not None and write.path else write.value
            if isinstance(value, ast.Name) and value.id in given:
                paths[attribute] = given[value.id]
    return paths
