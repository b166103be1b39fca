from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_REGISTERING = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})


class AttributeBeforeSuperInit(Rule):
    """## What it does

    Reports layers and parameters that an `nn.Module` assigns, and buffers that it registers, before it initialises its
    base class.

    ## Why is this bad?

    `nn.Module.__init__` makes the tables that they are kept in: the assignment raises "cannot assign module before
    Module.__init__() call".

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self, width):
            self.fc = nn.Linear(width, 10)
            super().__init__()
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, 10)
    ```

    ## Exceptions

    Plain values may be set before. The fix is offered where the call of the base needs nothing of what stands before
    it.

    ## References

    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL102"
    name = "attribute-before-super-init"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A layer, parameter or buffer that is set before `super().__init__()` raises."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        constructor = view.method("__init__")
        if constructor is None or constructor.decorator_list:
            return
        body = constructor.body
        place = next((index for index, statement in enumerate(body) if _names_init(statement)), None)
        if place is None or not isinstance(body[place], ast.Expr):
            return
        before = body[:place]
        if any(_may_initialise(statement, constructor, view) for statement in before):
            return
        for call, made in _through_methods(before, constructor, view):
            yield self.found(
                call,
                f"`{ast.unparse(call.func)}(...)` sets `self.{made.attr}` before the base class is initialised, which"
                " raises.",
                related=[(body[place], "the base is initialised here"), (made, "it is set here")],
            )
        early = [node for statement in before for node in _registered(statement, constructor, unit.semantics)]
        for node in early:
            what = f"`self.{node.attr}`" if isinstance(node.ctx, ast.Store) else f"`{ast.unparse(node)}(...)`"
            how = "is set" if isinstance(node.ctx, ast.Store) else "is called"
            fixes = []
            if node is early[0] and not _depends_on(body[place], before[before.index(_statement(node, before)) :]):
                target = _statement(node, before)
                fixes = [_fix(body[place], target)]
            yield self.found(
                node if isinstance(node.ctx, ast.Store) else parent_of(node) or node,
                f"{what} {how} before the base class is initialised, which raises.",
                related=[(body[place], "the base is initialised here")],
                fixes=fixes,
            )


def _names_init(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "__init__" for node in nodes_within(statement, ast.Attribute)
    )


def _may_initialise(statement: ast.stmt, constructor: FunctionNode, view: ClassView) -> bool:
    """Whether a method that is called on the object, or one of ``super()``, may already initialise the base."""
    name = first_parameter(constructor)
    for call in nodes_within(statement, ast.Call):
        assert isinstance(call, ast.Call)
        match call.func:
            case ast.Attribute(value=ast.Name(id=base), attr=method) if base == name and method not in _REGISTERING:
                called = view.called_from(method)
                if not called or any(_names_any_init(one) for one in called):
                    return True
            case ast.Name(id="super"):
                return True
            case _:
                pass
    return any(getattr(node, "attr", "") == "__dict__" for node in nodes_within(statement, ast.Attribute))


def _names_any_init(method: FunctionNode) -> bool:
    names = nodes_within(method, ast.Attribute, ast.Name)
    return any(last_name(node) in ("__init__", "__dict__", "super") for node in names)


def _through_methods(
    before: list[ast.stmt], constructor: FunctionNode, view: ClassView
) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Calls of the class's own methods that set a layer or parameter first thing, and where they do."""
    name = first_parameter(constructor)
    for statement in before:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=attr)) as call) if (
                base == name
            ):
                method = view.method(attr)
                if method is None:
                    continue
                registered = (node for inner in method.body for node in _registered(inner, method, view.semantics))
                made = next(registered, None)
                if made is not None and isinstance(made.ctx, ast.Store):
                    yield call, made


def _registered(statement: ast.stmt, constructor: FunctionNode, semantics: Semantics) -> Iterator[ast.Attribute]:
    """Where a statement assigns a layer or parameter to ``self`` or registers something on it."""
    name = first_parameter(constructor)
    for node in nodes_within(statement, ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if not isinstance(node.value, ast.Name) or node.value.id != name or enclosing_function(node) is not constructor:
            continue
        parent = parent_of(node)
        if isinstance(node.ctx, ast.Store) and isinstance(parent, ast.Assign | ast.AnnAssign):
            kind = semantics.kind(parent.value)
            if kind is not None and kind.proven and (kind.is_module or kind.what is What.PARAMETER):
                yield node
        elif isinstance(parent, ast.Call) and parent.func is node and node.attr in _REGISTERING:
            yield node


def _statement(node: ast.AST, block: list[ast.stmt]) -> ast.stmt:
    """The statement of a block in which a node stands."""
    current: ast.AST | None = node
    while current is not None and current not in block:
        current = parent_of(current)
    assert isinstance(current, ast.stmt)
    return current


def _depends_on(call: ast.stmt, before: list[ast.stmt]) -> bool:
    """Whether the call of the base uses a name or attribute that the statements before it bind."""
    bound = {
        last_name(node)
        for statement in before
        for node in nodes_within(statement, ast.Name, ast.Attribute)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    used = {last_name(node) for node in nodes_within(call, ast.Name, ast.Attribute)}
    return not bound.isdisjoint(used)


def _fix(call: ast.stmt, target: ast.stmt) -> FixPlan:
    return FixPlan("Initialise the base class first", "unsafe", lambda edit: edit.move_before(call, target))
