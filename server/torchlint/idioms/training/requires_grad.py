"""Values that certainly require gradients: leaves that were told to, and what is computed from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.training.grad_mode import GradMode, grad_mode_at
from torchlint.idioms.values.origins import RESHAPING, arguments_after, operation_of, origin_of
from torchlint.semantics.index import index_of
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.nodes import (
    argument,
    element_of,
    enclosing_function,
    has_unknown_arguments,
    nodes_within,
    statement_of,
)
from torchlint.semantics.scopes import Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of
from torchlint.torch_api.known import is_dtype

_DEEPEST = 8
#: Operations with a gradient whose result is one tensor. Those that some arguments turn into a pair are not here.
_DIFFERENTIABLE = RESHAPING | frozenset(
    "clone contiguous cuda cpu float double half to sum mean prod std var norm exp log log1p sqrt pow abs neg sin cos "
    "sigmoid tanh relu softmax log_softmax softplus gelu silu elu leaky_relu clamp matmul mm bmm mv dot "
    "add sub mul div square reciprocal logsumexp logsigmoid mse_loss l1_loss cross_entropy nll_loss "
    "binary_cross_entropy binary_cross_entropy_with_logits smooth_l1_loss kl_div linear normalize einsum".split()
)
#: Those that return their argument itself where there is nothing to do.
_MAYBE_SAME = frozenset("contiguous cuda cpu float double half to expand reshape flatten ravel".split())
_FREEZING = ("requires_grad_", "set_grad_enabled", "freeze")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """Why a value requires gradients: ``node`` is where it comes from, ``leaf`` whether the value is that leaf itself
    (and not computed from it); None where that depends on what an operation finds."""

    node: ast.AST
    why: str
    leaf: bool | None
    #: Whether it was made to require gradients in this function, so that gradients are certainly wanted here.
    own: bool = False


def graph_of(semantics: Semantics, expression: ast.expr | None) -> Graph | None:
    """Why a value certainly requires gradients; None where that is not shown."""
    return _Search(semantics).value(expression, 0)


class _Search:
    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        #: The forward methods that are being followed: they record as their caller does.
        self._entered: list[FunctionNode] = []
        #: The names that are being followed: one that depends on itself through a loop shows nothing.
        self._active: set[ast.Name] = set()

    def value(self, expression: ast.expr | None, depth: int) -> Graph | None:
        if expression is None or depth > _DEEPEST:
            return None
        match expression:
            case ast.Name():
                return self._name(expression, depth)
            case ast.NamedExpr(value=value):
                return self.value(value, depth + 1)
            case ast.Attribute():
                return self._attribute(expression, depth)
            case ast.BinOp(left=left, right=right):
                return self._computed(expression, [left, right], depth)
            case ast.UnaryOp(operand=operand) if not isinstance(expression.op, ast.Not):
                return self._computed(expression, [operand], depth)
            case ast.Subscript(value=value):
                kind = self._semantics.kind(value)
                return self._computed(expression, [value], depth) if kind is not None and kind.is_tensor else None
            case ast.Call() if not has_unknown_arguments(expression):
                return self._call(expression, depth)
            case _:
                return None

    # -- names and attributes ---------------------------------------------------------------------------------------

    def _name(self, name: ast.Name, depth: int) -> Graph | None:
        if name in self._active or _is_let_go(self._semantics, name):
            return None
        self._active.add(name)
        try:
            return self._defined(name, depth)
        finally:
            self._active.discard(name)

    def _defined(self, name: ast.Name, depth: int) -> Graph | None:
        definitions = self._semantics.definitions(name)
        made = [item for item in definitions if item.kind is not Binding.AUGMENTED]
        graphs: list[Graph] = []
        for definition in made:
            graph = None
            if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
                graph = self._element(definition.value, definition.path, depth + 1)
            if graph is None:
                return _told_to(self._semantics, name)
            graphs.append(graph)
        if not graphs:
            return None
        first = graphs[0]
        sure = len(made) == len(definitions) and all(graph.leaf is first.leaf for graph in graphs)
        return first if sure else replace(first, leaf=None)

    def _element(self, value: ast.expr, path: tuple[int | None, ...], depth: int) -> Graph | None:
        """An element of a literal tuple, or of what the forward of a module of this file returns."""
        if not path or not isinstance(value, ast.Call):
            return self.value(element_of(value, path), depth)
        module = self._semantics.kind(value.func)
        if module is None or not module.proven or module.class_node is None or not module.is_module:
            return None
        forward = self._semantics.find_method(module.class_node, "forward")
        return self._output(value, forward, depth, path) if forward is not None else None

    def _attribute(self, attribute: ast.Attribute, depth: int) -> Graph | None:
        """``layer.weight`` or ``self.scale``, unless something in the file freezes parameters."""
        kind = self._semantics.kind(attribute)
        if kind is None or kind.what is not What.PARAMETER:
            written = origin_of(self._semantics, attribute)
            graph = self.value(written, depth + 1) if written is not attribute else None
            return None if graph is None else replace(graph, own=False)
        if not kind.proven or kind.evidence == "annotated":
            return None
        made = kind.node
        frozen = isinstance(made, ast.Call) and argument(made, 1, "requires_grad") is not None
        if frozen or _freezes(self._semantics):
            return None
        return Graph(attribute, "it is a parameter", True)

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, depth: int) -> Graph | None:
        semantics = self._semantics
        name = semantics.name(call.func)
        if torch_api.factory_facts(name) is not None:
            wanted = argument(call, None, "requires_grad")
            asked = wanted is not None and semantics.literal(wanted) is True
            return Graph(call, "it was made with `requires_grad=True`", True, own=True) if asked else None
        if name == "torch.autograd.Variable":
            wanted = argument(call, 1, "requires_grad")
            asked = wanted is not None and semantics.literal(wanted) is True
            return Graph(call, "it was made with `requires_grad=True`", True, own=True) if asked else None
        if name == "torch.nn.Parameter":
            wanted = argument(call, 1, "requires_grad")
            asked = wanted is None or semantics.literal(wanted) is True
            return Graph(call, "it is a parameter", True, own=True) if asked else None
        operation, operand = operation_of(semantics, call)
        if operation == "requires_grad_" and operand is not None:
            wanted = argument(call, 0, "requires_grad")
            if wanted is not None and semantics.literal(wanted) is not True:
                return None
            return self.value(operand, depth + 1) or Graph(call, "it was told to by `requires_grad_()`", True, own=True)
        module = semantics.kind(call.func)
        if module is not None and module.is_module:
            return self._module(call, module, depth)
        return self._operation(call, operation, operand, depth)

    def _operation(self, call: ast.Call, operation: str, operand: ast.expr | None, depth: int) -> Graph | None:
        semantics = self._semantics
        if operand is None:
            return None
        others = arguments_after(semantics, call)
        if operation in ("max", "min"):
            return self._computed(call, [operand], depth) if not others and not call.keywords else None
        if operation in ("cat", "stack"):
            return self._computed(call, operand.elts, depth) if isinstance(operand, ast.List | ast.Tuple) else None
        if operation not in _DIFFERENTIABLE or (operation == "to" and _may_convert(semantics, call)):
            return None
        found = self._computed(call, [operand, *(() if operation in RESHAPING else others[:1])], depth)
        return replace(found, leaf=None) if found is not None and operation in _MAYBE_SAME else found

    def _module(self, call: ast.Call, module: Kind, depth: int) -> Graph | None:
        """The output of a module with parameters, or of one that is given something that requires gradients."""
        if not module.proven:
            return None
        if module.class_node is not None:
            forward = self._semantics.find_method(module.class_node, "forward")
            return self._output(call, forward, depth) if forward is not None else None
        output = self._semantics.kind(call)
        if output is None or not output.is_tensor or not output.proven:
            return None
        computed = self._computed(call, list(call.args), depth)
        if computed is not None:
            return computed
        if state_of(module, self._semantics) is not State.WEIGHTS or not _has_trainable_weights(module.origin):
            return None
        if _freezes(self._semantics) or not self._records(call, own=False):
            return None
        return Graph(call, f"it is the output of `{ast.unparse(call.func)}`, which has parameters", False)

    def _output(
        self, call: ast.Call, forward: FunctionNode, depth: int, path: tuple[int | None, ...] = ()
    ) -> Graph | None:
        """The output of a module of this file, or an element of it: what its forward returns on each path."""
        if forward in self._entered or not self._records(call, own=False):
            return None
        values = self._semantics.returned_values(forward)
        self._entered.append(forward)
        try:
            graphs = [self.value(element_of(value, path), depth + 1) for value in values]
        finally:
            self._entered.pop()
        if not graphs or any(graph is None for graph in graphs):
            return None
        return Graph(call, f"it is the output of `{ast.unparse(call.func)}`, which has parameters", False)

    # -- recording --------------------------------------------------------------------------------------------------

    def _computed(self, node: ast.expr, operands: list[ast.expr], depth: int) -> Graph | None:
        for operand in operands:
            graph = self.value(operand, depth + 1)
            if graph is not None and self._records(node, graph.own):
                return replace(graph, leaf=False)
        return None

    def _records(self, node: ast.AST, own: bool) -> bool:
        """Whether an operation is certainly recorded: gradients are not off here, and the caller cannot have switched
        them off, because the function runs a backward pass, makes what requires gradients itself, or is the program."""
        mode = grad_mode_at(self._semantics, node).mode
        if mode is GradMode.ON:
            return True
        if mode is not GradMode.AS_CALLED or self._semantics.module.mentions_call("set_grad_enabled"):
            return False
        function = enclosing_function(node)
        if own or function is None or function in self._entered:
            return True
        return any(
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
            for call in nodes_within(function, ast.Call)
        )


def _told_to(semantics: Semantics, name: ast.Name) -> Graph | None:
    """``x.requires_grad_()``, ``x.requires_grad = True`` or ``x.backward()`` before a use of ``x`` on the same path."""
    definitions = semantics.definitions(name)
    statement: ast.stmt | None = statement_of(name)
    while statement is not None:
        for earlier in reversed(_statements_before(semantics, statement)):
            subject, why, leaf = _telling(semantics, earlier)
            if subject is not None and subject.id == name.id and semantics.definitions(subject) == definitions:
                return Graph(earlier, why, leaf, own=True)
        holder = parent_of(statement)
        while holder is not None and not isinstance(holder, ast.stmt):
            holder = parent_of(holder)
        statement = None if isinstance(holder, (*_FUNCTIONS, ast.ClassDef)) else holder
    return None


def _statements_before(semantics: Semantics, statement: ast.stmt) -> Sequence[ast.stmt]:
    """The statements before one in its block; those of the program for one of the module's own."""
    block = semantics.block_of(statement)
    return block[: block.index(statement)] if statement in block else ()


