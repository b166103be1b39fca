"""Values that certainly have no autograd graph, and the place where each lost it.

``cut_of`` follows a value through names, arithmetic, functions of torch and functions of the file, and gives up as soon
as one path may still carry a graph.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.training.grad_mode import GradMode, grad_mode_at
from torchlint.idioms.training.in_place import changes_in_place
from torchlint.regex import regex
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, has_unknown_arguments, nodes_within
from torchlint.semantics.scopes import Binding, Definition, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_DEEPEST = 12
#: Methods whose result has no graph, whatever they are called on.
CUTTING_METHODS = frozenset(
    "item detach detach_ tolist numpy argmax argmin argsort long int bool byte short isnan isinf isfinite nonzero "
    "count_nonzero new_zeros new_ones new_full new_tensor new_empty multinomial bincount histc".split()
)
#: Functions whose result has no graph, whatever they are given.
CUTTING_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in "argmax argmin argsort isnan isinf isfinite nonzero count_nonzero eq ne gt lt ge le logical_not "
    "logical_and logical_or isclose multinomial bernoulli bincount histc from_numpy searchsorted bucketize".split()
)
#: Functions that make tensors of nothing, or of values that are copied without their graph.
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in "zeros ones full empty rand randn randint randperm arange linspace logspace eye normal zeros_like "
    "ones_like full_like empty_like rand_like randn_like randint_like tensor".split()
)
_COPIES = frozenset(
    ("torch.tensor", "torch.Tensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.cuda.FloatTensor")
)
_WRAPS = frozenset(("torch.autograd.Variable", "torch.autograd.variable.Variable"))
#: Functions of torch that give (values, indices).
_WITH_INDICES = frozenset("max min topk sort median mode kthvalue cummax cummin".split())
#: What losses are called of which nothing is known.
_OBJECTIVE = regex(r"^_?(criterion|loss|loss_?fn|loss_func(tion)?|objective)$", re.IGNORECASE)
#: Losses whose targets are classes, in which nobody wants gradients.
_OF_CLASSES = regex(r"\.(CrossEntropyLoss|NLLLoss|MultiMarginLoss|cross_entropy|nll_loss|multi_margin_loss)$")
#: Methods whose arguments say what form the tensor takes: nothing of theirs is in the result.
_FORMS = frozenset(
    "to type type_as view view_as reshape reshape_as expand expand_as repeat squeeze unsqueeze permute transpose "
    "flatten unflatten cuda cpu float double half narrow select".split()
)
#: Methods of a tensor after which it may require gradients.
_REQUIRING = frozenset(("requires_grad_", "requires_grad"))


@dataclass(frozen=True, eq=False, slots=True)
class Cut:
    """Where a value lost its graph, in words ("`.item()` gives a number"); without words it never had one."""

    node: ast.AST
    how: str = ""


def cut_of(semantics: Semantics, expression: ast.expr, targets_are_data: bool = False) -> Cut | None:
    """The place where a value lost its graph; None if it may have one, or may require gradients itself.

    ``targets_are_data``: a parameter that a loss is given as its target has no graph, whatever loss it is.
    """
    return _Follower(semantics, targets_are_data).value(expression, ())


class _Follower:
    def __init__(self, semantics: Semantics, targets_are_data: bool) -> None:
        self._semantics = semantics
        self._targets_are_data = targets_are_data
        self._active: list[ast.AST] = []
        #: Whether what is looked at is compared with a prediction: an element of a training loop is data then, and
        #: (2) a parameter, too.
        self._compared = 0

    def value(self, expression: ast.expr, path: tuple[int | None, ...]) -> Cut | None:
        if expression in self._active or len(self._active) > _DEEPEST:
            return None
        self._active.append(expression)
        try:
            return self._value(expression, path)
        finally:
            self._active.pop()

    def _value(self, expression: ast.expr, path: tuple[int | None, ...]) -> Cut | None:
        match expression:
            case ast.Name():
                return self._name(expression, path)
            case ast.NamedExpr(value=value):
                return self.value(value, path)
            case ast.Constant():
                return Cut(expression)
            case ast.Attribute():
                return self._attribute(expression, path)
            case ast.Compare():
                return Cut(expression, "a comparison has no gradient")
            case ast.UnaryOp(operand=operand):
                return self.value(operand, path)
            case ast.BinOp(left=left, right=right, op=operation):
                cut = self._under_no_grad(expression) or self._all((left, right))
                return cut if cut is not None or not isinstance(operation, ast.Sub) else self._difference(left, right)
            case ast.IfExp(body=body, orelse=orelse):
                return self._all((body, orelse), path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if path and path[0] is not None and -len(elements) <= path[0] < len(elements):
                    return self.value(elements[path[0]], path[1:])
                return self._all(elements) if not path and elements else None
            case ast.Subscript(value=value, slice=index):
                place = index.value if isinstance(index, ast.Constant) else None
                if isinstance(place, int) and self._is_indices(value, (place,)):
                    return Cut(expression, "the indices of a maximum have no gradient")
                return self.value(value, path)
            case ast.Call():
                return self._call(expression, path)
            case _:
                return None

    def _all(self, expressions: Iterable[ast.expr], path: tuple[int | None, ...] = ()) -> Cut | None:
        """The first cut with words, if all the values are cut."""
        found: list[Cut] = []
        for expression in expressions:
            cut = self.value(expression.value if isinstance(expression, ast.Starred) else expression, path)
            if cut is None:
                return None
            found.append(cut)
        return next((cut for cut in found if cut.how), found[0] if found else None)

    # -- names ------------------------------------------------------------------------------------------------------

    def _name(self, name: ast.Name, path: tuple[int | None, ...]) -> Cut | None:
        definitions = self._semantics.definitions(name)
        if not definitions or changes_in_place(self._semantics, name):
            return None
        found = [self._definition(definition, path) for definition in definitions]
        if None in found:
            return None
        return next((cut for cut in found if cut is not None and cut.how), found[0])

    def _definition(self, definition: Definition, path: tuple[int | None, ...]) -> Cut | None:
        if definition.kind is Binding.ASSIGNMENT and definition.value is not None:
            if None in definition.path:
                return None
            if self._is_indices(definition.value, definition.path):
                return Cut(definition.node, "the indices of a maximum have no gradient")
            return self.value(definition.value, (*definition.path, *path))
        if definition.kind is Binding.LOOP and isinstance(definition.value, ast.expr):
            source = self._semantics.kind(_iterated(definition.value))
            if source is not None and source.what is What.LOADER:
                return Cut(definition.node)
            if self._compared and source is None and _is_of_training_loop(definition):
                return Cut(definition.node)
        if definition.kind is Binding.PARAMETER and self._compared > 1:
            return Cut(definition.node)
        return None

    def _is_indices(self, value: ast.expr, path: tuple[int | None, ...]) -> bool:
        if path[:1] != (1,) or not isinstance(value, ast.Call):
            return False
        name = self._semantics.name(value.func)
        last = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        of_torch = name.startswith("torch.") and name[6:] in _WITH_INDICES
        of_tensor = not name and last in _WITH_INDICES and self._is_tensor(value.func)
        return (of_torch and len(value.args) + len(value.keywords) > 1) or of_tensor

    def _is_tensor(self, function: ast.expr) -> bool:
        kind = self._semantics.kind(function.value) if isinstance(function, ast.Attribute) else None
        return kind is not None and kind.is_tensor

    def _attribute(self, expression: ast.Attribute, path: tuple[int | None, ...]) -> Cut | None:
        kind = self._semantics.kind(expression.value)
        if expression.attr == "data" and kind is not None and kind.is_tensor:
            return Cut(expression, "`.data` has no graph")
        if expression.attr in ("shape", "ndim") and kind is not None and kind.is_tensor:
            return Cut(expression)
        if expression.attr in ("T", "mT", "real") and kind is not None and kind.is_tensor:
            return self.value(expression.value, path)
        if self._semantics.name(expression) in ("math.pi", "numpy.pi", "torch.pi"):
            return Cut(expression)
        return None

    # -- calls ------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, path: tuple[int | None, ...]) -> Cut | None:
        semantics = self._semantics
        if _asks_for_gradients(call):
            return None
        names = semantics.names(call.func)
        if names:
            name = semantics.name(call.func)
            if name.startswith("."):
                function = semantics.local_function(call.func)
                return self._returned(function, call, path) if function is not None else None
            return self._of_torch(name, call) if name.startswith("torch.") else None
        if isinstance(call.func, ast.Name) and not semantics.definitions(call.func):
            return Cut(call, f"`{call.func.id}()` gives a number") if call.func.id in ("float", "int", "len") else None
        if isinstance(call.func, ast.Attribute):
            cut = self._method(call, call.func, path)
            if cut is not None:
                return cut
        owner = semantics.class_of_self(call.func)
        if owner is not None and semantics.is_module_class(owner):
            return self._under_no_grad(call)  # ``self(x)``
        kind = semantics.kind(call.func)
        if kind is None and _OBJECTIVE.search(last_name(call.func)) and len(call.args) > 1:
            return self._of_objective(call)
        if kind is not None and kind.is_module:
            without = self._under_no_grad(call)
            if without is not None or kind.what is not What.LOSS or not kind.origin.startswith("torch.nn."):
                return without
            return self._given(call, kind.origin)
        return None

    def _of_torch(self, name: str, call: ast.Call) -> Cut | None:
        if name in CUTTING_FUNCTIONS:
            return Cut(call, f"`{name}` has no gradient")
        if name in _COPIES and call.args:
            copied = next(nodes_within(call.args[0], ast.Name, ast.Call), None) is not None
            return Cut(call, f"`{name}` copies the value without its graph" if copied else "")
        if name in _WRAPS:
            return Cut(call, "`Variable` gives an alias that is cut from the graph")
        if name in _FACTORIES:
            return Cut(call)
        if not torch_api.returns_tensor(name) or name == "torch.nn.Parameter":
            return None
        return self._under_no_grad(call) or self._given(call, name if torch_api.is_loss_function(name) else "")

    def _given(self, call: ast.Call, loss: str = "") -> Cut | None:
        """The cut of a result that has no graph because no argument has one; ``loss``: which loss the call is of."""
        if has_unknown_arguments(call):
            return None
        target = argument(call, 1, "target") if loss else None
        if target is None:
            return self._all([*call.args, *(item.value for item in call.keywords)])
        rest = [value for value in (*call.args, *(item.value for item in call.keywords)) if value is not target]
        cut = self._all(rest)
        if cut is None or not cut.how:
            return self._all([*rest, target])
        is_data = self._targets_are_data or _OF_CLASSES.search(loss) is not None
        return cut if self._is_data(target, 2 if is_data else 1) else None

    def _of_objective(self, call: ast.Call) -> Cut | None:
        """The cut of ``criterion(output, target)``, of which nothing is known, for a prediction that has no graph: a
        loss has no parameters."""
        without, prediction = self._under_no_grad(call), self.value(call.args[0], ())
        if prediction is None or not prediction.how or has_unknown_arguments(call):
            return None
        return without or (prediction if self._is_data(call.args[1], 1) else None)

    def _difference(self, left: ast.expr, right: ast.expr) -> Cut | None:
        """The cut of a prediction without a graph that a batch of the training loop is subtracted from."""
        for prediction, target in ((left, right), (right, left)):
            cut = self.value(prediction, ())
            if cut is not None and cut.how:
                return cut if self._is_data(target, 1) else None
        return None

    def _is_data(self, target: ast.expr, compared: int) -> bool:
        before, self._compared = self._compared, compared
        try:
            return self.value(target, ()) is not None
        finally:
            self._compared = before

    def _method(self, call: ast.Call, function: ast.Attribute, path: tuple[int | None, ...]) -> Cut | None:
        semantics, method = self._semantics, function.attr
        owner = semantics.class_of_self(function.value)
        if owner is not None:
            local = semantics.find_method(owner, method)
            return self._returned(local, call, path) if local is not None else None
        kind = semantics.kind(function.value)
        local = semantics.find_method(kind.class_node, method) if kind is not None and kind.class_node else None
        if local is not None:
            return self._returned(local, call, path)
        if method in CUTTING_METHODS:
            word = (
                " gives a number" if method == "item" else ("" if method.startswith("detach") else " has no gradient")
            )
            return Cut(call, f"`.{method}()`{word or ' cuts it from the graph'}")
        facts = torch_api.tensor_method(method)
        if facts is None or facts.returns not in ("tensor", "self") or method in _REQUIRING:
            return None
        if not self._is_tensor(function) and self.value(function.value, ()) is None:
            return None
        without = self._under_no_grad(call)
        if without is not None and facts.returns == "tensor":
            return without
        if method in _FORMS:
            return self.value(function.value, ())
        return self._all([function.value, *call.args, *(item.value for item in call.keywords)])

    def _returned(self, function: FunctionNode, call: ast.Call, path: tuple[int | None, ...]) -> Cut | None:
        """The cut of what a function of this file returns, if all it returns is cut without regard to its caller."""
        values = self._semantics.returned_values(function)
        if not values or function in self._active or _yields(function):
            return None
        self._active.append(function)
        try:
            return self._all(values, path)
        finally:
            self._active.pop()

    def _under_no_grad(self, expression: ast.expr) -> Cut | None:
        switch = grad_mode_at(self._semantics, expression)
        if switch.mode is not GradMode.OFF or switch.by is None:
            return None
        shown = ast.unparse(switch.by.func if isinstance(switch.by, ast.Call) else switch.by)
        return Cut(expression, f"it is computed under `{shown}`")


def _asks_for_gradients(call: ast.Call) -> bool:
    """Whether a call may make something that requires gradients: ``requires_grad=`` that is not ``False``."""
    return any(
        item.arg == "requires_grad" and not (isinstance(item.value, ast.Constant) and item.value.value is False)
        for item in call.keywords
    )


def _iterated(source: ast.expr) -> ast.expr:
    """The iterable inside ``enumerate`` and progress bars."""
    while isinstance(source, ast.Call) and source.args:
        name = last_name(source.func)
        if name not in ("enumerate", "tqdm", "track", "iter"):
            break
        source = source.args[0]
    return source


def _is_of_training_loop(definition: Definition) -> bool:
    """Whether a name is bound by a loop that steps an optimizer: what it goes over are batches."""
    loop: ast.AST | None = definition.node
    while loop is not None and not isinstance(loop, ast.For | ast.AsyncFor):
        loop = parent_of(loop)
    if loop is None or isinstance(_iterated(loop.iter), ast.Call):
        return False
    return any(isinstance(node, ast.Attribute) and node.attr == "step" for node in nodes_within(loop, ast.Attribute))


def _yields(function: FunctionNode) -> bool:
    return next(nodes_within(function, ast.Yield, ast.YieldFrom), None) is not None
