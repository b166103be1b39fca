from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.fixes.editor import Editor
from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.idioms.values.attention import Attention, Masking, Scaling, attention_at, is_query_width
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_call, on_method, on_operation
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.kinds import What
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, nodes_within, statement_of
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_NAME = "torch.nn.functional.scaled_dot_product_attention"
#: Files that name one of these choose between implementations, and keep the written-out one on purpose.
_FUSED = ("scaled_dot_product_attention", "memory_efficient_attention", "flash_attn_func", "flash_attn_varlen_func")


class ManualAttention(Rule):
    """## What it does

    Points out attention that is written as its formula, `softmax(q @ k.transpose(-2, -1) / sqrt(d)) @ v`, with weights
    that nothing else uses.

    ## Why is this bad?

    `scaled_dot_product_attention` computes the same with one fused kernel (FlashAttention or a memory-efficient one)
    that never stores the matrix of weights, whose size grows with the square of the length: less memory, and
    several times faster on long sequences.

    ## Example

    ```python
    import torch.nn.functional as F


    def attend(q, k, v):
        scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        return F.softmax(scores, dim=-1) @ v
    ```

    ## Use instead

    ```python
    import torch.nn.functional as F


    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
    ```

    The fix takes scale, mask and dropout along. It is not safe: results differ by rounding, rows whose scores are all
    masked become zeros, dropout draws other numbers, and a mask that is added needs the dtype of the query.

    ## Exceptions

    Weights that are returned, kept or changed, a softmax with a `dtype`, and files that call
    `scaled_dot_product_attention` or another fused attention already. There is no fix where scale or layout are
    not known.

    ## References

    - [scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL608"
    name = "manual-attention"
    level = Level.HINT
    fix = FixKind.UNSAFE
    summary = "`scaled_dot_product_attention` computes this without storing the matrix of weights."

    @on_operation(ast.MatMult)
    def check_operator(self, node: ast.BinOp, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(node, unit)

    @on_call("torch.matmul", "torch.bmm", "torch.einsum")
    def check_function(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        yield from self._check(call, unit)

    @on_method("matmul", "bmm")
    def check_method(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        if not unit.semantics.names(call.func):
            yield from self._check(call, unit)

    def _check(self, node: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        if unit.torch is not None and unit.torch.may_be_below("2.0"):
            return
        found = attention_at(unit.semantics, node)
        if found is None or found.scores is None or found.query is None:
            return
        if any(unit.semantics.module.mentions_call(name) for name in _FUSED):
            return
        if in_version_fallback(unit.semantics, node):
            return
        message = (
            "This is attention written out: `scaled_dot_product_attention` computes it in one kernel, without storing "
            "the weights."
        )
        related = [(found.scores, "the scores"), (found.softmax, "the weights")]
        arguments = _arguments(found, unit)
        fixes = []
        if arguments is not None and _can_be_moved(unit.semantics, found, arguments):
            fixes.append(
                FixPlan(
                    "Use `scaled_dot_product_attention`",
                    "unsafe",
                    lambda edit: _rewrite(edit, found, arguments),
                )
            )
        yield self.found(node, message, related=related, fixes=fixes)


#: A keyword argument, and how its text is made of nodes.
_Argument = tuple[str, list["ast.expr | str"]]


def _arguments(found: Attention, unit: Unit) -> list[_Argument] | None:
    """The keyword arguments that take mask, dropout and scale along; None where one of them is not known."""
    if not found.plain:
        return None
    arguments: list[_Argument] = []
    if found.masking is not None:
        mask = _mask(found.masking)
        if mask is None:
            return None
        arguments.append(("attn_mask", mask))
    if found.dropout is not None:
        probability = _dropout(found.dropout, unit.semantics)
        if probability is None:
            return None
        arguments.append(("dropout_p", probability))
    scale = _scale(found, unit)
    if scale is None:
        return None
    if scale:
        if unit.torch is not None and unit.torch.may_be_below("2.1"):
            return None
        arguments.append(("scale", scale))
    return arguments


def _mask(masking: Masking) -> list[ast.expr | str] | None:
    """The mask that says where there is attention, or what is added."""
    kept: list[ast.expr | str]
    name: ast.expr
    match masking.node:
        case _ if not masking.fills:
            kept, name = [masking.node], masking.node
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            kept, name = [left, " != ", right], left
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            kept, name = [operand], operand
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            kept, name = ["~", masking.node], masking.node
        case _:
            return None
    if masking.branch is None:
        return kept
    match masking.branch.test:
        case ast.Compare(left=tested, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            pass
        case _:
            return None
    if ast.dump(tested) != ast.dump(name):
        return None
    return [tested] if len(kept) == 1 else ["None if ", tested, " is None else ", *kept]


def _dropout(call: ast.Call, semantics: Semantics) -> list[ast.expr | str] | None:
    if semantics.is_named(call.func, "torch.nn.functional.dropout"):
        probability, training = argument(call, 1, "p"), argument(call, 2, "training")
        shown: ast.expr | str = probability if probability is not None else "0.5"
        if argument(call, 3, "inplace") is not None:
            return None
        return [shown] if training is None else [shown, " if ", training, " else 0.0"]
    function = enclosing_function(call)
    own = first_parameter(function) if function is not None else None
    match call.func:
        case ast.Attribute(value=ast.Name(id=base)) if base == own and len(call.args) == 1:
            return [call.func, f".p if {own}.training else 0.0"]
    return None


def _scale(found: Attention, unit: Unit) -> list[ast.expr | str] | None:
    """The factor of the scores; empty where it is what `scaled_dot_product_attention` takes by itself."""
    scaling = found.scaling
    if scaling is None:
        return ["1.0"]
    if _is_default_scale(scaling, found, unit.semantics):
        return []
    if not _is_number(scaling.node, unit.semantics):
        return None
    if not scaling.divides:
        return [scaling.node]
    simple = isinstance(scaling.node, ast.Call | ast.Name | ast.Attribute | ast.Constant)
    return ["1 / ", scaling.node] if simple else ["1 / (", scaling.node, ")"]


def _is_default_scale(scaling: Scaling, found: Attention, semantics: Semantics) -> bool:
    value = semantics.value_of(scaling.node)
    match value:
        case ast.BinOp(left=width, op=ast.Pow(), right=power):
            return is_query_width(width, found) and literal_of(power) == (0.5 if scaling.divides else -0.5)
        case ast.Call(args=[width]) if scaling.divides and semantics.is_named(value.func, "math.sqrt", "numpy.sqrt"):
            return is_query_width(width, found)
    return False


def _is_number(expression: ast.expr | None, semantics: Semantics, depth: int = 0) -> bool:
    """Whether a scale is certainly a number of Python."""
    if expression is None or depth > 4:
        return False
    kind = semantics.kind(expression)
    if kind is not None and (kind.is_tensor or kind.what is not What.NUMBER):
        return False
    match expression:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, semantics, depth + 1)
        case ast.Call() if semantics.is_named(expression.func, "math.sqrt", "numpy.sqrt"):
            return True
        case ast.Call(func=ast.Name(id="float" | "int")):
            return True
        case ast.BinOp(op=ast.Pow(), right=power) if isinstance(literal_of(power), float):
            return not _may_be_tensor(expression.left, semantics)
        case ast.BinOp(op=ast.Div() | ast.Mult(), left=left, right=right):
            return _is_number(left, semantics, depth + 1) and _is_number(right, semantics, depth + 1)
        case ast.Name():
            value = semantics.value_of(expression)
            return value is not expression and _is_number(value, semantics, depth + 1)
        case ast.Attribute(value=owner, attr=attribute):
            holder = semantics.class_of_self(owner)
            writes = semantics.module.attribute_writes(holder, attribute) if holder is not None else ()
            return (
                len(writes) == 1
                and not writes[0].path
                and not writes[0].augmented
                and _is_number(writes[0].value, semantics, depth + 1)
            )
    return False


def _may_be_tensor(expression: ast.expr, semantics: Semantics) -> bool:
    kind = semantics.kind(expression)
    return kind is not None and kind.is_tensor


# -- the fix --------------------------------------------------------------------------------------------------------


def _rewrite(edit: Editor, found: Attention, arguments: list[_Argument]) -> None:
    assert found.query is not None
    assert found.key is not None
    parts = [edit.source(found.query), edit.source(found.key), edit.source(found.value)]
    for name, texts in arguments:
        parts.append(f"{name}=" + "".join(part if isinstance(part, str) else edit.source(part) for part in texts))
    edit.replace(found.product, f"{edit.spell(_NAME)}({', '.join(parts)})")
    for statement in found.statements:
        edit.remove_statement(statement)


def _can_be_moved(semantics: Semantics, found: Attention, arguments: list[_Argument]) -> bool:
    """Whether query, key and the arguments mean at the last step what they mean where they stand."""
    last = statement_of(found.product)
    block = semantics.block_of(last)
    if any(step not in block or block.index(step) >= block.index(last) for step in found.statements):
        return False
    nodes = [found.query, found.key, *(node for _, parts in arguments for node in parts)]
    moved = [inner for node in nodes if isinstance(node, ast.expr) for inner in ast.walk(node)]
    names = {ast.unparse(node) for node in moved if isinstance(node, ast.Name | ast.Attribute)}
    first = min((block.index(step) for step in found.statements), default=block.index(last))
    return not any(
        ast.unparse(node) in names
        for statement in block[first : block.index(last)]
        if statement not in found.statements
        for node in nodes_within(statement, ast.Name, ast.Attribute)
        if not isinstance(getattr(node, "ctx", None), ast.Load)
    )
