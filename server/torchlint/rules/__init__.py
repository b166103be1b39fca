"""All rules. A rule is found because its file is there: ``rules/<family>/<name>.py``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from torchlint.rules.base import (
    Diagnosis,
    FixKind,
    FixPlan,
    Level,
    Rule,
    on_call,
    on_class,
    on_flow,
    on_function,
    on_keyword,
    on_loss,
    on_method,
    on_module_class,
    on_node,
    on_reference,
)

#: The folders of rules, by the first digit of a code.
FAMILIES = {
    "versions": "API versions",
    "modules": "Modules and parameters",
    "training": "Training and evaluation",
    "losses": "Losses and numerics",
    "tensors": "Tensors",
    "data": "Data",
    "performance": "Speed, memory, device",
    "precision": "Mixed precision, compile, export",
    "distributed": "Distributed and frameworks",
    "serialization": "Saving, loading, reproducibility",
}


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule, sorted by code."""
    found: set[type[Rule]] = set()
    for package in pkgutil.iter_modules(__path__):
        if not package.ispkg:
            continue
        family = importlib.import_module(f"{__name__}.{package.name}")
        for entry in pkgutil.iter_modules(family.__path__):
            module = importlib.import_module(f"{family.__name__}.{entry.name}")
            found.update(
                value
                for value in vars(module).values()
                if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
                if "code" in vars(value)
            )
    return tuple(sorted(found, key=lambda rule: rule.code))


def find_rule(code_or_name: str) -> type[Rule] | None:
    """The rule with a code (``TL201``, any case) or a name (``missing-zero-grad``)."""
    wanted = code_or_name.strip()
    for rule in all_rules():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    return None


__all__ = [
    "FAMILIES",
    "Diagnosis",
    "FixKind",
    "FixPlan",
    "Level",
    "Rule",
    "all_rules",
    "find_rule",
    "on_call",
    "on_class",
    "on_flow",
    "on_function",
    "on_keyword",
    "on_loss",
    "on_method",
    "on_module_class",
    "on_node",
    "on_reference",
]
