from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_call, on_node, on_reference
from torchlint.semantics.kinds import What
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Methods that do their work when they are called, by what has them.
_METHODS: dict[str, tuple[What, ...]] = {
    "backward": (What.TENSOR,),
    "zero_grad": (What.OPTIMIZER, What.MODULE),
    "unscale_": (What.SCALER,),
    "step": (What.OPTIMIZER, What.SCHEDULER, What.SCALER),
    "update": (What.SCALER,),
    "eval": (What.MODULE, What.LOSS),
    "train": (What.MODULE, What.LOSS),
    "cuda": (What.MODULE, What.TENSOR, What.PARAMETER, What.LOSS),
    "cpu": (What.MODULE, What.TENSOR, What.PARAMETER, What.LOSS),
    "half": (What.MODULE, What.LOSS),
    "detach_": (What.TENSOR,),
    "requires_grad_": (What.MODULE, What.TENSOR, What.PARAMETER, What.LOSS),
    "share_memory": (What.MODULE,),
}
#: The statement `x.backward` tells enough by itself: what has such an attribute, has it to be called.
_TELLING = frozenset(("backward", "zero_grad", "unscale_", "step", "eval"))
#: Classes that are context managers once they are called.
_CONTEXTS = (
    "torch.no_grad",
    "torch.enable_grad",
    "torch.inference_mode",
    "torch.set_grad_enabled",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
    "torch.autograd.detect_anomaly",
    "torch.autograd.set_detect_anomaly",
    "torch.autograd.profiler.profile",
    "torch.profiler.profile",
)
#: Those of them that do nothing unless they are entered.
_ONLY_ENTERED = (
    "torch.no_grad",
    "torch.enable_grad",
    "torch.inference_mode",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast",
)
#: Functions without parameters that tell yes or no, or a number.
_QUESTIONS = frozenset(
    (
        "torch.cuda.is_available",
        "torch.cuda.is_bf16_supported",
        "torch.cuda.is_initialized",
        "torch.cuda.device_count",
        "torch.backends.mps.is_available",
        "torch.backends.mps.is_built",
        "torch.backends.cudnn.is_available",
        "torch.backends.cuda.is_built",
        "torch.backends.mkldnn.is_available",
        "torch.xpu.is_available",
        "torch.mps.is_available",
        "torch.accelerator.is_available",
        "torch.distributed.is_available",
        "torch.distributed.is_initialized",
        "torch.distributed.is_nccl_available",
        "torch.distributed.get_rank",
        "torch.distributed.get_world_size",
        "torch.is_grad_enabled",
        "torch.is_inference_mode_enabled",
        "torch.is_autocast_enabled",
        "torch.jit.is_scripting",
        "torch.jit.is_tracing",
        "torch.compiler.is_compiling",
    )
)
_DEVICE_COMMANDS = ("synchronize", "empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats")
#: Functions without parameters that are called for what they do.
_COMMANDS = frozenset(
    (
        *(f"torch.{device}.{name}" for device in ("cuda", "xpu", "mps", "accelerator") for name in _DEVICE_COMMANDS),
        "torch.cuda.ipc_collect",
        "torch.distributed.barrier",
        "torch.distributed.destroy_process_group",
        "torch.compiler.reset",
        "torch.seed",
    )
)


