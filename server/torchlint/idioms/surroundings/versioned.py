"""Where a file uses names that not every release of torch has or likes, and where that is worth saying."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import TorchRange, VersionedName, versioned_module, versioned_name

REMOVED = "TL001"


def reporting_rule(found: VersionedName, allowed: TorchRange | None) -> str:
    """The code of the rule that reports a name in a project; an empty text where it is well."""
    if found.is_gone(allowed):
        return REMOVED
    return found.rule if found.is_deprecated(allowed) else ""


def versioned_at(semantics: Semantics, node: ast.expr) -> VersionedName | None:
    """What is known of the thing that a name or attribute stands for."""
    written = semantics.written_name(node)
    found = versioned_name(written) if written else None
    if found is None and not written:
        name = semantics.name(node)
        found = versioned_name(name) if name else None
    return found


def versioned_use(unit: Unit, node: ast.expr, code: str) -> VersionedName | None:
    """What rule ``code`` has to report of a name or attribute in its place: not where the code provides for several
    versions, and not where the import is reported."""
    found = versioned_at(unit.semantics, node)
    if found is None or reporting_rule(found, unit.torch) != code:
        return None
    if _is_reported_at_import(unit.semantics, node, found) or in_version_fallback(unit.semantics, node):
        return None
    if code != REMOVED and _is_listed_beside_successor(node, found):
        return None
    return None if _is_imported_in_fallback(unit.semantics, node) else found


def versioned_imports(
    unit: Unit, statement: ast.Import | ast.ImportFrom, code: str
) -> Iterator[tuple[ast.AST, VersionedName]]:
    """What rule ``code`` has to report of an import: modules, names that are gone, and names that are never used."""
    if isinstance(statement, ast.ImportFrom) and (statement.level or not statement.module):
        return
    candidates = [
        (node, found)
        for node, found in _imported(unit.semantics, statement)
        if reporting_rule(found, unit.torch) == code
    ]
    if candidates and not in_version_fallback(unit.semantics, statement):
        yield from candidates


def _imported(semantics: Semantics, statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.AST, VersionedName]]:
    module = versioned_module(statement.module or "") if isinstance(statement, ast.ImportFrom) else None
    if module is not None:
        yield statement, module
        return
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            found = versioned_module(alias.name)
        else:
            found = versioned_name(f"{statement.module}.{alias.name}")
            bound = alias.asname or alias.name
            if found is not None and not fails_to_import(found) and semantics.module.reads_name(bound):
                found = None
        if found is not None:
            yield alias, found


def fails_to_import(found: VersionedName) -> bool:
    """Whether the import statement itself is the place to mend."""
    return found.is_module or (bool(found.gone) and not found.raises)


def _is_reported_at_import(semantics: Semantics, node: ast.expr, found: VersionedName) -> bool:
    if isinstance(node, ast.Name):
        return fails_to_import(found)
    if not found.is_module:
        return False
    return any(
        isinstance(statement, ast.Import)
        and any(f"{alias.name}.".startswith(f"{found.name}.") for alias in statement.names)
        for statement in _import_statements(semantics, node)
    )


def _is_listed_beside_successor(node: ast.expr, found: VersionedName) -> bool:
    """Whether a dict maps the name of a function to it, and that of its successor too: all there are, to be patched."""
    holder = parent_of(node)
    if not isinstance(holder, ast.Dict) or not isinstance(node, ast.Attribute):
        return False
    listed = {key.value for key in holder.keys if isinstance(key, ast.Constant)}
    return {node.attr, found.use.strip("`").rpartition(".")[2]} <= listed


def _is_imported_in_fallback(semantics: Semantics, node: ast.expr) -> bool:
    return any(in_version_fallback(semantics, statement) for statement in _import_statements(semantics, node))


def _import_statements(semantics: Semantics, node: ast.expr) -> list[ast.AST]:
    """The statements that bind the first name of a dotted one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return [definition.node for definition in semantics.bindings(node)] if isinstance(node, ast.Name) else []
