from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.members import module_iterator
from torchlint.idioms.modules.used_as_module import is_used_as_module
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_attribute_set
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_OWN = frozenset({"train", "eval", "__init__", "__setattr__", "__setstate__"})
#: Loops that visit each module themselves.
_ALL = frozenset({"modules", "named_modules"})


class TrainingFlagAssignment(Rule):
    """## What it does

    Reports `model.training = False` (or `True`) on a module.

    ## Why is this bad?

    The flag of a module is not the flag of the modules in it. After the assignment the dropout and batch normalisation
    layers inside are still in the old mode. `eval()` and `train()` set the flag of all.

    ## Example

    ```python
    import torch.nn as nn

    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    model.training = False
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    model.eval()
    ```

    ## Exceptions

    `self.training` in a module's own `train`, `eval` or constructor; a loop over `modules()`, which visits them all; a
    single layer without modules inside; the mode of another module, which a replacement takes over; `eval()` or
    `train()` right behind it.

    ## References

    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL113"
    name = "training-flag-assignment"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Setting `training` by hand leaves the modules inside in the old mode."

    @on_attribute_set(lambda name: name == "training")
    def check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        if isinstance(statement.value, ast.Attribute) and statement.value.attr == "training":
            return  # a module that takes the place of another takes over its mode
        for target in statement.targets:
            if not isinstance(target, ast.Attribute) or target.attr != "training":
                continue
            if not _holds_modules(target.value, unit.semantics) or _is_switched_next(
                statement, target.value, unit.semantics
            ):
                continue
            written = ast.unparse(target.value)
            shown = f"`{written}`" if len(written) <= 40 else "the module"
            yield self.found(
                target,
                f"The assignment sets the mode of {shown} alone: the modules inside stay in the old one.",
                fixes=[_fix(statement, target.value, unit.semantics)] if len(statement.targets) == 1 else [],
            )


def _is_switched_next(statement: ast.Assign, module: ast.expr, semantics: Semantics) -> bool:
    """Whether `eval()` or `train()` follows in the same block, before the module can have run, or the flag of a part is
    set as well where both are put back later: the modes are chosen one by one."""
    block = parent_of(statement)
    blocks: list[list[ast.stmt]] = [getattr(block, name, []) for name in ("body", "orelse", "finalbody")]
    if block is None:
        blocks = [[top for part in semantics.module.own_code() for top in part.body]]
    statements: list[ast.stmt] = next((held for held in blocks if statement in held), [])
    path = ast.dump(module)
    for later in statements[statements.index(statement) + 1 :] if statements else []:
        match later:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr="eval" | "train"))):
                if ast.dump(receiver) == path:
                    return True
            case ast.Assign(targets=[ast.Attribute(value=ast.Attribute(value=whole), attr="training")]):
                if ast.dump(whole) == path and _times_set(statements, path) > 1:
                    return True
            case ast.Expr() | ast.Assign():
                if any(isinstance(node, ast.Call) and ast.dump(node.func) == path for node in ast.walk(later)):
                    return False
            case _:
                return False
    return False


def _times_set(statements: list[ast.stmt], module: str) -> int:
    """How often the flag of a module is assigned in a block; ``module``: its dumped path."""
    targets = (target for item in statements if isinstance(item, ast.Assign) for target in item.targets)
    return sum(
        isinstance(target, ast.Attribute) and target.attr == "training" and ast.dump(target.value) == module
        for target in targets
    )


def _holds_modules(expression: ast.expr, semantics: Semantics) -> bool:
    """Whether something is a module that may hold others."""
    owner = semantics.class_of_self(expression)
    if owner is not None:
        function = enclosing_function(expression)
        inside = function is not None and function.name in _OWN
        return not inside and semantics.is_module_class(owner) and _has_members(owner, semantics)
    iterator = module_iterator(expression, semantics)
    if iterator is not None:
        return iterator not in _ALL
    kind = semantics.kind(expression)
    if kind is None:
        return is_used_as_module(expression, semantics)
    if not kind.is_module:
        return False
    if kind.class_node is not None:
        return _has_members(kind.class_node, semantics)
    layer = kind.origin.startswith("torch.nn.") and kind.origin.rpartition(".")[2] not in _HOLDERS
    return not layer


#: Classes of torch.nn that hold other modules.
_HOLDERS = frozenset(
    {"Module", "Sequential", "ModuleList", "ModuleDict", "DataParallel", "DistributedDataParallel", "Transformer"}
) | frozenset(f"Transformer{side}{layer}" for side in ("Encoder", "Decoder") for layer in ("", "Layer"))


def _has_members(node: ast.ClassDef, semantics: Semantics) -> bool:
    """Whether a class of this file assigns modules to itself, or has a base that may."""
    if semantics.has_unknown_base(node):
        return True
    for name in semantics.module.attributes(node):
        kind = semantics.attribute_kind(node, name)
        if kind is not None and kind.is_module:
            return True
    return any(_has_members(base, semantics) for base in semantics.local_bases(node))


def _fix(statement: ast.Assign, module: ast.expr, semantics: Semantics) -> FixPlan:
    value = statement.value
    literal = semantics.literal(value)
    if literal is False:
        return FixPlan("Call `eval()`", "unsafe", lambda edit: edit.replace(statement, f"{edit.source(module)}.eval()"))
    if literal is True:
        return FixPlan(
            "Call `train()`", "unsafe", lambda edit: edit.replace(statement, f"{edit.source(module)}.train()")
        )
    return FixPlan(
        "Call `train(...)`",
        "unsafe",
        lambda edit: edit.replace(statement, f"{edit.source(module)}.train({edit.source(value)})"),
    )
