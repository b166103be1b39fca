"""A ``forward`` that runs its own layers one after the other, with nothing else between than what has a layer too."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import argument, has_unknown_arguments
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.semantics import Semantics

#: Functions and the layer that does the same, with how many arguments after the input both have in the same order.
#: Compared in torch 2.13 (signatures of torch.nn.functional and torch.nn).
_LAYER_OF: dict[str, tuple[str, int]] = {
    "relu": ("ReLU", 1),
    "relu6": ("ReLU6", 1),
    "leaky_relu": ("LeakyReLU", 2),
    "elu": ("ELU", 2),
    "selu": ("SELU", 1),
    "celu": ("CELU", 2),
    "gelu": ("GELU", 0),
    "silu": ("SiLU", 1),
    "mish": ("Mish", 1),
    "hardswish": ("Hardswish", 1),
    "hardsigmoid": ("Hardsigmoid", 1),
    "softplus": ("Softplus", 2),
    "tanh": ("Tanh", 0),
    "sigmoid": ("Sigmoid", 0),
    "softmax": ("Softmax", 1),
    "log_softmax": ("LogSoftmax", 1),
    **{f"max_pool{d}d": (f"MaxPool{d}d", 4) for d in (1, 2, 3)},
    **{f"avg_pool{d}d": (f"AvgPool{d}d", 5) for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": (f"AdaptiveAvgPool{d}d", 1) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d": (f"AdaptiveMaxPool{d}d", 1) for d in (1, 2, 3)},
    **{f"dropout{d}": (f"Dropout{d}", 1) for d in ("", "1d", "2d", "3d")},
}
_METHODS = frozenset({"relu", "sigmoid", "tanh", "softmax", "log_softmax"})
#: Arguments that a layer does not have, or that make a function return more than one tensor.
_NO_LAYER = frozenset({"return_indices", "dtype", "_stacklevel", "out"})

#: Layers that need more than one tensor, or give more than one.
_SEVERAL_INPUTS = frozenset({"Transformer", "TransformerDecoder", "TransformerDecoderLayer", "Bilinear"}) | frozenset(
    {"MultiheadAttention", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"}
)


def layer_like(name: str) -> str:
    """The layer that does what a function of torch does (``torch.nn.functional.relu``); an empty text for others."""
    head, _, tail = name.rpartition(".")
    layer = _LAYER_OF.get(tail, ("", 0))[0] if head in ("torch", "torch.nn.functional") else ""
    return f"torch.nn.{layer}" if layer else ""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a chain: the layer ``self.<layer>``, or the layer that can stand for a function.

    ``function`` is the canonical name of that layer and ``arguments`` the arguments it takes, as nodes;
    ``statement`` is the statement of ``forward`` that holds the step.
    """

    statement: ast.stmt
    layer: str = ""
    function: str = ""
    arguments: tuple[ast.expr | ast.keyword, ...] = ()
    text: str = ""


def straight_line(view: ClassView) -> tuple[Step, ...] | None:
    """The steps of the ``forward`` of a class, in order; None where it is anything else than a chain of layers."""
    forward = view.method("forward")
    if not isinstance(forward, ast.FunctionDef) or forward.decorator_list:
        return None
    arguments = forward.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if len(positional) != 2 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        return None
    chain = _Chain(view.semantics, forward, positional[1].arg)
    body = forward.body[1:] if ast.get_docstring(forward) is not None else forward.body
    for statement in body[:-1]:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if chain.add(value, statement):
                chain.current = name
            case _:
                return None
    match body[-1] if body else None:
        case ast.Return(value=ast.expr() as value) as last if chain.add(value, last):
            return tuple(chain.steps)
        case _:
            return None


