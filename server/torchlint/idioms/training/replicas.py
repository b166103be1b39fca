"""Which modules are wrapped in ``DistributedDataParallel``."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics

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
