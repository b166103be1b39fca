"""Whether gradients are on where a piece of code stands, as far as its own function tells."""

from __future__ import annotations

import ast
from enum import Enum

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.semantics.nodes import enclosing_function
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 4
_OFF = frozenset(("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"))
_ON = frozenset(("torch.enable_grad", "torch.autograd.enable_grad"))
_SETS = frozenset(
    ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
)
#: Context managers and decorators that leave the mode alone.
_HARMLESS = regex(
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


def is_recorded(semantics: Semantics, node: ast.AST, depth: int = 0) -> bool | None:
    """Whether an operation is recorded, by its own function and the callers in the file; None where nothing around
    says so and the callers cannot be seen."""
    mode = grad_mode_at(semantics, node).mode
    if mode is not GradMode.AS_CALLED:
        return mode is GradMode.ON
    if depth == 0 and any(isinstance(parent_of(call), ast.Expr) for call in _switches(semantics)):
        return False
    function = enclosing_function(node)
    if function is None:
        return None if _in_lambda(node) else True
    if enclosing_function(function) is not None or depth > _DEEPEST:
        return None
    answers = [is_recorded(semantics, call, depth + 1) for call in semantics.callers(function)]
    if False in answers:
        return False
    return True if answers and None not in answers else None


def _switches(semantics: Semantics) -> tuple[ast.Call, ...]:
    """Calls that turn gradients off or on from there on."""
    return (*semantics.module.calls_of("set_grad_enabled"), *semantics.module.calls_of("_set_grad_enabled"))


def _in_lambda(node: ast.AST) -> bool:
    current: ast.AST | None = node
    while current is not None and not isinstance(current, ast.Lambda):
        current = parent_of(current)
    return current is not None
