"""Whether gradients are on where a piece of code stands, as far as its own function tells."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum

from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_OFF = frozenset(("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"))
_ON = frozenset(("torch.enable_grad", "torch.autograd.enable_grad"))
_SETS = frozenset(
    ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
)
#: Context managers and decorators that leave the mode alone.
_HARMLESS = re.compile(
    r"^(tqdm\.|torch\.(amp\.|cuda\.|cpu\.|autocast|device|profiler\.|autograd\.(profiler|detect|set_detect)|backends\."
    r"|random\.|compile$|jit\.|distributed\.)|contextlib\.(nullcontext|suppress|redirect)|warnings\.|time\.|rich\."
    r"|concurrent\.|tempfile\.|zipfile\.|functools\.(wraps|lru_cache|cache)|abc\.|typing|pytest\.)"
)
_BUILTIN_DECORATORS = frozenset(("staticmethod", "classmethod", "property", "override"))


class GradMode(Enum):
    """Whether operations are recorded for a backward pass."""

    OFF = "off"
    ON = "on"
    #: Nothing around says: as the caller has it.
    AS_CALLED = "as called"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False, slots=True)
class Switch:
    """The mode at a place, and what set it there (a context expression or decorator; None for the caller's mode)."""

    mode: GradMode
    by: ast.expr | None = None


def grad_mode_at(semantics: Semantics, node: ast.AST) -> Switch:
    """The mode that the innermost context manager around a node, or a decorator of its function, sets."""
    child, holder = node, parent_of(node)
    while holder is not None:
        contexts: list[ast.expr] = []
        is_function = isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(holder, ast.With | ast.AsyncWith) and child in holder.body:
            contexts = [item.context_expr for item in reversed(holder.items)]
        elif isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) and child in holder.body:
            contexts = list(holder.decorator_list)
        for context in contexts:
            mode = _mode_of(semantics, context)
            if mode is not None:
                return Switch(mode, context)
        if is_function or isinstance(holder, ast.Lambda):
            break
        child, holder = holder, parent_of(holder)
    return Switch(GradMode.AS_CALLED)


def _mode_of(semantics: Semantics, context: ast.expr) -> GradMode | None:
    """The mode that a context manager or decorator sets; None if it leaves the mode alone."""
    called = context.func if isinstance(context, ast.Call) else context
    name = semantics.name(called)
    if name in _OFF:
        given = [*context.args, *(item.value for item in context.keywords)] if isinstance(context, ast.Call) else []
        if not given or name.endswith("no_grad"):
            return GradMode.OFF
        return GradMode.OFF if semantics.literal(given[0]) is True else GradMode.UNKNOWN
    if name in _ON:
        return GradMode.ON
    if name in _SETS and isinstance(context, ast.Call):
        given = [*context.args, *(item.value for item in context.keywords)]
        match semantics.literal(given[0]) if given else None:
            case True:
                return GradMode.ON
            case False:
                return GradMode.OFF
            case _:
                return GradMode.UNKNOWN
    if _HARMLESS.match(name) or (isinstance(called, ast.Name) and called.id in (*_BUILTIN_DECORATORS, "open")):
        return None
    return GradMode.UNKNOWN
