from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.origins import operation_of, origin_of
from torchlint.idioms.values.tensor_sizes import sizes_of
from torchlint.idioms.values.whole_numbers import whole_number
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_assignment, on_method, on_node
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import has_unknown_arguments
from torchlint.semantics.scopes import Binding
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_EXPANDING = frozenset({"expand", "expand_as", "broadcast_to"})
_DEEPEST = 6
#: In-place operations that write every element by itself, and raise. Those in `_SILENT` write without an error.
_RAISING = (
    "add_ sub_ mul_ div_ pow_ copy_ clamp_ clamp_min_ clamp_max_ neg_ abs_ exp_ log_ sqrt_ relu_ sigmoid_ tanh_ "
    "round_ floor_ normal_ uniform_ bernoulli_ exponential_ random_ addcmul_ addcdiv_ scatter_ scatter_add_ index_add_ "
    "index_copy_ masked_scatter_ logical_and_ logical_or_ logical_not_"
).split()
_SILENT = "zero_ fill_ masked_fill_ index_fill_ index_put_".split()
#: What gives another view of the same memory.
_VIEWS = frozenset("transpose permute t swapaxes unsqueeze squeeze detach narrow select movedim view".split())


class WriteToExpanded(Rule):
    """## What it does

    Reports writes into a tensor that was expanded: `x[i] = v`, `x += y` and in-place methods after `expand`,
    `expand_as` or `broadcast_to`.

    ## Why is this bad?

    `expand` copies nothing: the elements along an expanded axis are one element in memory. A write to one row changes
    all of them, and the tensor that was expanded, without a word. Most in-place operations raise instead.

    ## Example

    ```python
    import torch

    mask = torch.ones(1, 10).expand(4, 10)
    mask[0] = 0
    ```

    ## Use instead

    ```python
    import torch

    mask = torch.ones(1, 10).expand(4, 10).clone()
    mask[0] = 0
    ```

    ## Exceptions

    An `expand` that changes no size: all sizes are -1, or what the axes have already. Views that only change the shape
    or the flags of the tensor (`squeeze_()`, `requires_grad_()`) write nothing.

    ## References

    - [torch.Tensor.expand](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html)
    """

    code = "TL413"
    name = "write-to-expanded"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Elements of an expanded tensor share memory: the write raises, or changes all of them."

    @on_method(*_RAISING, *_SILENT)
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        assert isinstance(call.func, ast.Attribute)
        method = call.func.attr
        effect = "raises" if method in _RAISING else "changes all elements that share it"
        yield from self._check(call, call.func.value, f"`.{method}()` {effect}", unit)

    @on_node(ast.AugAssign)
    @on_assignment(to=(ast.Subscript,))
    def check_assignment(self, statement: ast.Assign | ast.AugAssign, unit: Unit) -> Iterator[Diagnosis]:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Subscript) and not _is_key(target.slice):
                written = "writing some of them raises or changes all that share it"
                yield from self._check(target, target.value, written, unit)
            elif isinstance(statement, ast.AugAssign) and isinstance(target, ast.Name):
                yield from self._check(target, target, "writing each of them raises", unit)

    def _check(self, node: ast.expr, tensor: ast.expr, effect: str, unit: Unit) -> Iterator[Diagnosis]:
        if not unit.semantics.module.mentions_any_call(_EXPANDING):
            return
        expansion = _expansion(unit.semantics, tensor)
        if expansion is None or is_expected_to_raise(node):
            return
        shown = ast.unparse(tensor)
        subject = f"`{shown}`" if len(shown) <= 60 else "The tensor"
        message = f"{subject} is expanded, so its elements share memory: {effect}."
        fix = FixPlan(
            "Copy what was expanded with `.clone()`", "unsafe", lambda edit: edit.insert_after(expansion, ".clone()")
        )
        yield self.found(node, message, related=[(expansion, "expanded here, without a copy")], fixes=[fix])


def _is_key(index: ast.expr) -> bool:
    """Whether an index is a key of a mapping of tensors, which has an `expand` of its own."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    return isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str))


def _is_view(index: ast.expr) -> bool:
    """Whether an index is of numbers, slices and None, which give a view; other indices copy."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(item, ast.Slice) or isinstance(literal_of(item), int | None) for item in items)


def _expansion(semantics: Semantics, expression: ast.expr, depth: int = 0) -> ast.Call | None:
    """The ``expand`` whose memory an expression is a view of, on each path that leads here."""
    if depth > _DEEPEST:
        return None
    match expression:
        case ast.Name():
            return _expansion_of_name(semantics, expression, depth)
        case ast.Attribute(value=inner, attr="T" | "mT" | "data"):
            return _expansion(semantics, inner, depth + 1)
        case ast.Subscript(value=inner, slice=index) if _is_view(index):
            return _expansion(semantics, inner, depth + 1)
        case ast.Attribute():
            origin = origin_of(semantics, expression)
            return None if origin is expression or origin is None else _expansion(semantics, origin, depth + 1)
        case ast.Call():
            operation, operand = operation_of(semantics, expression)
            if operand is None:
                return None
            if operation in _EXPANDING:
                return expression if _expands(semantics, expression, operation, operand) else None
            return _expansion(semantics, operand, depth + 1) if operation in _VIEWS else None
        case _:
            return None


def _expansion_of_name(semantics: Semantics, name: ast.Name, depth: int) -> ast.Call | None:
    found: ast.Call | None = None
    for definition in semantics.definitions(name):
        if definition.kind is Binding.AUGMENTED:
            continue  # written in place: the same memory
        if definition.kind is not Binding.ASSIGNMENT or definition.path or definition.value is None:
            return None
        expansion = _expansion(semantics, definition.value, depth + 1)
        if expansion is None:
            return None
        found = found or expansion
    return found


def _expands(semantics: Semantics, call: ast.Call, operation: str, operand: ast.expr) -> bool:
    """Whether a call makes at least one axis longer, or may do nothing else."""
    if has_unknown_arguments(call):
        return False
    kind = semantics.kind(operand)
    if kind is not None and not kind.is_tensor:
        return False
    before = sizes_of(semantics, operand)
    given = call.args[1:] if semantics.names(call.func) else call.args
    if operation == "expand_as":
        after = sizes_of(semantics, given[0]) if given else None
        return after is None or before is None or before != after
    sizes = given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List) else given
    numbers = [whole_number(size, semantics) for size in sizes]
    if not numbers or all(number == -1 for number in numbers):
        return False
    if len(numbers) == 1 and numbers[0] is None:
        return _has_axis_of_one(semantics, operand)  # a whole shape, which may be the one that it has
    if before is not None and len(before) == len(numbers):
        pairs = list(zip(before, numbers, strict=True))
        if all(number in (-1, size) and size is not None for size, number in pairs if number != -1):
            return False
        return any(size in (1, None) and number != -1 for size, number in pairs)
    return True


def _has_axis_of_one(semantics: Semantics, operand: ast.expr) -> bool:
    """Whether an axis of length one was just made: ``x.unsqueeze(0)``, ``x[:, None]``, or a literal size."""
    value = origin_of(semantics, operand)
    operation, _ = operation_of(semantics, value)
    if operation == "unsqueeze":
        return True
    if isinstance(value, ast.Subscript):
        items = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        return any(isinstance(item, ast.Constant) and item.value is None for item in items)
    sizes = sizes_of(semantics, value)
    return sizes is not None and 1 in sizes
