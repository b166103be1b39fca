from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import torch_api
from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.element_types import ElementType, element_type
from torchlint.rules.base import (
    Diagnosis,
    FixKind,
    FixPlan,
    Level,
    Rule,
    on_attribute_set,
    on_call,
    on_keyword,
    on_method,
)
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class IntegerRequiresGrad(Rule):
    """## What it does

    Reports `requires_grad` on a tensor of integers or truth values: in a factory, by `requires_grad_()`, by an
    assignment, or by making it a parameter.

    ## Why is this bad?

    Only floating point and complex numbers have gradients, so the call raises. `torch.tensor([1, 2])` and
    `torch.arange(3)` hold integers because what they were given were integers.

    ## Example

    ```python
    import torch

    x = torch.tensor([1, 2, 3], requires_grad=True)
    ```

    ## Use instead

    ```python
    import torch

    x = torch.tensor([1, 2, 3], requires_grad=True, dtype=torch.float32)
    ```

    ## Exceptions

    Data whose type the code does not show, and code that expects the error.

    ## References

    - [torch.Tensor.requires_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad.html)
    """

    code = "TL411"
    name = "integer-requires-grad"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Only floating point tensors can require gradients; this raises."

    @on_keyword(lambda name: name == "requires_grad")
    def check_factory(self, keyword: ast.keyword, unit: Unit) -> Iterator[Diagnosis]:
        call = parent_of(keyword)
        if not isinstance(call, ast.Call) or unit.semantics.literal(keyword.value) is not True:
            return
        name = unit.semantics.name(call.func)
        if torch_api.factory_facts(name) is None:
            return
        found = element_type(unit.semantics, call)
        if found is None or found.differentiable or is_expected_to_raise(call):
            return
        fix = FixPlan("Give `dtype=torch.float32`", "unsafe", lambda edit: _make_float(edit, call))
        yield self.found(call, self._message(ast.unparse(call.func), found, "holds"), fixes=[fix])

    @on_call("torch.nn.Parameter")
    def check_parameter(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if has_unknown_arguments(call):
            return
        wanted = argument(call, 1, "requires_grad")
        if wanted is not None and unit.semantics.literal(wanted) is not True:
            return
        data = argument(call, 0, "data")
        yield from self._check_made(call, data, unit, "A parameter requires gradients, and")

    @on_method("requires_grad_")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        wanted = argument(call, 0, "requires_grad")
        if has_unknown_arguments(call) or (wanted is not None and unit.semantics.literal(wanted) is not True):
            return
        assert isinstance(call.func, ast.Attribute)
        yield from self._check_made(call, call.func.value, unit, "`requires_grad_()` raises:")

    @on_attribute_set(lambda name: name == "requires_grad")
    def check_assignment(self, statement: ast.Assign, unit: Unit) -> Iterator[Diagnosis]:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=tensor, attr="requires_grad") as target], value=value):
                if unit.semantics.literal(value) is True:
                    yield from self._check_made(target, tensor, unit, "This raises:")
            case _:
                return

    def _check_made(self, node: ast.AST, tensor: ast.expr | None, unit: Unit, why: str) -> Iterator[Diagnosis]:
        found = element_type(unit.semantics, tensor)
        if tensor is None or found is None or found.differentiable or is_expected_to_raise(node):
            return
        shown = ast.unparse(tensor)
        subject = f"`{shown}`" if len(shown) <= 60 else "the tensor"
        yield self.found(node, f"{why} {self._fact(subject, found)}.")

    def _message(self, subject: str, found: ElementType, verb: str) -> str:
        return f"`{subject}` {verb} {_named(found)} here, and only floating point tensors can require gradients."

    def _fact(self, subject: str, found: ElementType) -> str:
        return f"{subject} holds {_named(found)}, and only floating point tensors can require gradients"


def _named(found: ElementType) -> str:
    return "truth values" if found is ElementType.TRUTH else "integers"


def _make_float(edit: Editor, call: ast.Call) -> None:
    dtype = argument(call, None, "dtype")
    floating = edit.spell("torch.float32")
    if dtype is not None:
        edit.replace(dtype, floating)
    else:
        edit.add_keyword(call, "dtype", floating)