class MissingCall(Rule):
    """## What it does

    Reports a function that is named where it was meant to be called: the statements `loss.backward`,
    `optimizer.step`, `model.eval`, `torch.cuda.synchronize`; `if torch.cuda.is_available:`; `with torch.no_grad:`. And
    the statement `torch.no_grad()`, which does nothing without `with`.

    ## Why is this bad?

    The name of a method is an expression without effect: no gradient is computed, no step is taken, no mode is set, and
    nothing fails. A function is always true, so the test of `torch.cuda.is_available` passes on a machine without CUDA.

    ## Example

    ```python
    import torch


    def training_step(model, optimizer: torch.optim.Optimizer, images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward
        optimizer.step()
    ```

    ## Use instead

    ```python
    import torch


    def training_step(model, optimizer: torch.optim.Optimizer, images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## Exceptions

    A method that is passed on, stored or patched, and decorators (`@torch.no_grad` is legal since torch 2.1). The
    statement `torch.set_grad_enabled(False)` works without `with`. Objects of another kind may have plain attributes of
    these names, and are not reported.

    ## References

    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    """

    code = "TL205"
    name = "missing-call"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The name of a function does nothing: it has to be called."

    @on_node(ast.Expr)
    def check_statement(self, statement: ast.Expr, unit: Unit) -> Iterator[Diagnosis]:
        value = statement.value
        if not isinstance(value, ast.Attribute | ast.Name):
            return
        shown = ast.unparse(value)
        if unit.semantics.is_named(value, *_CONTEXTS):
            yield self.found(value, f"`{shown}` is only named: nothing is entered, so it has no effect.")
        elif isinstance(value, ast.Attribute) and (_is_method(value, unit) or _is_command(value, unit)):
            yield self._missing(value, f"`{shown}` is only named: without brackets it is not called and does nothing.")

    @on_node(ast.With, ast.AsyncWith)
    def check_context(self, statement: ast.With | ast.AsyncWith, unit: Unit) -> Iterator[Diagnosis]:
        for item in statement.items:
            if unit.semantics.is_named(item.context_expr, *_CONTEXTS):
                shown = ast.unparse(item.context_expr)
                message = f"`with {shown}:` raises: the class itself is no context manager, its call is."
                yield self._missing(item.context_expr, message)

    @on_call(*_ONLY_ENTERED)
    def check_not_entered(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if isinstance(parent_of(call), ast.Expr):
            shown = ast.unparse(call.func)
            yield self.found(call, f"`{shown}()` has no effect as a statement: enter it with `with`.")

    @on_reference(*{name.rpartition(".")[2] for name in _QUESTIONS})
    def check_question(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if _is_condition(node):
            if _is_question(node, unit) and not _is_alias(node, unit):
                shown = ast.unparse(node)
                yield self._missing(node, f"`{shown}` is not called here, and a function is always true.")
        elif isinstance(node, ast.Attribute) and _is_compared(node) and _is_question(node, unit):
            yield self._missing(node, f"`{ast.unparse(node)}` is compared without being called.")

    @on_assignment(to=(ast.Name,), of=(ast.Name, ast.Attribute))
    def check_alias(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        value, target = statement.value, statement.targets[0]
        if not isinstance(target, ast.Name) or len(statement.targets) > 1 or not _is_question(value, unit):
            return
        uses = [node for node in unit.all(ast.Name) if node.id == target.id and unit.semantics.value_of(node) is value]
        tested = [use for use in uses if _is_condition(use)]
        if tested and not any(_is_called(use) for use in uses):
            message = f"`{ast.unparse(value)}` is not called, and `{target.id}`, a function, is always true."
            yield self._missing(value, message, related=tested[0])

    def _missing(self, node: ast.expr, message: str, related: ast.expr | None = None) -> Diagnosis:
        fix = FixPlan("Call it", "unsafe", lambda edit: edit.insert_after(node, "()"))
        places = [(related, "always true")] if related is not None else []
        return self.found(node, message, related=places, fixes=[fix])


def _is_method(attribute: ast.Attribute, unit: Unit) -> bool:
    """Whether an attribute is a method that works by being called."""
    if attribute.attr not in _METHODS:
        return False
    kind = unit.semantics.kind(attribute.value)
    if kind is None:
        shown_in_notebook = unit.in_notebook and unit.kind == "module"
        return attribute.attr in _TELLING and not shown_in_notebook
    if kind.class_node is not None and unit.semantics.module.attribute_writes(kind.class_node, attribute.attr):
        return False
    return kind.what in _METHODS[attribute.attr]


def _is_command(function: ast.Attribute, unit: Unit) -> bool:
    return unit.semantics.is_named(function, *_COMMANDS)


def _is_question(test: ast.expr, unit: Unit) -> bool:
    """Whether an expression names a function that answers yes or no."""
    return isinstance(test, ast.Name | ast.Attribute) and unit.semantics.name(test) in _QUESTIONS


def _is_alias(test: ast.expr, unit: Unit) -> bool:
    """Whether a name is another name that this file gave to something (told where it is given)."""
    return isinstance(test, ast.Name) and unit.semantics.value_of(test) is not test


def _is_condition(use: ast.expr) -> bool:
    match parent_of(use):
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test is use
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case _:
            return False


def _is_compared(use: ast.expr) -> bool:
    comparison = parent_of(use)
    return isinstance(comparison, ast.Compare) and not any(
        isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn) for operator in comparison.ops
    )


def _is_called(use: ast.Name) -> bool:
    holder = parent_of(use)
    return isinstance(holder, ast.Call) and holder.func is use
