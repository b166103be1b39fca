"""Fixes that several rules about losses offer."""

from __future__ import annotations

import ast

from torchlint.idioms.values.dataflow import Operation
from torchlint.idioms.values.losses import SOFTMAX_FUNCTIONS, LossCall, removable
from torchlint.rules.base import FixPlan
from torchlint.semantics.semantics import Semantics


def log_softmax_fixes(loss: LossCall, operations: tuple[Operation, ...]) -> list[FixPlan]:
    """Makes a log-softmax of the softmax in the call of a loss."""
    direct = removable(loss, operations)
    if direct is None or operations[0].name not in SOFTMAX_FUNCTIONS:
        return []
    softmax, _ = direct
    assert isinstance(softmax, ast.Call)
    return [FixPlan("Use `log_softmax`", "unsafe", lambda edit: edit.rename_called(softmax, "log_softmax"))]


def other_loss_fixes(
    loss: LossCall, semantics: Semantics, functions: tuple[str, str], classes: tuple[str, str]
) -> list[FixPlan]:
    """Uses another loss: at the call of the function, or where the instance is built. ``functions`` and ``classes``:
    what it is called in ``torch.nn.functional`` and ``torch.nn``, and what the other is."""
    if loss.name.endswith(functions[0]):
        changed, name = loss.call, functions[1]
    elif loss.built is not None and semantics.is_named(loss.built.func, f"torch.nn.{classes[0]}"):
        changed, name = loss.built, classes[1]
    else:
        return []
    return [FixPlan(f"Use `{name}`", "unsafe", lambda edit: edit.rename_called(changed, name))]
