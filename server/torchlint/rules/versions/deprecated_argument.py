from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.arguments import position_of, with_keyword, without_argument
from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call
from torchlint.rules.versions._versioned import argument_plans
from torchlint.semantics.literals import UNKNOWN, literal_of
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.torch_api import VersionedArgument, positional_index, versioned_arguments, versioned_calls

_LEGACY_REDUCTION = ("size_average", "reduce")


class DeprecatedArgument(Rule):
    """## What it does

    Reports arguments that are deprecated: `size_average` and `reduce` of the losses, `pin_memory_device` of
    `DataLoader`, old names such as `min_value` of `nn.Hardtanh`, and others.

    ## Why is this bad?

    They warn on each call and will go. Several have no effect any more. `size_average` and `reduce` override
    `reduction` when both are given.

    ## Example

    ```python
    import torch.nn as nn

    criterion = nn.MSELoss(size_average=False)
    ```

    ## Use instead

    ```python
    import torch.nn as nn

    criterion = nn.MSELoss(reduction="sum")
    ```

    ## Exceptions

    Values that torch does not warn of (`size_average=None`, `only_inputs=True`). Code for several versions: inside
    `try`/`except TypeError`, or under a test of the version. There is a fix only where the value is a literal.

    ## References

    - [torch.nn: loss functions](https://docs.pytorch.org/docs/stable/nn.html#loss-functions)
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL004"
    name = "deprecated-argument"
    level = Level.WARNING
    fix = FixKind.SAFE
    summary = "This argument is deprecated and will go in some release of torch."

    @on_call(*versioned_calls())
    def check(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not call.args and not call.keywords:
            return
        for name in unit.semantics.names(call.func):
            known = versioned_arguments(name)
            if known[0].argument in _LEGACY_REDUCTION:
                yield from self._check_reduction(name, call, unit)
            else:
                for entry in known:
                    yield from self._check_keyword(entry, call, unit)
            return

    def _check_keyword(self, known: VersionedArgument, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = next((item for item in call.keywords if item.arg == known.argument), None)
        if given is None or known.is_gone(unit.torch) or not known.is_deprecated(unit.torch):
            return
        if ast.unparse(given.value) == known.unless or in_version_fallback(unit.semantics, call):
            return
        certain = known.inert or (unit.torch is not None and unit.torch.always_at_least(known.deprecated))
        simple = literal_of(given.value) is not UNKNOWN
        since = f" since torch {known.deprecated}" if known.deprecated != "1.0" else ""
        inert = " and has no effect" if known.inert else ""
        advice = f": use {known.use}." if known.use else "."
        yield self.found(
            given,
            f"`{known.argument}` of `{known.function}` is deprecated{since}{inert}{advice}",
            fixes=argument_plans(known, call, given, removable=simple, certain=certain),
            deprecated=True,
        )

    def _check_reduction(self, name: str, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        given = {each: argument(call, positional_index(name, each), each) for each in _LEGACY_REDUCTION}
        values = {each: literal_of(value) for each, value in given.items() if value is not None}
        values = {each: value for each, value in values.items() if value is not None}
        by_position = [value for each, value in given.items() if each in values and value in call.args]
        if not values or any(not isinstance(literal_of(value), bool) for value in by_position):
            return
        if in_version_fallback(unit.semantics, call):
            return
        first = next(iter(values))
        node = next((item for item in call.keywords if item.arg == first), given[first])
        assert node is not None
        reduction = _reduction(values)
        advice = f'use `reduction="{reduction}"`' if reduction else "use `reduction`"
        if any(isinstance(value, str) for value in values.values()):
            advice = f"{advice}. A text counts as true here, so that the loss is averaged"
        removed = [value for value in given.values() if value is not None]
        fixes = []
        if reduction and not has_unknown_arguments(call) and _are_last(call, removed):
            fixes.append(
                FixPlan(
                    f'Replace with `reduction="{reduction}"`',
                    "safe",
                    lambda edit: _write_reduction(edit, call, removed, reduction),
                )
            )
        names = " and ".join(f"`{each}`" for each in values)
        verb = "are" if len(values) > 1 else "is"
        yield self.found(node, f"{names} of `{name}` {verb} deprecated: {advice}.", fixes=fixes, deprecated=True)


def _reduction(values: dict[str, object]) -> str:
    """What `size_average` and `reduce` mean together (torch 2.13, torch/nn/_reduction.py: legacy_get_string); an empty
    text where a value is neither True nor False."""
    if not all(isinstance(value, bool) for value in values.values()):
        return ""
    if not values.get("reduce", True):
        return "none"
    return "mean" if values.get("size_average", True) else "sum"


def _are_last(call: ast.Call, removed: list[ast.expr]) -> bool:
    """Whether the positional ones of some arguments are the last positional ones of the call."""
    count = sum(value in call.args for value in removed)
    return count == 0 or all(value in removed for value in call.args[-count:])


def _write_reduction(edit: Editor, call: ast.Call, removed: list[ast.expr], reduction: str) -> None:
    text = edit.source(call)
    for position in sorted((position_of(call, value) for value in removed), reverse=True):
        text = without_argument(text, position)
    given = any(item.arg == "reduction" for item in call.keywords)
    if reduction != "mean" or given:
        text = with_keyword(text, "reduction", f'"{reduction}"')
    edit.replace(call, text)
