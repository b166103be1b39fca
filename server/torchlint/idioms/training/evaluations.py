"""Whether anything in a file may be an evaluation: asked before flows are made, which cost far more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.module import ModuleFacts
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Functions with such a name give a module in evaluation mode.
PRETRAINED = "pretrained"
_HOLDERS = (ast.With, ast.AsyncWith, ast.FunctionDef, ast.AsyncFunctionDef)


def may_evaluate(semantics: Semantics) -> bool:
    """Whether the file trains, or may run a module where gradients are off: asked before flows are made."""
    module = semantics.module
    return module.mentions_call("backward") or module.memo.summary(("may evaluate",), _runs_without_grad, False)


def _runs_without_grad(semantics: Semantics) -> bool:
    seen: set[FunctionNode] = set()
    return any(_may_be_forward(call, semantics, seen) for call in _calls_without_grad(semantics.module))


def may_switch_to_evaluation(semantics: Semantics) -> bool:
    """Whether anything in the file may put a module into evaluation mode: asked before flows are made."""
    module = semantics.module
    if module.mentions_call("eval") or module.mentions_call_like(_names_pretrained):
        return True
    return module.memo.summary(("may switch to evaluation",), _switches_off, False)


def _switches_off(semantics: Semantics) -> bool:
    given = (item for call in semantics.module.calls_of("train") for item in (*call.args, *_values(call)))
    return any(semantics.literal(item) is False for item in given)


def _names_pretrained(name: str) -> bool:
    return PRETRAINED in name


def _values(call: ast.Call) -> Iterator[ast.expr]:
    return (keyword.value for keyword in call.keywords)


def _calls_without_grad(module: ModuleFacts) -> Iterator[ast.Call]:
    """The calls under what may switch gradients off: in a ``with`` block, or in a function that is decorated."""
    for name in ("no_grad", "inference_mode", "set_grad_enabled"):
        for switch in module.calls_of(name):
            holder: ast.AST | None = switch
            while holder is not None and not isinstance(holder, _HOLDERS):
                holder = parent_of(holder)
            inside = nodes_within(holder, ast.Call) if holder is not None else iter(())
            yield from cast("Iterator[ast.Call]", inside)


def _may_be_forward(call: ast.Call, semantics: Semantics, seen: set[FunctionNode]) -> bool:
    """Whether a call may run a module, itself or in a function of the file (``seen``: those that do not)."""
    function = semantics.local_function(call.func)
    if isinstance(call.func, ast.Attribute):
        owner, name = semantics.class_of_self(call.func.value), call.func.attr
        if owner is not None:
            function = semantics.find_method(owner, name)
            if function is None:
                return bool(semantics.module.attribute_writes(owner, name)) or semantics.has_unknown_base(owner)
        else:
            if name in _switched(semantics) or not semantics.module.is_own_attribute(name):
                return name in _switched(semantics)
            kind = semantics.kind(call.func.value)
            return kind is not None and kind.class_node is not None
    if function is not None:
        if function in seen:
            return False
        seen.add(function)
        inner = cast("Iterator[ast.Call]", nodes_within(function, ast.Call))
        return any(_may_be_forward(one, semantics, seen) for one in inner)
    return not semantics.names(call.func) and builtin_called(semantics, call) is None


def _switched(semantics: Semantics) -> frozenset[str]:
    """The names of attributes whose ``eval`` or ``train`` the file calls."""

    def compute() -> frozenset[str]:
        calls = (call for name in ("eval", "train") for call in semantics.module.calls_of(name))
        receivers = (call.func.value for call in calls if isinstance(call.func, ast.Attribute))
        return frozenset(receiver.attr for receiver in receivers if isinstance(receiver, ast.Attribute))

    return semantics.module.memo.cached(("switched",), compute, frozenset())
