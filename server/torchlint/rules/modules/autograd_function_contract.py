from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.modules.custom_gradients import (
    Gradients,
    Inputs,
    gradients_of,
    inputs_of,
    is_autograd_function,
    is_plain,
    is_surely_tensor_or_number,
)
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise
from torchlint.rules.base import Diagnosis, Level, Rule, on_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import has_unknown_arguments
from torchlint.semantics.scopes import FunctionNode
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of


class AutogradFunctionContract(Rule):
    """## What it does

    Reports a subclass of `torch.autograd.Function` that is run by calling an instance (`Scale()(x)`), and a `backward`
    that does not return one gradient for each input of `forward`: too few, one too many that is not `None`, or a list.

    ## Why is this bad?

    The methods of an autograd function are static: the class is run with `Scale.apply(x)`, and calling an instance
    raises. After `backward` autograd counts the gradients: each argument that `apply` was given needs one, `None` for
    what has none (numbers, flags, shapes), or the backward pass raises "returned an incorrect number of gradients".
    Only what is behind the last input may be left out or be `None`. A list counts as one value.

    ## Example

    ```python
    import torch


    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor


    y = Scale()(torch.ones(3, requires_grad=True), 2.0)
    ```

    ## Use instead

    ```python
    import torch


    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None


    y = Scale.apply(torch.ones(3, requires_grad=True), 2.0)
    ```

    ## Exceptions

    A `backward` whose result cannot be counted (`return tuple(grads)`), or that returns nothing but `None`, as belongs
    to outputs without gradients; more `None`s than inputs, which are legal;
    inputs with a default value, unless a call of `apply` in the file gives them; functions that a class of the file
    derives from, whose `forward` may take other inputs; classes with a base that is not known
    or with a `__call__` of their own; code that expects the error.

    ## References

    - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
    """

    code = "TL127"
    name = "autograd-function-contract"
    level = Level.ERROR
    summary = "Calling an instance raises, and so does a `backward` with a wrong number of gradients."

    @on_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if not is_autograd_function(view.semantics, view.node):
            return
        yield from self._check_instances(view)
        if view.semantics.module.is_base(view.name):
            return  # a subclass may have a `forward` with other inputs
        backward = view.method("backward")
        inputs = inputs_of(view.semantics, view.node)
        if backward is not None and inputs is not None and is_plain(backward):
            yield from self._check_backward(view, backward, inputs)

    def _check_instances(self, view: ClassView) -> Iterator[Diagnosis]:
        if view.semantics.find_method(view.node, "__call__") is not None:
            return
        for call, built in _calls_of_instances(view):
            if is_expected_to_raise(call):
                continue
            related = [] if call.func is built else [(built, "the instance is made here")]
            yield self.found(
                call,
                f"`{ast.unparse(call.func)}` is an instance of `{view.name}`, and calling it raises: "
                f"run the function with `{view.name}.apply(...)`.",
                related=related,
            )

    def _check_backward(self, view: ClassView, backward: FunctionNode, inputs: Inputs) -> Iterator[Diagnosis]:
        forward = view.semantics.find_method(view.node, "forward")
        assert forward is not None
        for value in view.semantics.returned_values(backward):
            gradients = gradients_of(view.semantics, backward, value)
            if gradients is None or is_expected_to_raise(value):
                continue
            count = len(gradients.values)
            if gradients.is_list:
                yield self.found(
                    value,
                    f"`{view.name}.backward` returns a list, which autograd takes for one value and refuses: "
                    "return a tuple.",
                )
            elif gradients.are_none:
                continue
            elif count < inputs.required:
                takes = "at least " if inputs.required != inputs.all else ""
                yield self.found(
                    value,
                    f"`{view.name}.backward` returns {_gradients(count)}, but `forward` takes {takes}"
                    f"{inputs.required} inputs: autograd raises (`None` stands for an input without a gradient).",
                    related=[(forward, "takes the inputs")],
                )
            else:
                yield from self._check_given(view, backward, inputs, value, gradients)

    def _check_given(
        self, view: ClassView, backward: FunctionNode, inputs: Inputs, value: ast.expr, gradients: Gradients
    ) -> Iterator[Diagnosis]:
        """The number of gradients against what calls of ``apply`` give, and against all that ``forward`` can take."""
        count = len(gradients.values)
        for call in _applications(view):
            if len(call.args) > count:
                yield self.found(
                    value,
                    f"`{view.name}.backward` returns {_gradients(count)}, but `{view.name}.apply` is given "
                    f"{len(call.args)} inputs: autograd raises (`None` stands for an input without a gradient).",
                    related=[(call, "is given more inputs")],
                )
                return
        if inputs.all is None:
            return
        for extra in gradients.values[inputs.all :]:
            if extra is not None and is_surely_tensor_or_number(view.semantics, extra, backward):
                yield self.found(
                    value,
                    f"`{view.name}.backward` returns {_gradients(count)}, but `forward` takes {inputs.all} "
                    f"input{'' if inputs.all == 1 else 's'}: autograd raises for the extra `{ast.unparse(extra)}`.",
                    related=[(extra, "no input belongs to this gradient")],
                )
                return


def _gradients(count: int) -> str:
    return "1 gradient" if count == 1 else f"{count or 'no'} gradients"


def _applications(view: ClassView) -> Iterator[ast.Call]:
    """The calls of ``apply`` on the class whose arguments can be counted."""
    for call in view.semantics.module.calls_of("apply"):
        on_class = isinstance(call.func, ast.Attribute) and view.semantics.local_class(call.func.value) is view.node
        if on_class and not has_unknown_arguments(call):
            yield call


def _calls_of_instances(view: ClassView) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Calls of instances of the class, each with the call that makes the instance."""
    semantics = view.semantics
    for built in semantics.module.calls_of(view.name):
        if semantics.local_class(built.func) is not view.node:
            continue
        match parent_of(built):
            case ast.Call() as call if call.func is built:
                yield call, built
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if value is built:
                for call in semantics.module.calls_of(name):
                    kind = semantics.kind(call.func)
                    if kind is not None and kind.class_node is view.node and kind.node is built:
                        yield call, built