def _telling(semantics: Semantics, statement: ast.stmt) -> tuple[ast.Name | None, str, bool | None]:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="requires_grad_")) as call):
            wanted = argument(call, 0, "requires_grad")
            if wanted is None or semantics.literal(wanted) is True:
                return name, "it was told to by `requires_grad_()`", True
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name() as name, attr="requires_grad")], value=ast.Constant(value=True)
        ):
            return name, "its `requires_grad` was set", True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="backward") as method)):
            if not semantics.names(method):
                return name, "`backward()` was called on it", None
    return None, "", None


def _is_let_go(semantics: Semantics, name: ast.Name) -> bool:
    """Whether something takes the graph away from a tensor of this name in place: `x.requires_grad_(False)`,
    `x.requires_grad = False`, `x.detach_()`."""
    for method in ("requires_grad_", "detach_"):
        for call in semantics.module.calls_of(method):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            wanted = argument(call, 0, "requires_grad")
            asked = method == "requires_grad_" and (wanted is None or semantics.literal(wanted) is True)
            if isinstance(receiver, ast.Name) and receiver.id == name.id and not asked:
                return True
    if not semantics.module.writes_attribute_of_others("requires_grad"):
        return False
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == "requires_grad"
        and isinstance(target.value, ast.Name)
        and target.value.id == name.id
        and semantics.literal(assignment.value) is not True
        for assignment in _assignments_around(semantics, name)
        for target in assignment.targets
    )


