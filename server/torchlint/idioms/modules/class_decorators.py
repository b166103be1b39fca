"""Whether a decorator of a class may change what its body says: a dataclass does, entering it into a registry not."""

from __future__ import annotations

import ast

from torchlint.semantics.scopes import last_name


def may_be_remade(node: ast.ClassDef) -> bool:
    """Whether a decorator may give a class other methods: all but those that enter it into a registry."""
    targets = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return not all(last_name(target).startswith("register") for target in targets)
