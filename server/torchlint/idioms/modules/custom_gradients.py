"""Subclasses of ``torch.autograd.Function``: what their ``forward`` takes and how many gradients ``backward`` gives."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.semantics.literals import literal_of
from torchlint.semantics.scopes import Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics

#: Decorators that leave what a method takes and returns as it is written.
_PLAIN_DECORATORS = frozenset(
    (
        "staticmethod",
        "classmethod",
        "once_differentiable",
        "custom_fwd",
        "custom_bwd",
        "no_grad",
        "override",
        "disable",
        "conditional",
        "autocast",
    )
)
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Inputs:
    """How many inputs a ``forward`` takes: those without a default, and all (None where ``*args`` takes any number)."""

    required: int
    all: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Gradients:
    """What one ``return`` of a ``backward`` gives. ``values`` holds each gradient; None stands for one without a node
    of its own."""

    values: tuple[ast.expr | None, ...]
    is_list: bool = False

    @property
    def are_none(self) -> bool:
        """Whether all are ``None``: such a ``backward`` belongs to outputs without gradients, and is never run."""
        return all(isinstance(value, ast.Constant) and value.value is None for value in self.values)


def is_autograd_function(semantics: Semantics, node: ast.ClassDef) -> bool:
    """Whether a class of this file is a subclass of ``torch.autograd.Function`` and of nothing unknown."""
    return (
        bool(node.bases)
        and any(torch_api.role(name) == "autograd-function" for name in semantics.ancestors(node))
        and not semantics.has_unknown_base(node)
    )


def inputs_of(semantics: Semantics, node: ast.ClassDef) -> Inputs | None:
    """What the ``forward`` of an autograd function takes besides its context; None where that cannot be told."""
    forward = semantics.find_method(node, "forward")
    if forward is None or not is_plain(forward):
        return None
    arguments = forward.args
    if arguments.kwonlyargs or arguments.kwarg:
        return None
    has_context = semantics.find_method(node, "setup_context") is None
    positional = [*arguments.posonlyargs, *arguments.args]
    if has_context and not positional:
        return None
    count = len(positional) - (1 if has_context else 0)
    required = max(count - len(arguments.defaults), 0)
    return Inputs(required, None if arguments.vararg else count)


def gradients_of(semantics: Semantics, backward: FunctionNode, returned: ast.expr) -> Gradients | None:
    """The gradients that one returned expression of ``backward`` gives; None where their number cannot be told."""
    value = semantics.value_of(returned)
    if value is None:
        return None
    if isinstance(value, ast.List) and value is returned:
        return Gradients((), is_list=True)
    several = _elements(semantics, value, 0)
    if several is not None:
        return Gradients(tuple(several))
    is_none = isinstance(value, ast.Constant) and value.value is None
    if is_none or _is_tensor(semantics, returned, backward, 0) or _is_one_or_none(semantics, value, backward):
        return Gradients((value,))
    return None


def _is_one_or_none(semantics: Semantics, value: ast.expr, backward: FunctionNode) -> bool:
    """Whether a variable is a gradient on one way through ``backward`` and ``None`` on the other."""
    definitions = semantics.definitions(value) if isinstance(value, ast.Name) else ()
    made = [item.value for item in definitions if item.kind is Binding.ASSIGNMENT and not item.path]
    some = [one for one in made if not (isinstance(one, ast.Constant) and one.value is None)]
    if not some or len(made) < len(definitions):
        return False
    return all(one is not None and _is_tensor(semantics, one, backward, 1) for one in some)


def is_surely_tensor_or_number(semantics: Semantics, expression: ast.expr, backward: FunctionNode) -> bool:
    """Whether a gradient that ``backward`` returns is certainly not ``None``."""
    value = semantics.literal(expression)
    if isinstance(value, int | float):
        return True
    return _is_tensor(semantics, expression, backward, 0)


def is_plain(method: FunctionNode) -> bool:
    """Whether nothing changes what a method takes and returns: no decorator of unknown effect, no generator."""
    for decorator in method.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = last_name(target)
        if name not in _PLAIN_DECORATORS:
            return False
    return isinstance(method, ast.FunctionDef)


def _elements(semantics: Semantics, expression: ast.expr, depth: int) -> list[ast.expr | None] | None:
    """The elements of a tuple that is written out, also as a sum or a multiple of such."""
    if depth > _DEEPEST:
        return None
    match expression:
        case ast.Tuple(elts=elements):
            found: list[ast.expr | None] = []
            for element in elements:
                if not isinstance(element, ast.Starred):
                    found.append(element)
                    continue
                inner = _unpacked(semantics, element.value, depth + 1)
                if inner is None:
                    return None
                found += inner
            return found
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [_elements(semantics, side, depth + 1) for side in (left, right)]
            if sides[0] is None or sides[1] is None:
                return None
            return [*sides[0], *sides[1]]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _repeated(_elements(semantics, left, depth + 1), literal_of(right)) or _repeated(
                _elements(semantics, right, depth + 1), literal_of(left)
            )
        case ast.Name():
            value = semantics.value_of(expression)
            return _elements(semantics, value, depth + 1) if value is not None and value is not expression else None
        case _:
            return None


def _unpacked(semantics: Semantics, expression: ast.expr, depth: int) -> list[ast.expr | None] | None:
    match expression:
        case ast.List(elts=elements) if not any(isinstance(item, ast.Starred) for item in elements):
            return list(elements)
        case ast.BinOp(left=ast.List(elts=elements), op=ast.Mult(), right=right):
            return _repeated(list(elements), literal_of(right))
        case _:
            return _elements(semantics, expression, depth)


def _repeated(elements: list[ast.expr | None] | None, times: object) -> list[ast.expr | None] | None:
    if elements is None or not isinstance(times, int) or not 0 <= times <= 100:
        return None
    return elements * times


def _is_tensor(semantics: Semantics, expression: ast.expr, backward: FunctionNode, depth: int) -> bool:
    """Whether an expression is one tensor: an incoming gradient, or what arithmetic and tensor methods make of one."""
    if depth > _DEEPEST:
        return False
    kind = semantics.kind(expression)
    if kind is not None:
        return kind.is_tensor and (kind.proven or _comes_from_gradient(semantics, expression, backward, depth))
    return _comes_from_gradient(semantics, expression, backward, depth)


def _comes_from_gradient(semantics: Semantics, expression: ast.expr, backward: FunctionNode, depth: int) -> bool:
    match expression:
        case ast.Name():
            definitions = semantics.definitions(expression)
            if any(definition.kind is Binding.AUGMENTED for definition in definitions):  # what it was before decides
                before = semantics.bindings(expression)
                definitions = tuple(item for item in before if item.kind is not Binding.AUGMENTED)
            return bool(definitions) and all(
                (definition.kind is Binding.PARAMETER and _is_gradient(definition.node, backward))
                or (
                    definition.kind is Binding.ASSIGNMENT
                    and not definition.path
                    and definition.value is not None
                    and _is_tensor(semantics, definition.value, backward, depth + 1)
                )
                for definition in definitions
            )
        case ast.BinOp(left=left, right=right):
            return any(_is_tensor(semantics, side, backward, depth + 1) for side in (left, right))
        case ast.UnaryOp(operand=operand):
            return _is_tensor(semantics, operand, backward, depth + 1)
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)):
            facts = torch_api.tensor_method(method)
            made = facts is not None and facts.returns in ("tensor", "self") and not facts.varies_with
            return made and _is_tensor(semantics, receiver, backward, depth + 1)
        case _:
            return False


def _is_gradient(parameter: ast.AST, backward: FunctionNode) -> bool:
    """Whether a parameter of ``backward`` receives the gradient of an output: not the context, nor ``*grads``."""
    positional = [*backward.args.posonlyargs, *backward.args.args]
    return parameter in positional[1:]
