"""Which modules are wrapped in ``DistributedDataParallel``, and where their gradients are not reduced."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

DDP = "torch.nn.parallel.DistributedDataParallel"


def is_ddp(semantics: Semantics, module: ast.expr) -> bool:
    """Whether a module is certainly a ``DistributedDataParallel``: by its kind, or by the calls that all its values
    are (the kind of a wrapped layer of torch is that of the layer)."""
    kind = semantics.kind(module)
    if kind is not None and kind.origin == DDP:
        return True
    if isinstance(module, ast.Attribute):
        holder = semantics.class_of_self(module.value)
        writes = semantics.module.attribute_writes(holder, module.attr) if holder is not None else ()
        return bool(writes) and all(not item.path and _wraps(semantics, item.value) for item in writes)
    return _wraps(semantics, semantics.value_of(module))


def _wraps(semantics: Semantics, value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and semantics.is_named(value.func, DDP)


def is_in_no_sync(call: ast.Call) -> bool:
    """Whether a call stands in ``with model.no_sync():``."""
    holder = parent_of(call)
    while holder is not None:
        if isinstance(holder, ast.With) and any("no_sync" in ast.unparse(item.context_expr) for item in holder.items):
            return True
        holder = parent_of(holder)
    return False
