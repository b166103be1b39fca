"""Code of tests, which does on purpose what a program should not do."""

from __future__ import annotations

import ast

from torchlint.semantics.nodes import enclosing_class, enclosing_function
from torchlint.semantics.semantics import Semantics


def is_in_test(semantics: Semantics, node: ast.AST) -> bool:
    """Whether a node stands in a test: a function ``test_...``, a ``test...`` of a class ``Test...``, or any method of
    a ``TestCase``."""
    function = enclosing_function(node)
    if function is None:
        return False
    holder = enclosing_class(function)
    if function.name.startswith("test_") or holder is None:
        return function.name.startswith("test_")
    if holder.name.startswith("Test") and function.name.startswith("test"):
        return True
    return any(name.endswith("TestCase") for name in semantics.ancestors(holder))
