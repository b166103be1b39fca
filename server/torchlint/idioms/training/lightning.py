"""Which classes are LightningModules, whose loop the Trainer of Lightning owns."""

from __future__ import annotations

import ast

from torchlint.semantics.semantics import Semantics

_LIGHTNING = ("pytorch_lightning.", "lightning.")


def is_lightning_module(semantics: Semantics, node: ast.ClassDef) -> bool:
    """Whether a class is a LightningModule, and all its bases are known."""
    queue, seen, lightning = [node], set[ast.ClassDef](), False
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        for base in current.bases:
            local = semantics.local_class(base)
            if local is not None:
                queue.append(local)
                continue
            names = semantics.names(base)
            if names and all(name.startswith(_LIGHTNING) and name.endswith(".LightningModule") for name in names):
                lightning = True
            elif not names or not all(name.startswith(("torch.", "abc.", "typing.")) for name in names):
                return False
    return lightning
