from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes import Editor
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.training_guard import depends_on_mode, is_deliberate_noise
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView
from torchlint.semantics.nodes import contains, enclosing_function, is_static, nodes_within
from torchlint.semantics.scopes import FunctionNode, last_name
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Methods that give a module back, so that what they are called on may be called afterwards.
_SELF = frozenset({"to", "cuda", "cpu", "half", "float", "double", "type", "requires_grad_", "apply"})
#: What sets weights or a mode by hand: hypernetworks, and layers that follow the module's mode.
_TAKEN_CARE_OF = frozenset(
    {"weight", "bias", "load_state_dict", "train", "eval", "parameters", "state_dict", "register_parameter"}
)


class LayerCreatedInForward(Rule):
    """## What it does

    Reports layers with weights, and dropout layers, that are built and called inside `forward` or a method that it
    calls.

    ## Why is this bad?

    Each pass builds a new layer. Its weights are random each time, are not in `parameters()` and are never trained. A
    dropout layer that is new is in training mode: `eval()` does not reach it.

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            return nn.Linear(8, 2)(self.fc(x))
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.linear = nn.Linear(8, 2)

        def forward(self, x):
            return self.linear(self.fc(x))
    ```

    ## Exceptions

    Layers that keep nothing (`nn.ReLU`, `nn.MaxPool2d`, losses, `nn.LayerNorm(..., elementwise_affine=False)`); layers
    whose weights are set by hand, as in hypernetworks; layers that are kept on `self` the first time they are needed;
    dropout below a test of the mode.

    ## References

    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL111"
    name = "layer-created-in-forward"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "A layer that is built in every pass is never trained and never in evaluation mode."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        making = view.called_from("__init__")
        for method in sorted(view.called_from("forward") - making, key=lambda one: one.lineno):
            if view.method(method.name) is not method or is_static(method):
                continue
            for call in nodes_within(method, ast.Call):
                assert isinstance(call, ast.Call)
                yield from self._check_call(call, method, view)

    def _check_call(self, call: ast.Call, method: FunctionNode, view: ClassView) -> Iterator[Diagnosis]:
        helper = None
        if not last_name(call.func)[:1].isupper():
            helper = view.semantics.local_function(call.func)
            if helper is None or helper.decorator_list or enclosing_function(helper) is not None:
                return
        kind = view.semantics.kind(call)
        if kind is None or not kind.is_module or not kind.proven:
            return
        if kind.node is not call and not (helper is not None and kind.node is not None and contains(helper, kind.node)):
            return
        state = state_of(kind, view.semantics)
        if state not in (State.WEIGHTS, State.MODE) or _is_part_of_another(call, view):
            return
        if state is State.MODE and (
            helper is not None or depends_on_mode(call, view.semantics) or is_deliberate_noise(call, method)
        ):
            return
        if not _is_run(call, method):
            return
        name = ast.unparse(call.func)
        consequence = (
            "its weights are new and random every time, and never trained."
            if state is State.WEIGHTS
            else "it is in training mode every time, `eval()` does not reach it."
        )
        fix = _fix(call, method, view)
        yield self.found(
            call, f"`{name}` is built in every pass of `forward`: {consequence}", fixes=[fix] if fix is not None else []
        )


def _is_part_of_another(call: ast.Call, view: ClassView) -> bool:
    """Whether a layer is an argument of a container, which is reported as a whole."""
    parent = parent_of(call)
    while isinstance(parent, ast.List | ast.Tuple | ast.Starred | ast.keyword | ast.ListComp | ast.Dict):
        parent = parent_of(parent)
    if not isinstance(parent, ast.Call) or parent.func is call:
        return False
    kind = view.semantics.kind(parent)
    return kind is not None and kind.is_module


def _is_run(call: ast.Call, method: FunctionNode) -> bool:
    """Whether a layer is called where it is built, by itself or by way of a local variable, and nothing else."""
    current: ast.expr = call
    while True:
        parent = parent_of(current)
        if isinstance(parent, ast.Call) and parent.func is current:
            return True
        outer = parent_of(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and parent.attr in _SELF and isinstance(outer, ast.Call):
            current = outer
            continue
        break
    if isinstance(parent, ast.List | ast.ListComp) and current in (
        *getattr(parent, "elts", ()),
        getattr(parent, "elt", None),
    ):
        return _is_run_in_a_loop(parent, method)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is current:
            return _is_only_called(name, parent, method)
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attribute)], value=value):
            unguarded = value is current and name == first_parameter(method) and not _is_guarded(parent, method)
            return unguarded and _is_called(attribute, method)
        case _:
            return False


def _is_run_in_a_loop(layers: ast.expr, method: FunctionNode) -> bool:
    """Whether a list of layers is only looped over, and the loop calls each."""
    holder = parent_of(layers)
    uses: list[ast.expr] = [layers]
    if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        name = holder.targets[0].id
        same = [node for node in nodes_within(method, ast.Name) if isinstance(node, ast.Name) and node.id == name]
        uses = [node for node in same if node is not holder.targets[0]]
    loops = [parent_of(use) for use in uses]
    return bool(loops) and all(_calls_each(loop, use) for loop, use in zip(loops, uses, strict=True))


def _calls_each(loop: ast.AST | None, layers: ast.expr) -> bool:
    if not isinstance(loop, ast.For) or loop.iter is not layers or not isinstance(loop.target, ast.Name):
        return False
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == loop.target.id
        for call in nodes_within(loop, ast.Call)
    )


def _is_only_called(name: str, statement: ast.Assign, method: FunctionNode) -> bool:
    """Whether a local variable is bound once and all that is done with it is calling it."""
    called = False
    for node in nodes_within(method, ast.Name):
        assert isinstance(node, ast.Name)
        if node.id != name:
            continue
        if isinstance(node.ctx, ast.Store):
            if node is not statement.targets[0]:
                return False
            continue
        parent = parent_of(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            called = True
        elif not isinstance(parent, ast.Attribute) or parent.attr in _TAKEN_CARE_OF:
            return False
    return called and enclosing_function(statement) is method


def _is_called(attribute: str, method: FunctionNode) -> bool:
    uses = [node for node in nodes_within(method, ast.Attribute) if getattr(node, "attr", "") == attribute]
    parents = [(parent_of(node), node) for node in uses]
    touched = any(isinstance(parent, ast.Attribute) and parent.attr in _TAKEN_CARE_OF for parent, _ in parents)
    return not touched and any(isinstance(parent, ast.Call) and parent.func is node for parent, node in parents)


def _is_guarded(statement: ast.stmt, method: FunctionNode) -> bool:
    """Whether a statement stands in a branch: a layer that is made when it is first needed."""
    parent = parent_of(statement)
    while parent is not None and parent is not method:
        if isinstance(parent, ast.If | ast.Try | ast.IfExp):
            return True
        parent = parent_of(parent)
    return False


# -- the fix --------------------------------------------------------------------------------------------------------


def _fix(call: ast.Call, method: FunctionNode, view: ClassView) -> FixPlan | None:
    """Build the layer in the constructor, where it needs nothing of the data."""
    constructor = view.method("__init__")
    owner = first_parameter(method)
    if (
        constructor is None
        or owner is None
        or first_parameter(constructor) != owner
        or enclosing_function(call) is not method
    ):
        return None
    scope = {
        node.id
        for node in nodes_within(method, ast.Name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    scope |= {item.arg for item in arguments if item.arg != owner}
    used = {node.id for node in nodes_within(call, ast.Name) if isinstance(node, ast.Name)}
    if not used.isdisjoint(scope) or call.lineno != call.end_lineno:
        return None
    if isinstance(parent_of(call), ast.Assign) and not isinstance(_target(call), ast.Name):
        return None
    name = _free_name(call, view)
    return FixPlan(
        f"Build it in `__init__` as `{owner}.{name}`",
        "unsafe",
        lambda edit: _hoist(edit, call, constructor, f"{owner}.{name}"),
    )


def _target(call: ast.Call) -> ast.expr | None:
    parent = parent_of(call)
    return parent.targets[0] if isinstance(parent, ast.Assign) else None


def _free_name(call: ast.Call, view: ClassView) -> str:
    """A name for the attribute after the class of the layer: `layer_norm`, `layer_norm2`, ..."""
    tail = last_name(call.func) or "layer"
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", tail).lower()
    taken = {*view.attributes, *(method.name for method in view.methods), *dir(object)} | _MODULE_ATTRIBUTES
    names = (words if number == 1 else f"{words}{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


_MODULE_ATTRIBUTES = frozenset({"training", "forward", "train", "eval", "parameters", "modules", "children", "module"})


def _hoist(edit: Editor, call: ast.Call, constructor: FunctionNode, attribute: str) -> None:
    edit.insert_statement_after(constructor.body[-1], f"{attribute} = {edit.source(call)}")
    edit.replace(call, attribute)
