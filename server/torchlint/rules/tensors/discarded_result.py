from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.data.loaded_batches import loaded_element
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_node
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of
from torchlint.torch_api import TensorMethod, signature_of, tensor_method

#: Functions that people call without using the result, to warm up or to measure.
_HEAVY = frozenset(
    "matmul mm bmm mv addmm baddbmm addbmm dot svd qr cholesky lu inverse det conv1d conv2d stft".split()
)
#: Calls that tell that a function measures time.
_CLOCKS = frozenset(
    "synchronize perf_counter perf_counter_ns time timeit elapsed_time process_time Timer do_bench".split()
)


class DiscardedResult(Rule):
    """## What it does

    Reports a statement that computes a new tensor and throws it away: `x.to(device)`, `x.detach()`, `x.squeeze(1)`,
    `torch.clamp(x, 0, 1)`.

    ## Why is this bad?

    Methods of tensors without a trailing underscore never change the tensor. `x.to(device)` leaves `x` where it is, and
    `x.detach()` leaves it in the graph. Only modules are moved in place.

    ## Example

    ```python
    import torch


    def evaluate(model: torch.nn.Module, images: torch.Tensor):
        images.to("cuda")
        return model(images)
    ```

    ## Use instead

    ```python
    import torch


    def evaluate(model: torch.nn.Module, images: torch.Tensor):
        images = images.to("cuda")
        return model(images)
    ```

    ## Exceptions

    Modules, and other objects whose `to` works in place: batches of Hugging Face tokenizers and of PyG, storages.
    Only what is known to be a tensor is reported. Statements that are there to be timed or to raise (in a `try`, under
    `pytest.raises`) and the last expression of a notebook cell are left alone.

    ## References

    - [torch.Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
    """

    code = "TL401"
    name = "discarded-result"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "The new tensor is thrown away and the old one stays as it was."

    @on_node(ast.Expr)
    def check(self, statement: ast.Expr, unit: Unit) -> Iterator[Diagnosis]:
        listed = statement.value if isinstance(statement.value, ast.ListComp) else None
        call = listed.elt if listed is not None else statement.value
        if not isinstance(call, ast.Call):
            return
        tensor = _operand_of_method(call, unit) or _operand_of_function(call, unit)
        if tensor is None or _is_meant(statement, unit):
            return
        shown, result = _short(tensor), _short(call)
        message = f"`{result}` returns a new tensor, which is thrown away: `{shown}` stays as it was."
        if isinstance(tensor, ast.Call) and _tail(tensor.func).endswith("_"):
            message = (
                f"`.{_tail(call.func)}()` returns a new tensor, which is thrown away: only `{_tail(tensor.func)}` "
                "works in place."
            )
        target = _target(tensor, statement, unit) if listed is None else _only_source(listed)
        fixes = []
        if isinstance(target, ast.Name | str) or (isinstance(target, ast.Attribute) and target.attr != "data"):
            written = target if isinstance(target, str) else ast.unparse(target)
            fixes = [
                FixPlan(
                    f"Assign the result to `{written}`",
                    "unsafe",
                    lambda edit: edit.insert_before(statement.value, f"{written} = "),
                )
            ]
        yield self.found(call, message, fixes=fixes)


def _target(tensor: ast.expr, statement: ast.Expr, unit: Unit) -> ast.expr | str | None:
    """What the result is to be assigned to: the tensor itself, but for the variable of a loop that does no more with it
    the place that it was taken from (``batch[key]`` of ``for key, value in batch.items()``; None: no such place)."""
    if not isinstance(tensor, ast.Name):
        return tensor
    definitions = unit.semantics.definitions(tensor)
    loop = definitions[0].node if len(definitions) == 1 else None
    if not isinstance(loop, ast.For):
        return tensor
    end = statement.end_lineno or statement.lineno
    names = (node for node in nodes_within(loop, ast.Name) if isinstance(node, ast.Name))
    if any(node.id == tensor.id and node.lineno > end for node in names):
        return tensor
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
            iter=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as mapping, attr="items"), args=[]),
        ) if value == tensor.id:
            return f"{ast.unparse(mapping)}[{key}]"
        case ast.For(target=ast.Name()):
            return None
        case _:
            return tensor


def _only_source(comprehension: ast.ListComp) -> ast.expr | None:
    """What a comprehension makes a new list of, if it takes all elements of one thing."""
    match comprehension.generators:
        case [ast.comprehension(iter=source, ifs=[])]:
            return source
        case _:
            return None


