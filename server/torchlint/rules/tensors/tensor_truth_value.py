from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.layer_sizes import sizes_of_layer
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.idioms.values.origins import operation_of, origin_of
from torchlint.idioms.values.several_elements import has_axes_by_use, has_axis_by_form, is_used_as_mask
from torchlint.idioms.values.tensor_sizes import Sizes, is_elementwise, sizes_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_builtin, on_node
from torchlint.semantics.element_kinds import builtin_called
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import default_of, has_unknown_arguments
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

_DEEPEST = 8
#: Layers that give a tuple, which is true.
_GIVE_TUPLES = frozenset(f"torch.nn.{name}" for name in "RNN LSTM GRU LSTMCell MultiheadAttention".split())
_PLAIN_TYPES = frozenset({"int", "float", "bool", "str"})
_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

_COUNTS = frozenset("size dim numel item tolist".split())
#: Builtins whose answer is no tensor.
_ANSWERS = frozenset("isinstance issubclass hasattr callable len any all bool int float str type".split())


class TensorTruthValue(Rule):
    """## What it does

    Reports what asks a tensor of several elements whether it is true: chained comparisons (`0 < x < 1`), `and`, `or`,
    `not`, a comparison as a condition (`if x > 0:`), and Python's `max` and `min`.

    ## Why is this bad?

    Python turns the comparison into one truth value before it goes on, and a tensor with more than one element has
    none: the code raises. `&`, `|`, `~` and the functions of torch work element by element.

    ## Example

    ```python
    import torch

    x = torch.randn(10)
    inside = 0 < x < 1
    ```

    ## Use instead

    ```python
    import torch

    x = torch.randn(10)
    inside = (0 < x) & (x < 1)
    ```

    ## Exceptions

    Tensors with one element or without dimensions, such as a loss. `max(x)` and `min(x)` of a tensor with one
    dimension compare numbers, which works. Only tensors whose dimensions the code shows are reported.

    ## References

    - [torch.logical_and](https://docs.pytorch.org/docs/stable/generated/torch.logical_and.html)
    """

    code = "TL412"
    name = "tensor-truth-value"
    level = Level.WARNING
    summary = "A tensor with more than one element is neither true nor false: this raises."

    @on_node(ast.Compare)
    def check_comparison(self, comparison: ast.Compare, unit: Unit) -> Iterator[Diagnosis]:
        if len(comparison.ops) == 1:
            if _is_tested(comparison):
                yield from self._check_condition(comparison, unit)
            return
        if any(isinstance(operation, _IDENTITY) for operation in comparison.ops):
            return
        sides = [comparison.left, *comparison.comparators]
        # Every comparison but the last is asked whether it is true.
        several = next((side for side in sides[:-1] if _has_several(unit.semantics, side)), None)
        if several is None or is_expected_to_raise(comparison):
            return
        message = (
            f"A chained comparison asks whether its first part is true, and {_named(several)} has several elements: "
            "this raises. `&` joins comparisons element by element."
        )
        yield self.found(comparison, message)

    def _check_condition(self, comparison: ast.Compare, unit: Unit) -> Iterator[Diagnosis]:
        """``if x > 0:``"""
        if not _has_several(unit.semantics, comparison):
            return
        if not is_expected_to_raise(comparison):
            message = (
                f"The condition asks whether {_named(comparison)} is true, which has several elements: this raises. "
                "`.any()` and `.all()` give one answer."
            )
            yield self.found(comparison, message)

    @on_node(ast.BoolOp)
    def check_operator(self, operation: ast.BoolOp, unit: Unit) -> Iterator[Diagnosis]:
        values = operation.values if _is_tested(operation) else operation.values[:-1]
        several = next((value for value in values if _has_several(unit.semantics, value)), None)
        if several is None and is_used_as_mask(unit.semantics, operation):
            several = next((value for value in values if _compares_tensor(unit.semantics, value)), None)
        if several is None or is_expected_to_raise(operation):
            return
        word, instead = ("and", "&") if isinstance(operation.op, ast.And) else ("or", "|")
        message = (
            f"`{word}` asks whether {_named(several)} is true, which has several elements: this raises. "
            f"`{instead}` works element by element."
        )
        yield self.found(operation, message)

    @on_node(ast.UnaryOp)
    def check_not(self, operation: ast.UnaryOp, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(operation.op, ast.Not) or not _has_several(unit.semantics, operation.operand):
            return
        if not is_expected_to_raise(operation):
            message = (
                f"`not` asks whether {_named(operation.operand)} is true, which has several elements: this raises. "
                "`~` works element by element."
            )
            yield self.found(operation, message)

    @on_builtin("max", "min")
    def check_extreme(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not isinstance(call.func, ast.Name) or call.keywords:
            return
        if has_unknown_arguments(call) or builtin_called(unit.semantics, call) is None:
            return
        several: ast.expr | None = None
        if len(call.args) == 1:
            sizes = sizes_of(unit.semantics, call.args[0]) if _is_tensor(unit.semantics, call.args[0]) else None
            if sizes is not None and len(sizes) > 1 and sizes[0] != 1 and _are_several(sizes[1:]):
                several = call.args[0]
        else:
            several = next((item for item in call.args if _has_several(unit.semantics, item)), None)
        if several is None or is_expected_to_raise(call):
            return
        name = call.func.id
        instead = f"`torch.{name}`" if len(call.args) == 1 else f"`torch.{name}imum` or `clamp`"
        message = (
            f"Python's `{name}` asks whether one value is above the other, and for {_named(several)} the answer has "
            f"several elements: this raises. {instead} compares elements."
        )
        yield self.found(call, message)


def _is_tested(operation: ast.expr) -> bool:
    """Whether the value of an operator is itself asked whether it is true."""
    holder = parent_of(operation)
    return isinstance(holder, ast.If | ast.While | ast.IfExp | ast.Assert) and holder.test is operation


def _is_tensor(semantics: Semantics, expression: ast.expr) -> bool:
    kind = semantics.kind(expression)
    return kind is None or kind.is_tensor


def _compares_tensor(semantics: Semantics, expression: ast.expr) -> bool:
    """Whether a value is an answer for each element: a comparison of a tensor, or several that are joined."""
    match expression:
        case ast.Compare(ops=[operator]) if not isinstance(operator, _IDENTITY):
            kind = semantics.kind(expression)
            return kind is not None and kind.is_tensor
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _compares_tensor(semantics, left) or _compares_tensor(semantics, right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _compares_tensor(semantics, operand)
        case _:
            return False


def _has_several(semantics: Semantics, expression: ast.expr, depth: int = 0) -> bool:
    """Whether a value is certainly a tensor with dimensions that are not all of length one."""
    if not _may_be_tensor(semantics, expression):
        return False
    sizes = sizes_of(semantics, expression)
    if sizes is not None:
        return _are_several(sizes) and _is_tensor(semantics, expression)
    if depth > _DEEPEST:
        return False
    value = origin_of(semantics, expression)
    if value is not None and has_axis_by_form(semantics, value):
        return True
    match value:
        case ast.Name():
            return has_axes_by_use(semantics, value)
        case ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=inner):
            return _has_several(semantics, inner, depth + 1)
        case ast.Compare(left=left, comparators=[right], ops=[operator]) if not isinstance(operator, _IDENTITY):
            return any(_has_several(semantics, side, depth + 1) for side in (left, right))
        case ast.BinOp(left=left, right=right) if not isinstance(value.op, ast.MatMult):
            return any(_has_several(semantics, side, depth + 1) for side in (left, right))
        case ast.Call():
            if _is_layer_output(semantics, value):
                return True
            operation, operand = operation_of(semantics, value)
            elementwise = is_elementwise(operation, value)
            return elementwise and operand is not None and _has_several(semantics, operand, depth + 1)
        case _:
            return False


def _may_be_tensor(semantics: Semantics, expression: ast.expr | None, depth: int = 0) -> bool:
    """What the form of a value allows, and of all that its name is bound to: asked of every condition, before its
    value is followed along the paths of a function."""
    match expression:
        case ast.Compare(left=left, comparators=[right], ops=[operator]):
            if isinstance(operator, _IDENTITY) or _is_no_tensor(left) or _is_no_tensor(right):
                return False
            return depth > _DEEPEST or any(_may_be_tensor(semantics, side, depth + 1) for side in (left, right))
        case ast.Name():
            return any(_may_bind_tensor(semantics, item, depth) for item in semantics.bindings(expression))
        case ast.Call(func=ast.Name(id=called)):
            return called not in _ANSWERS
        case ast.Call(func=ast.Attribute(attr=called)):
            return not called.startswith("is_") and called not in _COUNTS
        case ast.Attribute(value=base, attr=name):
            owner = semantics.class_of_self(base)
            writes = semantics.module.attribute_writes(owner, name) if owner is not None else ()
            return not writes or any(
                depth > _DEEPEST or bool(write.path) or _may_be_tensor(semantics, write.value, depth + 1)
                for write in writes
            )
        case ast.BinOp(left=left, right=right) if depth <= _DEEPEST:
            return any(_may_be_tensor(semantics, side, depth + 1) for side in (left, right))
        case ast.Constant() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.JoinedStr() | ast.Lambda():
            return False
        case _:
            return True


def _may_bind_tensor(semantics: Semantics, binding: Definition, depth: int) -> bool:
    match binding.kind:
        case Binding.PARAMETER:
            return not _is_setting(binding.node)
        case Binding.LOOP | Binding.COMPREHENSION:
            return not _counts(binding.value, binding.path)
        case Binding.ASSIGNMENT if not binding.path and depth < _DEEPEST:
            return _may_be_tensor(semantics, binding.value, depth + 1)
        case Binding.AUGMENTED | Binding.IMPORT | Binding.CLASS | Binding.FUNCTION:
            return False
        case _:
            return True


def _is_no_tensor(expression: ast.expr) -> bool:
    """A text, None, a size or a count: what is compared with it is not a tensor with several elements either."""
    match expression:
        case ast.Constant(value=None | str()):
            return True
        case (
            ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="shape" | "ndim" | "device" | "dtype")
        ):
            return True
        case ast.Call(func=ast.Name(id="len" | "type") | ast.Attribute(attr="size" | "dim" | "numel")):
            return True
        case _:
            return False


def _is_setting(parameter: ast.AST) -> bool:
    """Whether a parameter is a number, a text or a truth value, by its annotation or its default."""
    if not isinstance(parameter, ast.arg):
        return False
    if isinstance(parameter.annotation, ast.Name):
        return parameter.annotation.id in _PLAIN_TYPES
    default = default_of(parameter)
    return isinstance(default, ast.Constant) and isinstance(default.value, bool | int | float | str)


def _counts(iterable: ast.expr | None, path: tuple[int | None, ...]) -> bool:
    """Whether a loop over this gives numbers: ``range(n)``, the first of ``enumerate(...)``."""
    match iterable:
        case ast.Call(func=ast.Name(id="range")):
            return not path
        case ast.Call(func=ast.Name(id="enumerate")):
            return path[:1] == (0,)
        case _:
            return False


def _are_several(sizes: Sizes) -> bool:
    """Whether these are the sizes of several elements; one axis of unknown length may have one or none."""
    return 0 not in sizes and (any(size is not None and size > 1 for size in sizes) or sizes.count(None) > 1)


def _is_layer_output(semantics: Semantics, call: ast.Call) -> bool:
    """Whether this is what a layer of torch gives that has more than one feature or channel."""
    kind = semantics.kind(call.func)
    if kind is None or not kind.proven or kind.what is not What.MODULE or kind.origin in _GIVE_TUPLES:
        return False
    gives = sizes_of_layer(kind, semantics).gives
    return gives is not None and gives > 1


def _named(expression: ast.expr) -> str:
    shown = ast.unparse(expression)
    return f"`{shown}`" if len(shown) <= 60 else "a tensor"
