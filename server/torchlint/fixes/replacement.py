"""Putting one name of torch in the place of another: at a use with its arguments, and in the import that brought it."""

from __future__ import annotations

import ast

from torchlint.fixes.editor import Editor, FixImpossible
from torchlint.semantics.index import index_of
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of
from torchlint.torch_api import Rewrite


def can_replace(semantics: Semantics, rewrite: Rewrite, node: ast.AST) -> bool:
    """Whether ``replace_name`` can mend a use or an import."""
    match node:
        case ast.alias():
            return isinstance(parent_of(node), ast.ImportFrom) and _is_free(semantics, rewrite, node)
        case ast.ImportFrom():
            return all(alias.name in rewrite.members for alias in node.names)
        case ast.Attribute():
            return _can_replace_use(rewrite, node)
        case ast.Name():
            alias = _import_of(semantics, node)
            return alias is not None and _can_replace_use(rewrite, node) and _is_free(semantics, rewrite, alias)
        case _:
            return False


def replace_name(edit: Editor, rewrite: Rewrite, node: ast.AST) -> None:
    """Replace a name where it is used or imported. Of a name that was imported by itself, the import and all uses that
    can be written with the new name change."""
    match node:
        case ast.alias():
            _replace_import(edit, rewrite, node)
        case ast.ImportFrom():
            edit.replace_imported_module(node, rewrite.name)
        case ast.Attribute():
            _replace_use(edit, rewrite, node, _spelled(edit, rewrite, node))
        case ast.Name():
            alias = _import_of(edit.semantics, node)
            if alias is None:
                raise FixImpossible("not imported once")
            _replace_import(edit, rewrite, alias)
        case _:
            raise FixImpossible("not a name")


def _import_of(semantics: Semantics, name: ast.Name) -> ast.alias | None:
    """The part of an import statement that alone binds a name."""
    bindings = semantics.bindings(name)
    if len(bindings) == 1 and isinstance(bindings[0].node, ast.ImportFrom):
        for alias in bindings[0].node.names:
            if (alias.asname or alias.name) == name.id:
                return alias
    return None


def _is_free(semantics: Semantics, rewrite: Rewrite, alias: ast.alias) -> bool:
    """Whether the new name is not taken in the file, nor the old one exported by ``__all__``."""
    new = rewrite.name.rpartition(".")[2]
    if alias.asname is not None or new == alias.name:
        return True
    module = semantics.module
    return not (module.definitions("__all__") or module.definitions(new) or module.reads_name(new))


def _can_replace_use(rewrite: Rewrite, node: ast.expr) -> bool:
    if rewrite.is_rename or rewrite.called:
        return True
    call = parent_of(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return False
    given = {item.arg for item in call.keywords}
    if None in given or any(isinstance(item, ast.Starred) for item in call.args):
        return False
    if given & {keyword for keyword, _ in rewrite.keywords} or (rewrite.as_list and given):
        return False
    return rewrite.fewer_than is None or (len(call.args) < rewrite.fewer_than and not given)


def _spelled(edit: Editor, rewrite: Rewrite, node: ast.Attribute) -> str:
    module, _, last = rewrite.name.rpartition(".")
    if edit.semantics.written_name(node.value) == module:
        return f"{edit.source(node.value)}.{last}"
    return edit.spell(rewrite.name)


def _replace_import(edit: Editor, rewrite: Rewrite, alias: ast.alias) -> None:
    statement = parent_of(alias)
    assert isinstance(statement, ast.ImportFrom)
    module, _, last = rewrite.name.rpartition(".")
    old = alias.asname or alias.name
    uses = _uses(edit, statement, old)
    fitting = [use for use in uses if _can_replace_use(rewrite, use)]
    if len(fitting) < len(uses):
        new = last
        edit.insert_statement_after(statement, f"from {module} import {last}")
    else:
        new = alias.asname or last
        _import_instead(edit, statement, alias, module, last)
    for use in fitting:
        if new != old or not rewrite.is_rename:
            _replace_use(edit, rewrite, use, new)


def _import_instead(edit: Editor, statement: ast.ImportFrom, alias: ast.alias, module: str, last: str) -> None:
    suffix = f" as {alias.asname}" if alias.asname else ""
    if statement.module == module:
        edit.replace(alias, last + suffix)
    elif len(statement.names) == 1:
        if "#" in edit.source(statement):
            raise FixImpossible("a comment stands in the import")
        edit.replace(statement, f"from {module} import {last}{suffix}")
    else:
        edit.remove_imported(statement, alias)
        edit.insert_statement_after(statement, f"from {module} import {last}{suffix}")


def _uses(edit: Editor, statement: ast.ImportFrom, name: str) -> list[ast.Name]:
    """The places that read what an import binds. Raises FixImpossible if something else may be bound there, too."""
    found: list[ast.Name] = []
    for group in edit.semantics.module.syntax.groups:
        for part in group.parts:
            for node in index_of(part).all(ast.Name):
                if node.id != name or not isinstance(node.ctx, ast.Load):
                    continue
                definitions = edit.semantics.definitions(node)
                if not any(item.node is statement for item in definitions):
                    continue
                if any(item.node is not statement or item.kind is not Binding.IMPORT for item in definitions):
                    raise FixImpossible("the name is bound to something else, too")
                found.append(node)
    return found


def _replace_use(edit: Editor, rewrite: Rewrite, node: ast.expr, name: str) -> None:
    if rewrite.is_rename:
        edit.replace(node, name)
        return
    if rewrite.called:
        edit.replace(node, f"{name}()")
        return
    call = parent_of(node)
    assert isinstance(call, ast.Call)
    added = [f"{keyword}={value}" for keyword, value in rewrite.keywords]
    arguments: list[ast.AST] = [*call.args, *call.keywords]
    if not arguments:
        edit.replace(call, f"{name}({', '.join([*filter(None, [rewrite.first]), *added])})")
        return
    edit.replace(node, name)
    if rewrite.as_list:
        edit.insert_before(arguments[0], "[")
        edit.insert_after(arguments[-1], "]")
    if rewrite.first:
        edit.insert_before(arguments[0], f"{rewrite.first}, ")
    if added:
        edit.insert_after(arguments[-1], f", {', '.join(added)}")
