from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.training.grad_mode import is_recorded
from torchlint.idioms.training.leaves import Leaf, leaf_of
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_method, on_node
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.unit import Unit

_IN_PLACE = (
    "add_ sub_ mul_ div_ pow_ fill_ zero_ copy_ clamp_ clamp_min_ clamp_max_ uniform_ normal_ random_ exponential_ "
    "bernoulli_ addcmul_ addcdiv_ lerp_ neg_ abs_ exp_ log_ sqrt_ tanh_ sigmoid_ relu_ round_ sign_ masked_fill_ "
    "index_fill_ index_add_ index_copy_ scatter_ scatter_add_ renorm_ fill_diagonal_ trunc_normal_ squeeze_ unsqueeze_ "
    "t_ transpose_"
).split()
#: What gives another view of the same memory.
_VIEWS = frozenset("view view_as t transpose permute squeeze unsqueeze narrow select flatten T diagonal".split())


class InplaceOnLeaf(Rule):
    """## What it does

    Reports an in-place change of a leaf tensor that requires gradients, outside `torch.no_grad()`: `w -= lr * w.grad`,
    `self.weight.uniform_(-1, 1)`, `w[0] = 0`.

    ## Why is this bad?

    Autograd would have to record the change, and a leaf has no history to record it in: "a leaf Variable that requires
    grad is being used in an in-place operation". The program stops there.

    ## Example

    ```python
    import torch

    w = torch.randn(3, requires_grad=True)
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        w -= 0.1 * w.grad
        w.grad.zero_()
    ```

    ## Use instead

    ```python
    import torch

    w = torch.randn(3, requires_grad=True)
    for x, y in batches:
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad.zero_()
    ```

    ## Exceptions

    Changes under `torch.no_grad()`, in the function or around the calls of it; changes of `.data`, `.grad` or a
    detached alias; `torch.nn.init`, which turns gradients off itself; parameters that may be frozen, and functions
    whose callers cannot be seen.

    ## References

    - [Autograd mechanics: in-place operations](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    """

    code = "TL221"
    name = "inplace-on-leaf"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Autograd cannot record an in-place change of a leaf: it raises."

    @on_node(ast.AugAssign)
    def check_update(self, statement: ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._changed(statement.target, statement, unit)

    @on_assignment(to=(ast.Subscript,))
    def check_write(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        match statement.targets:
            case [ast.Subscript() as target]:
                yield from self._changed(target, statement, unit)

    @on_method(*_IN_PLACE)
    def check_call(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        yield from self._changed(call.func.value, call, unit)

    def _changed(self, target: ast.expr, change: ast.stmt | ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        base = _viewed(target)
        leaf = leaf_of(unit.semantics, base)
        if leaf is None or not _raises(unit, change, leaf) or is_expected_to_raise(change):
            return
        view = "" if base is target else "a view of "
        message = (
            f"`{ast.unparse(change)}` changes {view}`{ast.unparse(base)}` in place, a leaf that requires gradients, "
            "while gradients are recorded: it raises."
        )
        title = "Run it under `torch.no_grad()`"
        fix = FixPlan(title, "unsafe", lambda edit: _wrap(edit, change))
        yield self.found(change, message, related=[(leaf.node, leaf.what)], fixes=[fix])


def _viewed(target: ast.expr) -> ast.expr:
    """``w`` of ``w[0]`` and ``w.view(-1)[2]``."""
    while True:
        match target:
            case ast.Subscript(value=value):
                target = value
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _VIEWS:
                target = value
            case ast.Attribute(value=value, attr="T"):
                target = value
            case _:
                return target


def _raises(unit: Unit, change: ast.AST, leaf: Leaf) -> bool:
    """Whether gradients are on: the code and its callers say so, or it runs where they are on by all experience."""
    recorded = is_recorded(unit.semantics, change)
    if recorded is not None:
        return recorded
    function = enclosing_function(change)
    if function is None or enclosing_function(function) is not None:
        return leaf.is_local
    if leaf.is_local or any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "backward"
        for node in nodes_within(function, ast.Call)
    ):
        return True
    holder = enclosing_class(function)
    applied = [call for call in unit.semantics.module.calls_of("apply") if _applies(call, function, unit)]
    if holder is None:
        return bool(applied) and all(is_recorded(unit.semantics, call) for call in applied)
    if function.name == "step":
        return "torch.optim.Optimizer" in unit.semantics.ancestors(holder)
    setup = ClassView(unit.semantics, holder).called_from("__init__")
    return function in setup or (bool(applied) and all(enclosing_function(call) in setup for call in applied))


def _applies(call: ast.Call, function: ast.AST, unit: Unit) -> bool:
    """``net.apply(function)`` and ``self.apply(self._function)``."""
    match call.args:
        case [ast.Name() as given]:
            return unit.semantics.local_function(given) is function
        case [ast.Attribute(value=base, attr=name)]:
            owner = unit.semantics.class_of_self(base)
            return owner is not None and unit.semantics.find_method(owner, name) is function
        case _:
            return False


def _wrap(edit: Editor, change: ast.AST) -> None:
    statement = edit.statement_of(change)
    edit.indent_into(statement, statement, f"with {edit.spell('torch.no_grad')}():")
