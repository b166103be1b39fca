from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import default_of, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.torch_api import model_builders, weights_of

#: torchvision 0.13 came with this release of torch.
_SINCE = "1.12"


class TorchvisionPretrained(Rule):
    """## What it does

    Reports `pretrained=` and `pretrained_backbone=` of torchvision's models, and `True` or `False` in their place.

    ## Why is this bad?

    They are deprecated since torchvision 0.13 and warn on each call. `weights=` says which weights are loaded: `True`
    stands for the oldest ones that there are, often not the best.

    ## Example

    ```python
    from torchvision import models

    model = models.resnet50(pretrained=True)
    ```

    ## Use instead

    ```python
    from torchvision import models

    model = models.resnet50(weights=models.ResNet50_Weights.IMAGENET1K_V1)
    ```

    ## Exceptions

    Models of other libraries. Projects that allow only torch before 1.12 (torchvision 0.13), and code for several
    versions. There is a fix where the value is `True` or `False` and the weights that it means are known.

    ## References

    - [Models and pre-trained weights](https://docs.pytorch.org/vision/stable/models.html)
    """

    code = "TL007"
    name = "torchvision-pretrained"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This argument is deprecated since torchvision 0.13: `weights` says which weights are loaded."

    @on_call(*model_builders())
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call.func, call, unit)

    @on_call("functools.partial")
    def check_partial(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if len(call.args) == 1 and call.keywords:
            yield from self._check(call.args[0], call, unit)

    def _check(self, builder: ast.expr, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        known = weights_of(unit.semantics.name(builder))
        if not known or (unit.torch is not None and not unit.torch.may_be_at_least(_SINCE)):
            return
        if not call.args and not any(item.arg in known for item in call.keywords):
            return
        if in_version_fallback(unit.semantics, call):
            return
        for old, (new, weights) in known.items():
            given = next((item for item in call.keywords if item.arg == old), None)
            if (
                given is None
                and old == "pretrained"
                and builder is call.func
                and call.args
                and _is_bool(call.args[0], unit)
            ):
                yield self._report(call, call.args[0], call.args[0], (old, new, weights), unit)
            elif given is not None:
                yield self._report(call, given, given.value, (old, new, weights), unit)

    def _report(
        self, call: ast.Call, node: ast.AST, value: ast.expr, names: tuple[str, str, str], unit: Unit
    ) -> Diagnosis:
        old, new, weights = names
        literal = literal_of(value)
        meant = weights if literal is True else "None" if literal is False else ""
        shown = ".".join(meant.split(".")[-2:])
        advice = f"use `{new}={shown}`" if meant else f"use `{new}`"
        fixes = []
        too_old = unit.torch is not None and unit.torch.may_be_below(_SINCE)
        readable = len(call.args) < 2 and not has_unknown_arguments(call)
        if meant and not too_old and readable and not any(item.arg == new for item in call.keywords):
            plan = FixPlan(f"Replace with `{new}={shown}`", "safe", lambda edit: _replace(edit, node, new, meant))
            fixes.append(plan)
        return self.found(
            node, f"`{old}` is deprecated since torchvision 0.13: {advice}.", fixes=fixes, deprecated=True
        )


def _is_bool(value: ast.expr, unit: Unit) -> bool:
    """Whether an argument, which may be the weights of newer releases, is True or False: a literal, or a parameter that
    its annotation or default says it of."""
    if isinstance(literal_of(value), bool):
        return True
    definitions = unit.semantics.definitions(value) if isinstance(value, ast.Name) else ()
    parameters = [item.node for item in definitions if isinstance(item.node, ast.arg)]
    return 0 < len(parameters) == len(definitions) and all(
        isinstance(literal_of(default_of(item)), bool)
        or (isinstance(item.annotation, ast.Name) and item.annotation.id == "bool")
        for item in parameters
    )


def _replace(edit: Editor, node: ast.AST, new: str, weights: str) -> None:
    if weights != "None":
        owner, _, member = weights.rpartition(".")
        weights = f"{edit.spell(owner)}.{member}"
    edit.replace(node, f"{new}={weights}")