def _assignments_around(semantics: Semantics, name: ast.Name) -> Iterator[ast.Assign]:
    """The assignments of the function, or of the program, in which a name stands."""
    function = enclosing_function(name)
    if function is not None:
        yield from (node for node in nodes_within(function, ast.Assign) if isinstance(node, ast.Assign))
        return
    for part in semantics.module.own_code():
        yield from index_of(part).all(ast.Assign)


def _freezes(semantics: Semantics) -> bool:
    """Whether something in the file may stop parameters from requiring gradients."""
    module = semantics.module
    return (
        any(module.mentions_call(name) for name in _FREEZING)
        or module.reads_attribute("requires_grad")
        or module.writes_attribute_of_others("requires_grad")
    )


def _may_convert(semantics: Semantics, call: ast.Call) -> bool:
    """Whether ``x.to(...)`` may convert to integers, which have no gradients."""
    names = (semantics.name(item) for item in (*call.args, *(keyword.value for keyword in call.keywords)))
    return any(is_dtype(name) and not any(word in name for word in ("float", "double", "half")) for name in names)


def _has_trainable_weights(name: str) -> bool:
    """Whether instances of a class of torch keep parameters by default, and not only statistics."""
    facts = torch_api.module_facts(name)
    return facts is not None and (facts.kind == "container" or torch_api.has_parameters(name, {}) is True)