class _Chain:
    """The steps found so far; ``current`` is the variable that holds what the last one gave."""

    def __init__(self, semantics: Semantics, forward: FunctionNode, current: str) -> None:
        self.steps: list[Step] = []
        self.current = current
        self._semantics = semantics
        self._self = first_parameter(forward)

    def add(self, value: ast.expr, statement: ast.stmt) -> bool:
        """Add the steps of an expression, innermost first; False if it is no chain that begins with ``current``."""
        found: list[Step] = []
        expression: ast.expr = value
        while not (isinstance(expression, ast.Name) and expression.id == self.current):
            step = self._step(expression, statement)
            if step is None:
                return False
            found.append(step[0])
            expression = step[1]
        self.steps += reversed(found)
        return True

    def _step(self, expression: ast.expr, statement: ast.stmt) -> tuple[Step, ast.expr] | None:
        """The outermost step of an expression and what it is applied to."""
        if not isinstance(expression, ast.Call) or has_unknown_arguments(expression):
            return None
        match expression:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=layer), args=[inner], keywords=[]) if (
                owner == self._self
            ):
                return Step(statement, layer=layer), inner
            case ast.Call(func=ast.Attribute(value=inner, attr="flatten"), args=given, keywords=keywords) if (
                not self._semantics.names(expression.func)
            ):
                return self._flatten(statement, given, keywords, inner)
            case ast.Call(func=ast.Attribute(value=inner, attr="view" | "reshape"), args=[first, last], keywords=[]):
                if self._is_current(inner) and is_batch_size(first, inner) and self._semantics.literal(last) == -1:
                    return Step(statement, function="torch.nn.Flatten"), inner
                return None
            case ast.Call(func=ast.Attribute(value=inner, attr=method), args=given) if (
                method in _METHODS and not self._semantics.names(expression.func)
            ):
                return self._function(method, statement, given, expression.keywords, inner)
            case ast.Call(args=[inner, *given], keywords=keywords):
                name = self._semantics.name(expression.func)
                if name == "torch.flatten":
                    return self._flatten(statement, given, keywords, inner)
                if name.startswith(("torch.nn.functional.", "torch.")):
                    return self._function(name.rpartition(".")[2], statement, given, keywords, inner)
        return None

    def _function(
        self, name: str, statement: ast.stmt, given: list[ast.expr], keywords: list[ast.keyword], inner: ast.expr
    ) -> tuple[Step, ast.expr] | None:
        layer, same = _LAYER_OF.get(name, ("", 0))
        if name.startswith("dropout"):
            given, keywords, follows = self._without_training(given, keywords)
            if not follows:
                return None
        if not layer or len(given) > same or any(item.arg in _NO_LAYER for item in keywords):
            return None
        parts: tuple[ast.expr | ast.keyword, ...] = (*given, *keywords)
        if any(self._mentions_data(part) for part in parts):
            return None
        return Step(statement, function=f"torch.nn.{layer}", arguments=parts), inner

    def _without_training(
        self, given: list[ast.expr], keywords: list[ast.keyword]
    ) -> tuple[list[ast.expr], list[ast.keyword], bool]:
        """The arguments of a dropout without ``training=self.training``, and whether that was one of them."""
        positional = given[1] if len(given) > 1 else None
        training = positional or next((item.value for item in keywords if item.arg == "training"), None)
        follows = (
            isinstance(training, ast.Attribute)
            and training.attr == "training"
            and isinstance(training.value, ast.Name)
            and training.value.id == self._self
        )
        rest = [item for item in keywords if item.arg != "training"]
        return given[:1] + given[2:], rest, follows and len(given) <= 2

    def _flatten(
        self, statement: ast.stmt, given: list[ast.expr], keywords: list[ast.keyword], inner: ast.expr
    ) -> tuple[Step, ast.expr] | None:
        """``flatten`` of a tensor begins at dimension 0, the layer at 1."""
        parts: tuple[ast.expr | ast.keyword, ...] = (*given, *keywords)
        if any(self._mentions_data(part) for part in parts):
            return None
        starts = given[:1] or [item.value for item in keywords if item.arg == "start_dim"]
        if not starts:
            return None if keywords else (Step(statement, function="torch.nn.Flatten", text="0"), inner)
        if self._semantics.literal(starts[0]) == 1 and len(parts) == 1:
            parts = ()
        return Step(statement, function="torch.nn.Flatten", arguments=parts), inner

    def _is_current(self, data: ast.expr) -> bool:
        return isinstance(data, ast.Name) and data.id == self.current

    def _mentions_data(self, part: ast.AST) -> bool:
        """Whether an argument is more than literals: it could depend on the data, or on the object's state."""
        return any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(part))


def is_batch_size(size: ast.expr, data: ast.expr) -> bool:
    """``x.size(0)``, ``x.shape[0]`` or ``len(x)`` of the variable ``data``."""
    if not isinstance(data, ast.Name):
        return False
    match size:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=0)]):
            return name == data.id
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0)):
            return name == data.id
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return name == data.id
        case _:
            return False


def takes_one_tensor(view: ClassView, name: str) -> bool:
    """Whether ``self.<name>`` is a layer that can stand in an ``nn.Sequential``: one tensor in, one out."""
    semantics = view.semantics
    kind = view.attribute_kind(name)
    if kind is None or not kind.is_module or not kind.proven or not isinstance(kind.node, ast.Call):
        return False
    if kind.class_node is not None:
        forward = semantics.find_method(kind.class_node, "forward")
        if forward is None or forward.args.vararg or len([*forward.args.posonlyargs, *forward.args.args]) != 2:
            return False
        returned = semantics.returned_values(forward)
        return bool(returned) and not any(isinstance(value, ast.Tuple | ast.Dict | ast.List) for value in returned)
    facts = torch_api.module_facts(kind.origin)
    if facts is None or argument(kind.node, None, "return_indices") is not None:
        return False
    if facts.kind == "container":
        return kind.origin == "torch.nn.Sequential"
    return facts.kind not in ("recurrent", "loss", "distance") and kind.origin.rpartition(".")[2] not in _SEVERAL_INPUTS
