from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.members import is_member
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_attribute_set
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit


class RequiresGradOnModule(Rule):
    """## What it does

    Reports `module.requires_grad = ...`: the attribute of a module, not of its parameters.

    ## Why is this bad?

    Modules have no such attribute. Python makes a new one that nothing reads, and all parameters of the module are
    trained as before. `module.requires_grad_(False)` sets it on each of them.

    ## Example

    ```python
    import torchvision

    model = torchvision.models.resnet18()
    model.requires_grad = False
    ```

    ## Use instead

    ```python
    import torchvision

    model = torchvision.models.resnet18()
    model.requires_grad_(False)
    ```

    ## Exceptions

    Parameters and buffers (`model.fc.bias.requires_grad = False` is right), and classes with an attribute or property
    of that name.

    ## References

    - [torch.nn.Module.requires_grad_](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL108"
    name = "requires-grad-on-module"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "`requires_grad` of a module is an attribute that nothing reads: nothing is frozen."

    @on_attribute_set(lambda name: name == "requires_grad")
    def check(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        for target in statement.targets:
            if not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
                continue
            module = target.value
            if not _is_module(module, unit.semantics):
                continue
            written = ast.unparse(module)
            subject = f"`{written}` is a module" if len(written) <= 40 else "This is a module"
            fixes = []
            if len(statement.targets) == 1:
                fixes = [_fix(statement, module)]
            yield self.found(
                target,
                f"{subject}: `requires_grad` sets an attribute that nothing reads, and its parameters are trained as"
                " before.",
                fixes=fixes,
            )


def _is_module(expression: ast.expr, semantics: Semantics) -> bool:
    if semantics.class_of_self(expression) is not None:
        return False
    kind = semantics.kind(expression)
    if kind is None or not kind.is_module:
        return kind is None and is_member(expression, semantics)
    node = kind.class_node
    return node is None or not _has_its_own(node, semantics)


def _has_its_own(node: ast.ClassDef, semantics: Semantics) -> bool:
    """Whether a class defines `requires_grad` itself."""
    return (
        semantics.find_method(node, "requires_grad") is not None
        or bool(semantics.module.attribute_writes(node, "requires_grad"))
        or bool(semantics.module.body_definitions(node, "requires_grad"))
    )


def _fix(statement: ast.Assign, module: ast.expr) -> FixPlan:
    return FixPlan(
        "Call `requires_grad_`, which reaches all parameters",
        "unsafe",
        lambda edit: edit.replace(statement, f"{edit.source(module)}.requires_grad_({edit.source(statement.value)})"),
    )
