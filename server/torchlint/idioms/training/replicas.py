"""Which modules are wrapped in ``DistributedDataParallel``, and where their gradients are not reduced."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

DDP = "torch.nn.parallel.DistributedDataParallel"
_DATA_PARALLEL = "torch.nn.DataParallel"


def is_ddp(semantics: Semantics, module: ast.expr) -> bool:
    """Whether a module is certainly a ``DistributedDataParallel``: by its kind, or by the calls that all its values
    are (the kind of a wrapped layer of torch is that of the layer)."""
    return _is_wrapped(semantics, module, (DDP,))


def is_replicated(semantics: Semantics, module: ast.expr) -> bool:
    """The same for ``DistributedDataParallel`` and ``DataParallel``."""
    return _is_wrapped(semantics, module, (DDP, _DATA_PARALLEL))


def _is_wrapped(semantics: Semantics, module: ast.expr, wrappers: tuple[str, ...]) -> bool:
    kind = semantics.kind(module)
    if kind is not None and kind.origin in wrappers:
        return True
    if isinstance(module, ast.Attribute):
        holder = semantics.class_of_self(module.value)
        writes = semantics.module.attribute_writes(holder, module.attr) if holder is not None else ()
        return bool(writes) and all(
            not item.path and item.value is not None and semantics.is_call_to(item.value, *wrappers) for item in writes
        )
    return semantics.is_call_to(semantics.value_of(module), *wrappers)


def is_in_no_sync(call: ast.Call) -> bool:
    """Whether a call stands in ``with model.no_sync():``."""
    holder = parent_of(call)
    while holder is not None:
        if isinstance(holder, ast.With) and any("no_sync" in ast.unparse(item.context_expr) for item in holder.items):
            return True
        holder = parent_of(holder)
    return False
