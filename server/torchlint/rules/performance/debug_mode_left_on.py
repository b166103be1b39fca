from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_call, on_method
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.literals import UNKNOWN
from torchlint.semantics.nodes import argument, enclosing_class, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly")
_PROFILERS = ("torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx", "torch.profiler.profile")
_BLOCKING = "CUDA_LAUNCH_BLOCKING"
_BLOCKING_MESSAGE = f"`{_BLOCKING}` is set in every run: the CPU waits for each kernel, and both stand idle by turns."
#: Functions and classes that say that looking for errors, or measuring, is their purpose.
_PURPOSE = regex(
    r"debug|profil|anomal|nan|bench|trace|diagnos|check|inspect|test|detect|determin|reproduc", re.IGNORECASE
)
_TEST_MODULES = frozenset(("pytest", "unittest", "torch.testing", "torch.utils.benchmark"))


class DebugModeLeftOn(Rule):
    """## What it does

    Reports tools for debugging that are switched on for every run: anomaly detection, a profiler whose results nothing
    reads, `CUDA_LAUNCH_BLOCKING`.

    ## Why is this bad?

    Anomaly detection keeps a stack trace for each operation and looks for NaN after each step of the backward pass;
    with `CUDA_LAUNCH_BLOCKING` the CPU waits for each kernel; a profiler keeps events until memory runs out. Training
    becomes several times slower.

    ## Example

    ```python
    import torch

    torch.autograd.set_detect_anomaly(True)
    train(model)
    ```

    ## Use instead

    ```python
    import torch

    train(model)
    ```

    ## Exceptions

    What stands under a condition (`if args.debug:`), a value that is not a literal, detection that is switched off
    again, tests, and functions whose names say that this is their purpose (`check_for_nan`, `make_deterministic`).

    ## References

    - [torch.autograd.detect_anomaly](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "TL607"
    name = "debug-mode-left-on"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "A debugging tool that is on in every run makes training several times slower."

    @on_call(*_ANOMALY)
    def check_anomaly(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        name = unit.semantics.name(call.func)
        if name == _ANOMALY[0] and unit.semantics.literal(argument(call, 0, "mode")) is not True:
            return
        if has_unknown_arguments(call) or not _is_always_on(call, unit.semantics):
            return
        if name == _ANOMALY[1] and not _is_context(call):
            return
        if any(unit.semantics.literal(argument(other, 0, "mode")) is not True for other in _switches(unit.semantics)):
            return
        message = "Anomaly detection is on in every run: it makes the backward pass several times slower."
        yield self.found(call, message, fixes=_removal(call, "anomaly detection"))

    @on_call(*_PROFILERS)
    def check_profiler(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        name = semantics.name(call.func)
        old = name != "torch.profiler.profile"
        enabled = argument(call, 0, "enabled") if old else None
        if enabled is not None and semantics.literal(enabled) is not True:
            return
        if has_unknown_arguments(call) or argument(call, None, "on_trace_ready") is not None:
            return
        if not (_is_context(call) or _statement(call) is not None) or not _is_always_on(call, semantics):
            return
        if name == "torch.autograd.profiler.emit_nvtx" and _statement(call) is None:
            return
        message = f"`{ast.unparse(call.func)}` runs in every run, and nothing reads what it records."
        yield self.found(call, message, fixes=_removal(call, "the profiler"))

    @on_assignment(to=(ast.Subscript,))
    def check_environment(self, assign: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        target = assign.targets[0]
        if target.__class__ is not ast.Subscript or not isinstance(target, ast.Subscript):
            return
        if not isinstance(target.slice, ast.Constant) or target.slice.value != _BLOCKING:
            return
        if not unit.semantics.is_named(target.value, "os.environ"):
            return
        if _is_one(assign.value, unit.semantics) and _is_always_on(assign, unit.semantics):
            fix = FixPlan(f"Remove `{_BLOCKING}`", "unsafe", lambda edit: edit.remove_statement(assign))
            yield self.found(assign, _BLOCKING_MESSAGE, fixes=[fix])

    @on_method("update", "setdefault", "putenv")
    def check_environment_call(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        match call.args:
            case [ast.Dict(keys=keys, values=values)]:
                pairs = zip(keys, values, strict=True)
                set_here = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == _BLOCKING]
            case [ast.Constant(value=key), value] if key == _BLOCKING:
                set_here = [value]
            case _:
                set_here = []
        set_here += [item.value for item in call.keywords if item.arg == _BLOCKING]
        statement = _statement(call)
        if statement is None or not any(_is_one(value, semantics) for value in set_here):
            return
        named = semantics.is_named(call.func, "os.environ.update", "os.environ.setdefault", "os.putenv")
        if named and _is_always_on(call, semantics):
            given = [*call.keywords, *(item for part in call.args for item in getattr(part, "keys", ()))]
            alone = len(given) < 2  # a default or `putenv` has neither
            fix = FixPlan(f"Remove `{_BLOCKING}`", "unsafe", lambda edit: edit.remove_statement(statement))
            yield self.found(call, _BLOCKING_MESSAGE, fixes=[fix] if alone else [])


def _is_one(value: ast.expr, semantics: Semantics) -> bool:
    """Whether a value of the environment is 1: ``"1"`` or ``str(1)``."""
    if isinstance(value, ast.Call) and builtin_called(semantics, value) == "str" and len(value.args) == 1:
        value = value.args[0]
    return semantics.literal(value) in ("1", 1)


def _statement(call: ast.Call) -> ast.Expr | None:
    holder = parent_of(call)
    return holder if isinstance(holder, ast.Expr) else None


def _is_context(call: ast.Call) -> bool:
    """Whether a call is what a `with` enters, without a name for it, or with one that nothing reads."""
    holder = parent_of(call)
    if not isinstance(holder, ast.withitem) or holder.context_expr is not call:
        return False
    function = enclosing_function(call)
    match holder.optional_vars:
        case None:
            return True
        case ast.Name(id=name) if function is not None:
            names = nodes_within(function, ast.Name)
            return not any(
                isinstance(use, ast.Name) and use.id == name and use.ctx.__class__ is ast.Load for use in names
            )
        case _:
            return False


def _removal(call: ast.Call, what: str) -> list[FixPlan]:
    statement = _statement(call)
    if statement is None:
        return []
    return [FixPlan(f"Remove {what}", "unsafe", lambda edit: edit.remove_statement(statement))]


def _switches(semantics: Semantics) -> Iterator[ast.Call]:
    for call in semantics.module.calls_of("set_detect_anomaly"):
        if semantics.literal(argument(call, 0, "mode")) is not UNKNOWN:
            yield call


def _is_always_on(node: ast.AST, semantics: Semantics) -> bool:
    """Whether a node runs without anybody's choice, and nothing around it calls itself a test or a hunt for errors."""
    holder = parent_of(node)
    while holder is not None:
        match holder:
            case ast.If(test=test) if not _is_main_guard(test):
                return False
            case ast.IfExp() | ast.ExceptHandler() | ast.While() | ast.BoolOp() | ast.Lambda():
                return False
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if _PURPOSE.search(name):
                    return False
        holder = parent_of(holder)
    function, owner = enclosing_function(node), enclosing_class(node)
    if owner is not None and _PURPOSE.search(owner.name):
        return False
    if function is not None and any(isinstance(item, ast.Yield) for item in ast.walk(function)):
        return False  # a context manager of the project, entered where somebody chooses
    return not any(
        imported in _TEST_MODULES or imported.partition(".")[0] in _TEST_MODULES
        for _, imported in semantics.module.names_imported()
    )


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
