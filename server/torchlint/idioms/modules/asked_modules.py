"""What is known to be a module, wherever its class comes from, because the file treats it as one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics

#: What only modules have: who is asked for it is one.
OF_MODULES = ("parameters", "load_state_dict", "state_dict")


class AskedModules:
    """The calls of what the file asks for its parameters, or for anything else that only modules have."""

    def __init__(self, semantics: Semantics, methods: Iterable[str] = OF_MODULES) -> None:
        self._names = {
            dotted(call.func.value)
            for method in methods
            for call in semantics.module.calls_of(method)
            if isinstance(call.func, ast.Attribute)
        } - {None}

    def __contains__(self, call: object) -> bool:
        return isinstance(call, ast.Call) and network_of(call) in self._names


def network_of(call: ast.Call) -> str | None:
    """The dotted name of the module that is called, by itself or by ``forward``."""
    name = dotted(call.func)
    return name.removesuffix(".forward") if name is not None else None
