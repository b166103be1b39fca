from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.class_decorators import may_be_remade
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Bases that can be made with no arguments.
_BASES = ("torch.nn.Module", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")


class MissingSuperInit(Rule):
    """## What it does

    Reports an `nn.Module` whose `__init__` never initialises its base class: no `super().__init__()`, or one that
    does nothing, such as `super().__init__` without the call or `super(nn.Module, self).__init__()`.

    ## Why is this bad?

    `nn.Module.__init__` makes the tables in which layers, parameters, buffers and hooks are kept. Without them the
    first layer that is assigned raises "cannot assign module before Module.__init__() call". A module without layers
    raises at its first call, or when it is put into another module.

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self, width):
            self.fc = nn.Linear(width, 10)
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

    `nn.Module.__init__(self)` and `Base.__init__(self)` are fine, in `__init__`, in `__new__` or in a method that
    `__init__` calls.
    Decorated classes (dataclasses, those of attrs; not those that a decorator only registers), decorated constructors
    and constructors that only raise are not judged. The fix is offered where the base can be initialised without
    arguments.

    ## References

    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL101"
    name = "missing-super-init"
    level = Level.ERROR
    fix = FixKind.SAFE
    summary = "A module that is not initialised raises as soon as a layer is assigned or it is called."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        constructor = view.method("__init__")
        if constructor is None or constructor.decorator_list or may_be_remade(view.node):
            return
        if isinstance(constructor, ast.AsyncFunctionDef) or _is_stub(constructor):
            return
        if _may_initialise(constructor, view):
            return
        maker = view.semantics.find_method(view.node, "__new__")
        if maker is not None and _may_initialise(maker, view):
            return
        called = (method for method in view.called_from("__init__") if _belongs(method, view))
        if any(_may_initialise(method, view) for method in called):
            return
        fruitless = _fruitless(constructor, view.semantics)
        first = _first_registered(constructor, view)
        if first is None and fruitless is None and view.method("__call__") is not None:
            return
        fixes = [_fix(constructor, fruitless)] if _needs_no_arguments(view.node, view.semantics) else []
        if first is not None:
            consequence = f"assigning `self.{first.attr}` raises."
        elif view.semantics.find_method(view.node, "forward") is not None:
            consequence = "the first call of the module raises, and so does putting it into another module."
        else:
            consequence = "its use as a module raises (`.to()`, `.parameters()`, putting it into another module)."
        message = f"`{view.name}.__init__` never initialises its base class: {consequence}"
        related = [(first, "the first layer or parameter")] if first is not None else []
        yield self.found(fruitless or constructor, message, related=related, fixes=fixes)


def _is_stub(constructor: FunctionNode) -> bool:
    """Whether a constructor is only declared, or always raises."""
    body = constructor.body
    if isinstance(body[-1], ast.Raise):
        return True
    return all(isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) for statement in body)


def _belongs(method: FunctionNode, view: ClassView) -> bool:
    return parent_of(method) is not None and method.name != "__init__"


def _may_initialise(method: FunctionNode, view: ClassView) -> bool:
    """Whether a method calls the constructor of a base, or fills the module's tables in a way of its own."""
    for node in nodes_within(method, ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if node.attr in ("__init__", "__setstate__") and not _is_fruitless(node, view.semantics):
            return True
        if node.attr == "__dict__" and not isinstance(parent_of(node), ast.Subscript):
            return True
        if node.attr in ("__class__", "_modules", "_parameters") and isinstance(node.ctx, ast.Store):
            return True
    # `super().setup()` and the like: a base that is not in this file may do it there.
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "super"
        and getattr(parent_of(call), "attr", "__init__") not in ("__init__", "__setattr__")
        for call in nodes_within(method, ast.Call)
    )


def _is_fruitless(node: ast.Attribute, semantics: Semantics) -> bool:
    """``super().__init__`` without a call, and ``super(nn.Module, self).__init__()``, which skips the module's own."""
    if node.attr != "__init__":
        return False
    if isinstance(parent_of(node), ast.Expr):
        return True
    base = node.value
    return (
        isinstance(base, ast.Call)
        and isinstance(base.func, ast.Name)
        and base.func.id == "super"
        and len(base.args) == 2
        and semantics.is_named(base.args[0], "torch.nn.Module")
    )


def _fruitless(constructor: FunctionNode, semantics: Semantics) -> ast.Expr | None:
    for node in nodes_within(constructor, ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if _is_fruitless(node, semantics):
            holder = parent_of(node)
            holder = holder if isinstance(holder, ast.Expr) else parent_of(holder) if holder is not None else None
            if isinstance(holder, ast.Expr):
                return holder
    return None


def _first_registered(constructor: FunctionNode, view: ClassView) -> ast.Attribute | None:
    """The first layer or parameter that the constructor assigns."""
    for name in view.attributes:
        for write in view.writes(name):
            if enclosing_function(write.statement) is not constructor or write.path:
                continue
            kind = view.semantics.kind(write.value)
            if kind is not None and kind.proven and (kind.is_module or kind.what is What.PARAMETER):
                return write.target
    return None


def _needs_no_arguments(node: ast.ClassDef, semantics: Semantics) -> bool:
    """Whether ``super().__init__()`` in a class calls a constructor that can do without arguments."""
    if len(node.bases) != 1:
        return False
    (base,) = node.bases
    target = base.value if isinstance(base, ast.Subscript) else base
    local = semantics.local_class(target)
    if local is None:
        return semantics.is_named(target, *_BASES)
    constructor = semantics.module.method(local, "__init__")
    if constructor is None:
        return not local.decorator_list and _needs_no_arguments(local, semantics)
    arguments = constructor.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return required == 1 and all(default is not None for default in arguments.kw_defaults)


def _fix(constructor: FunctionNode, fruitless: ast.Expr | None) -> FixPlan:
    call = "super().__init__()"
    if fruitless is not None:
        return FixPlan(f"Call `{call}`", "safe", lambda edit: edit.replace(fruitless, call))
    return FixPlan(f"Insert `{call}`", "safe", lambda edit: edit.insert_first_in(constructor, call))
