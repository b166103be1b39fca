"""What the code of a part binds: names in scopes, attributes of objects. Called by the one walk (``index.py``) at each
node that binds anything, opens a scope, or calls something."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint.semantics.scopes import AttributeWrite, Binding, Definition, FunctionNode, Scope, dotted

if TYPE_CHECKING:
    from torchlint.semantics.index import PartIndex

#: Records what a node binds and gives the scope of what is inside it; each function takes the nodes of its own types.
Enter = Callable[..., Scope]
_NAMED = (ast.Name, ast.Attribute)


def _bind_target(
    target: ast.expr,
    kind: Binding,
    node: ast.AST,
    value: ast.expr | None,
    scope: Scope,
    path: tuple[int | None, ...] = (),
) -> None:
    """Record what an assignment target binds: names in the scope, attributes as writes."""
    match target:
        case ast.Name(id=name):
            scope.bind(Definition(name, kind, node, value, path))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            starred = False
            for position, element in enumerate(elements):
                if isinstance(element, ast.Starred):
                    starred = True
                    _bind_target(element.value, kind, node, value, scope, (*path, None))
                    continue
                place = position - len(elements) if starred else position
                _bind_target(element, kind, node, value, scope, (*path, place))
        case ast.Attribute(value=base, attr=name):
            base_name = dotted(base)
            if base_name is not None and isinstance(node, ast.stmt):
                augmented = kind is Binding.AUGMENTED
                scope.writes.append(AttributeWrite(base_name, name, target, node, value, path, augmented))
        case _:
            pass


def _assign(node: ast.Assign, scope: Scope, index: PartIndex) -> Scope:
    for target in node.targets:
        _bind_target(target, Binding.ASSIGNMENT, node, node.value, scope)
        if isinstance(target, ast.Name) and isinstance(node.value, _NAMED):
            index.aliases.add(target.id)
    return scope


def _annotated(node: ast.AnnAssign, scope: Scope, index: PartIndex) -> Scope:
    kind = Binding.ASSIGNMENT if node.value is not None else Binding.ANNOTATION
    _bind_target(node.target, kind, node, node.value, scope)
    return scope


def _augmented(node: ast.AugAssign, scope: Scope, index: PartIndex) -> Scope:
    _bind_target(node.target, Binding.AUGMENTED, node, node.value, scope)
    return scope


def _named_expression(node: ast.NamedExpr, scope: Scope, index: PartIndex) -> Scope:
    holder = scope
    while holder.parent is not None and isinstance(holder.node, _COMPREHENSIONS):
        holder = holder.parent
    _bind_target(node.target, Binding.ASSIGNMENT, node, node.value, holder)
    return scope


def _loop(node: ast.For | ast.AsyncFor, scope: Scope, index: PartIndex) -> Scope:
    _bind_target(node.target, Binding.LOOP, node, node.iter, scope)
    return scope


def _with(node: ast.With | ast.AsyncWith, scope: Scope, index: PartIndex) -> Scope:
    for item in node.items:
        if item.optional_vars is not None:
            _bind_target(item.optional_vars, Binding.WITH, node, item.context_expr, scope)
    return scope


def _except(node: ast.ExceptHandler, scope: Scope, index: PartIndex) -> Scope:
    if node.name:
        scope.bind(Definition(node.name, Binding.EXCEPT, node))
    return scope


def _import(node: ast.Import, scope: Scope, index: PartIndex) -> Scope:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        imported = alias.name if alias.asname else name
        scope.bind(Definition(name, Binding.IMPORT, node, imported=imported))
    return scope


def _import_from(node: ast.ImportFrom, scope: Scope, index: PartIndex) -> Scope:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            scope.star_imports.append(module)
            continue
        imported = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
        scope.bind(Definition(alias.asname or alias.name, Binding.IMPORT, node, imported=imported))
    return scope


def _function(node: FunctionNode, scope: Scope, index: PartIndex) -> Scope:
    scope.bind(Definition(node.name, Binding.FUNCTION, node))
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    _bind_parameters(node.args, inner)
    return inner


def _lambda(node: ast.Lambda, scope: Scope, index: PartIndex) -> Scope:
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    _bind_parameters(node.args, inner)
    return inner


def _bind_parameters(arguments: ast.arguments, scope: Scope) -> None:
    variable = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variable):
        scope.bind(Definition(argument.arg, Binding.PARAMETER, argument))


def _class(node: ast.ClassDef, scope: Scope, index: PartIndex) -> Scope:
    scope.bind(Definition(node.name, Binding.CLASS, node))
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    return inner


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope, index: PartIndex
) -> Scope:
    inner = Scope(node, scope, index.part)
    index.scopes[node] = inner
    for generator in node.generators:
        _bind_target(generator.target, Binding.COMPREHENSION, node, generator.iter, inner)
    return inner


def _outer_names(node: ast.Global | ast.Nonlocal, scope: Scope, index: PartIndex) -> Scope:
    scope.outer_names.update(node.names)
    return scope


def _delete(node: ast.Delete, scope: Scope, index: PartIndex) -> Scope:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.bind(Definition(target.id, Binding.DELETED, node))
    return scope


def _pattern(node: ast.AST, scope: Scope, index: PartIndex) -> Scope:
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    if name:
        scope.bind(Definition(name, Binding.OTHER, node))
    return scope


def _call(node: ast.Call, scope: Scope, index: PartIndex) -> Scope:
    function = node.func
    if isinstance(function, ast.Attribute):
        index.called.add(function.attr)
    elif isinstance(function, ast.Name):
        index.called.add(function.id)
    return scope


#: What the walk does when it comes to a node of a type; the other types bind nothing.
ENTER: dict[type[ast.AST], Enter] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.NamedExpr: _named_expression,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Global: _outer_names,
    ast.Nonlocal: _outer_names,
    ast.Delete: _delete,
    ast.MatchAs: _pattern,
    ast.MatchStar: _pattern,
    ast.MatchMapping: _pattern,
    ast.Call: _call,
}
