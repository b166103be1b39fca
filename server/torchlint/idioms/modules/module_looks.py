"""What only looks at a module: functions that print, save or evaluate it, and loops that count its parameters."""

from __future__ import annotations

import ast

from torchlint.regex import regex
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

#: Builtins that change nothing.
LOOKS = frozenset("print isinstance len type id repr str callable hasattr".split())
_LOOK_FUNCTIONS = regex(
    r"^(torch\.save|copy\.(deep)?copy|torchsummary\.|torchinfo\.|logging\.|torch\.onnx\.export$|summary$)"
)
#: What functions that only tell about a module, evaluate it, or fill it before training, are called.
_TELLS = regex(
    r"^(print|show|count|summar|log_)|^(init|reset)\w*_weights?$|^weights?_init$|^init_net"
    r"|^(val|validate|validation|evaluate|eval|test|predict|infer|visuali[sz]e|plot|generate|save)(_[a-z]+)*$"
)
#: Methods of a logger.
_LOGS = frozenset(("info", "debug", "warning"))
#: Methods of a parameter after which it may not learn, or something else gets its gradients.
_KEEPS = regex(r"requires_grad|detach|hook|share_memory|retain|^(append|add|extend|update|set)")
_COUNTED = frozenset(("numel", "nelement", "size", "shape", "requires_grad"))


def only_looks(semantics: Semantics, call: ast.Call) -> bool:
    """Whether a call leaves the parameters of a module that it is given as they are, and keeps none."""
    builtin = builtin_called(semantics, call)
    name = semantics.name(call.func)
    if builtin in LOOKS or _LOOK_FUNCTIONS.match(name):
        return True
    if not name and isinstance(call.func, ast.Attribute) and call.func.attr in _LOGS:
        return True
    return bool(name) and not name.startswith(".") and bool(_TELLS.search(name.rpartition(".")[2]))


def only_counts(semantics: Semantics, parameters: ast.Call) -> bool:
    """Whether parameters are only counted, clipped or initialised: ``sum(p.numel() for p in net.parameters())``."""
    holder = parent_of(parameters)
    match holder:
        case ast.Call(func=function):
            return semantics.name(function).startswith("torch.nn.utils.clip_grad")
        case ast.comprehension():
            inner = parent_of(holder)
            element = getattr(inner, "elt", None)
            reads = nodes_within(element, ast.Attribute) if isinstance(element, ast.expr) else iter(())
            return {getattr(item, "attr", "") for item in reads} & _COUNTED != set() if element is not None else False
        case ast.For(target=target, body=body):
            given = {getattr(name, "id", "") for name in nodes_within(target, ast.Name)}
            calls = [call for statement in body for call in nodes_within(statement, ast.Call)]
            writes = [node for statement in body for node in nodes_within(statement, ast.Assign, ast.AugAssign)]
            return bool(calls) and not writes and all(_only_fills(semantics, call, given) for call in calls)
        case _:
            return False


def _only_fills(semantics: Semantics, call: ast.AST, parameters: set[str]) -> bool:
    """Whether a call, in a loop over parameters, initialises or counts one: ``p.data.normal_()``, ``p.numel()``."""
    if not isinstance(call, ast.Call):
        return False
    if semantics.name(call.func).startswith("torch.nn.init.") or builtin_called(semantics, call) in LOOKS:
        return True
    given = call.func
    if not isinstance(given, ast.Attribute) or _KEEPS.search(given.attr):
        return not any(getattr(name, "id", "") in parameters for name in nodes_within(call, ast.Name))
    while isinstance(given, ast.Attribute):
        given = given.value
    return isinstance(given, ast.Name) and given.id in parameters