def _operand_of_method(call: ast.Call, unit: Unit) -> ast.expr | None:
    """The tensor whose method is called, if the method does nothing but make its result."""
    if not isinstance(call.func, ast.Attribute) or unit.semantics.names(call.func):
        return None
    facts = tensor_method(call.func.attr)
    converts = call.func.attr == "type" and bool(call.args)
    if facts is None or not (facts.discarding_is_mistake or converts):
        return None
    if any(item.arg in ("out", "inplace") for item in call.keywords):
        return None
    tensor = call.func.value
    root = tensor
    while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute) and not unit.semantics.names(root.func):
        root = root.func.value
    if not isinstance(root, ast.Name | ast.Attribute | ast.Subscript):
        return None
    kind = unit.semantics.kind(tensor)
    if kind is None and isinstance(tensor, ast.Name) and _is_reduced(tensor, unit):
        return tensor
    if kind is None or not kind.is_tensor:
        return None
    if kind.proven or _is_no_container(facts) or loaded_element(unit.semantics, tensor, any_size=True) is not None:
        return tensor
    return tensor if isinstance(tensor, ast.Name) and _is_used_as_tensor(tensor, unit) else None


def _is_reduced(name: ast.Name, unit: Unit) -> bool:
    """Whether a name is the result of a reduction that only tensors have: ``scores.max(dim=1).values``."""
    value = unit.semantics.value_of(name)
    if isinstance(value, ast.Attribute) and value.attr in ("values", "indices"):
        value = value.value
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or unit.semantics.names(value.func):
        return False
    facts = tensor_method(value.func.attr)
    axes = [unit.semantics.literal(item.value) for item in value.keywords if item.arg == "dim"]
    return facts is not None and _is_no_container(facts) and len(axes) == 1 and isinstance(axes[0], int)


def _is_used_as_tensor(name: ast.Name, unit: Unit) -> bool:
    """Whether the function calls a method on a name that only tensors have."""
    function = enclosing_function(name)
    if function is None:
        return False
    facts = (tensor_method(method) for method in unit.semantics.methods_called_on(name.id, function))
    return any(entry is not None and _is_no_container(entry) for entry in facts)


def _is_no_container(method: TensorMethod) -> bool:
    """Whether only tensors and arrays have a method of this name, no module and no other holder of tensors."""
    return set(method.also_on) <= {"ndarray"}


def _operand_of_function(call: ast.Call, unit: Unit) -> ast.expr | None:
    """The first argument of a function of torch that does the same as such a method."""
    name = unit.semantics.name(call.func)
    head, _, tail = name.rpartition(".")
    if (
        head not in ("torch", "torch.nn.functional")
        or tail in _HEAVY
        or any(item.arg == "out" for item in call.keywords)
    ):
        return None
    facts = tensor_method(tail)
    if facts is None or not facts.discarding_is_mistake:
        return None
    signature = signature_of(name)
    if signature is None or "inplace" in (*signature.positional, *signature.keyword_only):
        return None
    operand = argument(call, 0, "input")
    return operand if isinstance(operand, ast.Name | ast.Attribute) else None


def _is_meant(statement: ast.Expr, unit: Unit) -> bool:
    """Whether the statement is there for something else than its result."""
    function = enclosing_function(statement)
    if function is None and unit.in_notebook and parent_of(statement) is None:
        return True  # it may be the last of its cell, which is shown
    child: ast.AST = statement
    holder = parent_of(statement)
    while holder is not None and not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(holder, ast.Try) and child in holder.body and holder.handlers:
            return True
        if isinstance(holder, ast.With | ast.AsyncWith) and any(map(_expects_or_measures, holder.items)):
            return True
        child, holder = holder, parent_of(holder)
    return function is not None and any(
        isinstance(node, ast.Call) and _tail(node.func) in _CLOCKS for node in nodes_within(function, ast.Call)
    )


def _expects_or_measures(item: ast.withitem) -> bool:
    tail = _tail(item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr).lower()
    return any(
        word in tail for word in ("raises", "warns", "profile", "timer", "record", "suppress", "capture", "mode")
    )


def _tail(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _short(expression: ast.expr) -> str:
    text = ast.unparse(expression).replace("'", '"')
    return text if len(text) <= 60 else f"{text[:57]}..."
