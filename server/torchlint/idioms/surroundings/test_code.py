"""Code of tests, which does on purpose what a program should not do."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics


def is_in_test(semantics: Semantics, node: ast.AST) -> bool:
    """Whether a node stands in a test: a function ``test_...``, or a method of a ``TestCase``."""
    function = enclosing_function(node)
    if function is None:
        return False
    holder = enclosing_class(function)
    return function.name.startswith("test_") or (
        holder is not None and any(name.endswith("TestCase") for name in semantics.ancestors(holder))
    )
