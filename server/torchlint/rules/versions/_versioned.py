"""What the rules about names of torch that came and went have in common."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.replacement import can_replace, replace_name
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.idioms.surroundings.versioned import (
    REMOVED,
    fails_to_import,
    reporting_rule,
    versioned_imports,
    versioned_use,
)
from torchlint.rules.base import Diagnosis, FixPlan, Rule, on_node
from torchlint.semantics.kinds import What
from torchlint.semantics.unit import Unit
from torchlint.torch_api import OLDEST, Rewrite, TorchRange, VersionedArgument, VersionedName, versioned_name


class VersionedNameRule(Rule):
    """A rule that reports names of the table of versions, each in one place: where it is used, or where it is imported
    if it is a module, gone, or never used."""

    def at_reference(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        """Report a name or attribute."""
        found = versioned_use(unit, node, self.code)
        if found is not None:
            yield self.report(found, node, unit)

    @on_node(ast.Import, ast.ImportFrom)
    def check_import(self, statement: ast.Import | ast.ImportFrom, unit: Unit) -> Iterator[Diagnosis]:
        """Report what an import statement names."""
        for node, found in versioned_imports(unit, statement, self.code):
            yield self.report(found, node, unit)

    def report(self, found: VersionedName, node: ast.AST, unit: Unit) -> Diagnosis:
        message = self.message(found, unit.torch) + (f": use {found.use}." if found.use else ".")
        exported = isinstance(node, ast.alias) and not fails_to_import(found)  # others may import it from this file
        fixes = [] if found.rewrite is None or exported else plans(found.rewrite, node, unit)
        return self.found(node, message, fixes=fixes, deprecated=self.code != REMOVED)

    def message(self, found: VersionedName, allowed: TorchRange | None) -> str:
        """What happens to a name, without a full stop."""
        return deprecation(found)

    def at_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        """Report a method of something that is certainly a tensor, or one that only modules have."""
        assert isinstance(call.func, ast.Attribute)
        of_module = versioned_name(f"torch.nn.Module.{call.func.attr}")
        if of_module is not None:
            if reporting_rule(of_module, unit.torch) == self.code and _may_be_of_module(call.func.value, unit):
                yield self.report(of_module, call.func, unit)
            return
        found = versioned_name(f"torch.Tensor.{call.func.attr}")
        if found is None or reporting_rule(found, unit.torch) != self.code:
            return
        kind = unit.semantics.kind(call.func.value)
        if kind is None or not kind.is_tensor or not kind.proven or in_version_fallback(unit.semantics, call):
            return
        yield self.report(found, call.func, unit)


def _may_be_of_module(receiver: ast.expr, unit: Unit) -> bool:
    """Whether nothing says that a receiver is anything but a module of torch, or that the code is for old releases."""
    if in_version_fallback(unit.semantics, receiver):
        return False
    kind = unit.semantics.kind(receiver)
    if kind is not None:
        return kind.what in (What.MODULE, What.LOSS)
    return not unit.semantics.names(receiver)


def deprecation(found: VersionedName) -> str:
    """Since when a name is deprecated, and gone."""
    if found.gone and not found.deprecated:
        return f"`{found.name}` is gone since torch {found.gone}"
    if found.moved:
        return f"`{found.name}` moved in torch {found.deprecated}"
    since = f" since torch {found.deprecated}" if found.deprecated not in ("", "1.0") else ""
    gone = f" and gone since {found.gone}" if found.gone else ""
    return f"`{found.name}` is deprecated{since}{gone}"


def plans(rewrite: Rewrite, node: ast.AST, unit: Unit) -> list[FixPlan]:
    """The fix that puts the new name in its place: none where the project allows a torch that lacks it, not a safe one
    where nothing is known of the project and torch 2.0 lacks it."""
    allowed = unit.torch
    if (allowed is not None and allowed.may_be_below(rewrite.since)) or not can_replace(unit.semantics, rewrite, node):
        return []
    certain = allowed is not None or _release(rewrite.since) <= _release(OLDEST)
    title = f"Replace with `{rewrite.name}`" + ("" if certain else f" (torch {rewrite.since} or newer)")
    return [FixPlan(title, "safe" if certain else "unsafe", lambda edit: replace_name(edit, rewrite, node))]


def argument_plans(
    known: VersionedArgument, call: ast.Call, given: ast.keyword | ast.expr, *, removable: bool, certain: bool
) -> list[FixPlan]:
    """The fix that gives an argument its new name, or takes it away where the call means the same without it.
    ``removable``: nothing is lost with what is written as its value. ``certain``: no release that the project allows
    wants it."""
    value = given.value if isinstance(given, ast.keyword) else given
    if known.renamed:
        if any(item.arg == known.renamed for item in call.keywords):
            return []
        return [
            FixPlan(
                f"Rename to `{known.renamed}`",
                "safe",
                lambda edit: edit.replace(given, f"{known.renamed}={edit.source(value)}"),
            )
        ]
    if not known.droppable or not removable:
        return []
    return [
        FixPlan(
            f"Remove `{known.argument}`",
            "safe" if certain else "unsafe",
            lambda edit: edit.remove_argument(call, value),
        )
    ]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
