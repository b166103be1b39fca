"""Attention written out by hand: ``softmax(q @ k.transpose(-2, -1) / sqrt(d)) @ v``, followed backwards from its end.

The value is followed through names that are used for nothing else, so that nobody else sees the weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field

from torchlint.frozen import dataclass
from torchlint.idioms.values.einsum import Equation, equation_of
from torchlint.idioms.values.formulas import same
from torchlint.semantics.literals import literal_of
from torchlint.semantics.nodes import argument, enclosing_function, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import Binding, Definition, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_PRODUCTS = ("torch.matmul", "torch.bmm")
_SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax")
_MASKING = ("masked_fill", "masked_fill_")
#: What a score becomes where there must be no weight: at most this.
_NO_WEIGHT = -1e4
_MOST_STEPS = 12


@dataclass(frozen=True, eq=False)
class Masking:
    """``node`` is added to the scores, or says where they are filled (``fills``); ``optional``: only if it is not None,
    as ``branch`` says."""

    node: ast.expr
    fills: bool
    branch: ast.If | None = None


@dataclass(frozen=True, eq=False)
class Scaling:
    """What the scores are multiplied with, or divided by."""

    node: ast.expr
    divides: bool


@dataclass(eq=False)
class Attention:
    """One attention. ``key`` is the key before it is transposed. ``plain``: the parts are laid out as
    ``scaled_dot_product_attention`` takes them. ``statements`` hold the steps before the last one."""

    product: ast.expr
    value: ast.expr
    softmax: ast.Call
    query: ast.expr | None = None
    key: ast.expr | None = None
    scores: ast.expr | None = None
    scaling: Scaling | None = None
    masking: Masking | None = None
    dropout: ast.Call | None = None
    plain: bool = True
    statements: list[ast.stmt] = field(default_factory=list)


def product_of(semantics: Semantics, node: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """The two factors of a matrix product, however it is written."""
    match node:
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            return left, right
        case ast.Call() if semantics.is_named(node.func, *_PRODUCTS) and not has_unknown_arguments(node):
            one, other = argument(node, 0, "input"), argument(node, 1, "other")
            other = other or argument(node, None, "mat2")
            return (one, other) if one is not None and other is not None and len(node.args) <= 2 else None
        case ast.Call(func=ast.Attribute(value=one, attr="matmul" | "bmm"), args=[other], keywords=[]):
            return (one, other) if not semantics.names(node.func) else None
    return None


def attention_at(semantics: Semantics, node: ast.expr) -> Attention | None:
    """The attention whose last step is ``node``, the product of the weights and the values."""
    return _Follower(semantics).attention(node)


class _Follower:
    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._statements: list[ast.stmt] = []
        self._branch: ast.If | None = None
        #: The numbers of the last axis: two as well for the three axes that ``bmm`` takes.
        self._last_axes: tuple[int, ...] = (-1,)
        #: Uses that two definitions reach, of which one stands in the branch.
        self._joined: list[ast.Name] = []

    def attention(self, node: ast.expr) -> Attention | None:
        factors = product_of(self._semantics, node)
        equation = None
        if isinstance(node, ast.Call) and last_name(node.func) == "bmm":
            self._last_axes = (-1, 2)
        if factors is None:
            equation = equation_of(self._semantics, node)
            if equation is None:
                return None
            factors = equation.first, equation.second
        weights = self._value(factors[0])
        dropout = None
        if weights is not None and self._is_dropout(weights):
            assert isinstance(weights, ast.Call)
            dropout, weights = weights, self._value(weights.args[0])
        softmax = weights if isinstance(weights, ast.Call) else None
        scores = self._softmaxed(softmax) if softmax is not None else None
        if softmax is None or scores is None:
            return None
        found = Attention(node, factors[1], softmax, dropout=dropout)
        if not self._scores(found, scores) or not _fit(equation, equation_of(self._semantics, found.scores), found):
            return None
        found.statements = self._statements
        return found

    # -- steps ------------------------------------------------------------------------------------------------------

    def _value(self, expression: ast.expr) -> ast.expr | None:
        """The value of a name that is bound once and used here alone; anything else is its own value."""
        if not isinstance(expression, ast.Name):
            return expression
        definitions = self._semantics.definitions(expression)
        if len(definitions) == 2:
            return self._optional(expression, definitions)
        if len(definitions) != 1 or not _is_plain(definitions[0]):
            return None
        (definition,) = definitions
        if [use for use in self._uses(definition) if use not in self._joined] != [expression]:
            return None
        assert isinstance(definition.node, ast.stmt)
        self._statements.append(definition.node)
        return definition.value

    def _optional(self, name: ast.Name, definitions: Iterable[Definition]) -> ast.expr | None:
        """``if mask is not None: scores = scores.masked_fill(...)``: the value in the branch, which is remembered."""
        for inner in definitions:
            holder = parent_of(inner.node)
            if not isinstance(holder, ast.If) or holder.body != [inner.node] or holder.orelse or self._branch:
                continue
            if _is_plain(inner) and self._uses(inner) == [name] and inner.value is not None:
                self._branch = holder
                self._joined.append(name)
                self._statements.append(holder)
                return inner.value
        return None

    def _uses(self, definition: Definition) -> list[ast.Name]:
        function = enclosing_function(definition.node)
        if function is None:
            return []
        return [
            node
            for node in nodes_within(function, ast.Name)
            if isinstance(node, ast.Name)
            and node.id == definition.name
            and isinstance(node.ctx, ast.Load)
            and definition in self._semantics.definitions(node)
        ]

    def _is_dropout(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or not node.args or has_unknown_arguments(node):
            return False
        if self._semantics.is_named(node.func, "torch.nn.functional.dropout"):
            return True
        kind = self._semantics.kind(node.func)
        return kind is not None and kind.origin == "torch.nn.Dropout" and kind.class_node is None

    def _softmaxed(self, call: ast.Call) -> ast.expr | None:
        """What a softmax over the last axis is applied to."""
        semantics = self._semantics
        if has_unknown_arguments(call):
            return None
        if semantics.is_named(call.func, *_SOFTMAX):
            given, axis = argument(call, 0, "input"), argument(call, 1, "dim")
            extra = len(call.args) + len(call.keywords) > 2
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "softmax" and not semantics.names(call.func):
            given, axis = call.func.value, argument(call, 0, "dim")
            extra = len(call.args) + len(call.keywords) > 1
            if semantics.class_of_self(given) is not None:
                given, axis, extra = self._softmax_layer(call)
        else:
            given, axis, extra = self._softmax_layer(call)
        return given if given is not None and not extra and literal_of(axis) in self._last_axes else None

    def _softmax_layer(self, call: ast.Call) -> tuple[ast.expr | None, ast.expr | None, bool]:
        kind = self._semantics.kind(call.func)
        if kind is None or kind.origin != "torch.nn.Softmax" or not isinstance(kind.node, ast.Call):
            return None, None, True
        return argument(call, 0, "input"), argument(kind.node, 0, "dim"), len(call.args) != 1

    def _scores(self, found: Attention, expression: ast.expr) -> bool:
        """Take masks and scales off the scores until the product of query and key is left."""
        for _ in range(_MOST_STEPS):
            before = self._branch
            value = self._value(expression)
            if value is None:
                return False
            branch = self._branch if self._branch is not before else None
            factors = product_of(self._semantics, value)
            equation = equation_of(self._semantics, value) if factors is None else None
            if equation is not None:
                found.query, found.key, found.scores = equation.first, equation.second, value
                return branch is None
            if factors is not None and branch is None:
                found.query, found.scores = factors[0], value
                found.key = self._transposed(factors[1])
                return found.key is not None
            rest = self._without_mask(found, value, branch) or (
                self._without_scale(found, value) if branch is None else None
            )
            if rest is None:
                return False
            expression = rest
        return False

    def _without_mask(self, found: Attention, value: ast.expr, branch: ast.If | None) -> ast.expr | None:
        if found.masking is not None or found.scaling is not None:
            return None
        semantics = self._semantics
        match value:
            case ast.Call(func=ast.Attribute(value=scores, attr=attr)) if attr in _MASKING:
                if semantics.names(value.func):
                    scores, place = argument(value, 0, "input") or scores, 1
                else:
                    place = 0
                mask, filled = argument(value, place, "mask"), argument(value, place + 1, "value")
                if mask is None or not _is_no_weight(semantics, filled):
                    return None
                found.masking = Masking(mask, True, branch)
                return scores
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                scores, mask = (left, right) if self._leads_to_product(left) else (right, left)
                if not self._leads_to_product(scores):
                    return None
                found.masking = Masking(mask, False, branch)
                return scores
        return None

    def _without_scale(self, found: Attention, value: ast.expr) -> ast.expr | None:
        if found.scaling is not None:
            return None
        match value:
            case ast.BinOp(op=ast.Div(), left=scores, right=factor):
                found.scaling = Scaling(factor, True)
                return scores
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                scores, factor = (left, right) if self._leads_to_product(left) else (right, left)
                found.scaling = Scaling(factor, False)
                return scores if self._leads_to_product(scores) else None
            case ast.Call(func=ast.Attribute(value=scores, attr="div" | "mul" as attr), args=[factor], keywords=[]):
                if self._semantics.names(value.func):
                    return None
                found.scaling = Scaling(factor, attr == "div")
                return scores
        return None

    def _leads_to_product(self, expression: ast.expr) -> bool:
        """Whether one side of a sum or product is the scores: looked up without being noted as followed."""
        value: ast.expr | None = expression
        for _ in range(_MOST_STEPS):
            value = self._semantics.value_of(value)
            if value is None:
                return False
            if product_of(self._semantics, value) is not None or equation_of(self._semantics, value) is not None:
                return True
            match value:
                case ast.BinOp(op=ast.Div() | ast.Add(), left=left):
                    value = left
                case ast.BinOp(op=ast.Mult(), left=left, right=right):
                    value = left if self._leads_to_product(left) else right
                case ast.Call(func=ast.Attribute(value=receiver, attr="div" | "mul")):
                    value = receiver
                case _:
                    return False
        return False

    def _transposed(self, expression: ast.expr) -> ast.expr | None:
        """The key whose last two axes are exchanged here, or None."""
        value: ast.expr | None = expression
        if isinstance(expression, ast.Name):
            definitions = self._semantics.definitions(expression)
            if len(definitions) == 1 and _is_plain(definitions[0]):
                value = definitions[0].value
                statement = definitions[0].node
                if self._uses(definitions[0]) == [expression] and isinstance(statement, ast.stmt):
                    self._statements.append(statement)
        return _exchanges_last_axes(self._semantics, value)


def _exchanges_last_axes(semantics: Semantics, value: ast.expr | None) -> ast.expr | None:
    """The tensor whose last two axes are exchanged by an expression."""
    match value:
        case ast.Attribute(value=key, attr="mT" | "T"):
            return key
        case ast.Call(func=ast.Attribute(value=key, attr="t"), args=[], keywords=[]):
            return key
        case ast.Call(func=ast.Attribute(value=key, attr=attr), args=axes, keywords=[]):
            if semantics.is_named(value.func, "torch.transpose") and len(axes) == 3:
                key, axes, attr = axes[0], axes[1:], "transpose"
            elif semantics.names(value.func):
                return None
            places = [literal_of(axis) for axis in axes]
            if attr in ("transpose", "swapaxes", "swapdims") and len(places) == 2:
                return key if set(places) in ({-1, -2}, {2, 3}, {1, 2}) else None
            if attr == "permute" and places in ([0, 2, 1], [0, 1, 3, 2]):
                return key
    return None


def _is_plain(definition: Definition) -> bool:
    """``name = value`` in a statement of its own."""
    if definition.kind is not Binding.ASSIGNMENT or definition.path or definition.value is None:
        return False
    statement = definition.node
    return (isinstance(statement, ast.Assign) and len(statement.targets) == 1) or isinstance(statement, ast.AnnAssign)


def _is_no_weight(semantics: Semantics, value: ast.expr | None) -> bool:
    """Whether a number is so small that its exponential is nothing."""
    number = semantics.literal(value) if value is not None else None
    if isinstance(number, int | float):
        return number <= _NO_WEIGHT
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.lower() in ("-inf", "-infinity")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            if semantics.is_named(operand, "math.inf", "numpy.inf", "torch.inf"):
                return True
            return isinstance(operand, ast.Call) and ast.unparse(operand) in ("float('inf')", "float('infinity')")
        case ast.Attribute(value=ast.Call(func=function), attr="min"):
            return semantics.is_named(function, "torch.finfo")
    return False


def _fit(last: Equation | None, scores: Equation | None, found: Attention) -> bool:
    """Whether the two products are those of an attention: of products that are written as such they are."""
    if last is None and scores is None:
        return True
    if last is None or scores is None:
        return False
    (query, key), weights = scores.inputs, scores.output
    (used, values), output = last.inputs, last.output
    if len(weights) < 2 or used[-1:] not in values or len(used) != len(weights):
        return False
    renamed = dict(zip(used, weights, strict=True))  # the second equation may have letters of its own
    row, column = weights[-2], weights[-1]
    summed = set(query) & set(key) - set(weights)
    batch = set(weights) - {row, column}
    fits = (
        len(summed) == 1
        and row in query
        and row not in key
        and column in key
        and column not in query
        and batch <= set(query) | {"."}
        and batch <= set(key) | {"."}
        and used[-1] in values
        and used[-1] not in output
        and used[-2] in output
        and used[-2] not in values
        and {renamed.get(letter, letter) for letter in values} >= batch
    )
    width = next(iter(summed)) if summed else ""
    standard = weights[:-2]
    found.plain = (
        fits
        and query == standard + row + width
        and key == standard + column + width
        and values[:-2] == used[:-2]
        and values[-2] == used[-1]
        and output == used[:-1] + values[-1]
    )
    return fits


def is_query_width(expression: ast.expr, attention: Attention) -> bool:
    """Whether an expression is the size of the last axis of query or key: ``q.size(-1)``, ``k.shape[-1]``."""
    match expression:
        case ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[axis], keywords=[]):
            pass
        case ast.Subscript(value=ast.Attribute(value=tensor, attr="shape"), slice=axis):
            pass
        case _:
            return False
    owners = [owner for owner in (attention.query, attention.key) if owner is not None]
    return literal_of(axis) == -1 and any(same(tensor, owner) for owner in owners)
