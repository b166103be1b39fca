from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes import Editor, FixImpossible
from torchlint.idioms.modules.filled_memory import leaves_memory_as_it_is, may_be_filled, uncalled_reset
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_LISTING = ast.List | ast.Dict | ast.ListComp | ast.GeneratorExp | ast.DictComp


class UninitializedParameter(Rule):
    """## What it does

    Reports parameters that a module makes of memory as it was (`torch.empty`, `torch.Tensor(3, 4)`) and that nothing in
    the file initialises, or only a `reset_parameters` that nothing calls.

    ## Why is this bad?

    The parameter begins with whatever the memory held: mostly zeros or tiny numbers, sometimes huge ones or NaN. A
    training run works on one machine and diverges on another.

    ## Example

    ```python
    import torch
    import torch.nn as nn


    class Scale(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(n, n))

        def forward(self, x):
            return x @ self.weight
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn


    class Scale(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(n, n))
            nn.init.normal_(self.weight, std=0.02)

        def forward(self, x):
            return x @ self.weight
    ```

    ## Exceptions

    Parameters that anything in the file may fill: an initialisation by name or of all parameters in a loop, a
    checkpoint that is loaded. Classes with bases or subclasses that may do it, parameters that are not trained, tensors
    on the `meta` device.

    ## References

    - [torch.empty](https://docs.pytorch.org/docs/stable/generated/torch.empty.html)
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    """

    code = "TL121"
    name = "uninitialized-parameter"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "The parameter begins with whatever the memory held: nothing in this file initialises it."

    @on_call("torch.nn.Parameter")
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        owner = enclosing_class(call)
        data = unit.semantics.value_of(argument(call, 0, "data"))
        if owner is None or not isinstance(data, ast.Call) or not leaves_memory_as_it_is(data, unit.semantics):
            return
        trained = argument(call, 1, "requires_grad")
        if trained is not None and unit.semantics.literal(trained) is not True:
            return
        place = _kept_as(call)
        method = enclosing_function(call)
        view = ClassView(unit.semantics, owner)
        if place is None or method is None or not view.is_module or enclosing_class(method) is not owner:
            return
        name, statement, listed = place
        if may_be_filled(name, call, view):
            return
        reset = uncalled_reset(view)
        if reset is not None and any(node.attr == name for node in self_attributes(reset)):
            yield self.found(
                call,
                f"`self.{name}` begins with whatever the memory held: nothing in this file calls `reset_parameters`.",
                related=[(reset, "it would be initialised here")],
                fixes=[_call_fix(method)],
            )
            return
        if listed:
            yield self.found(
                call,
                f"The parameters of `self.{name}` begin with whatever the memory held: nothing in this file initialises"
                " them.",
                fixes=[_fix_inside(data)] if data is argument(call, 0, "data") else [],
            )
            return
        zero = any(part in name for part in ("bias", "beta", "shift"))
        yield self.found(
            call,
            f"`self.{name}` begins with whatever the memory held: nothing in this file initialises it.",
            fixes=[_fix(statement, f"{_own(method)}.{name}", zero)],
        )


def _kept_as(call: ast.Call) -> tuple[str, ast.stmt, bool] | None:
    """The attribute that a parameter becomes or is a part of, the statement that makes it so, and whether it is one of
    several in a ``ParameterList`` or ``ParameterDict``."""
    holder = parent_of(call)
    container = parent_of(holder) if isinstance(holder, _LISTING) else None
    if isinstance(container, ast.Call) and last_name(container.func) in ("ParameterList", "ParameterDict"):
        kept = _kept_alone(container)
        return (*kept, True) if kept is not None else None
    kept = _kept_alone(call)
    return (*kept, False) if kept is not None else None


def _kept_alone(call: ast.Call) -> tuple[str, ast.stmt] | None:
    holder = parent_of(call)
    match holder:
        case (
            ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=name)])
            | ast.AnnAssign(target=ast.Attribute(value=ast.Name(), attr=name))
        ):
            return name, holder
        case ast.Call(func=ast.Attribute(attr="register_parameter"), args=[ast.Constant(value=str() as name), _]):
            statement = parent_of(holder)
            return (name, statement) if isinstance(statement, ast.Expr) else None
        case ast.Tuple(elts=values):  # `self.u, self.v = nn.Parameter(...), nn.Parameter(...)`
            statement = parent_of(holder)
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(values):
                    target = targets[values.index(call)]
                    kept = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
                    return (target.attr, statement) if kept and isinstance(target, ast.Attribute) else None
            return None
        case _:
            return None


def _own(method: FunctionNode) -> str:
    return method.args.args[0].arg if method.args.args else "self"


def _call_fix(constructor: FunctionNode) -> FixPlan:
    called = f"{_own(constructor)}.reset_parameters()"

    def apply(edit: Editor) -> None:
        last = constructor.body[-1]
        if isinstance(last, ast.Return):
            raise FixImpossible("the constructor returns")
        edit.insert_statement_after(last, called)

    return FixPlan(f"Call `{called}` at its end", "unsafe", apply)


def _fix_inside(data: ast.expr) -> FixPlan:
    return FixPlan(
        "Fill them with `init.normal_`",
        "unsafe",
        lambda edit: edit.wrap(data, f"{edit.spell('torch.nn.init.normal_')}(", ", std=0.02)"),
    )


def _fix(statement: ast.stmt, attribute: str, zero: bool) -> FixPlan:
    filled = "zeros_" if zero else "normal_"
    arguments = attribute if zero else f"{attribute}, std=0.02"

    def apply(edit: Editor) -> None:
        edit.insert_statement_after(statement, f"{edit.spell(f'torch.nn.init.{filled}')}({arguments})")

    return FixPlan(f"Insert `init.{filled}({arguments})`", "unsafe", apply)
