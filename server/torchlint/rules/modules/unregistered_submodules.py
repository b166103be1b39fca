from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.modules.container_parts import Sort
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.plain_containers import PlainContainer, is_given_elsewhere, plain_containers
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, Level, Rule, on_module_class
from torchlint.rules.modules._registering_containers import fixes_of, module_kind
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Calls that register what they are given; where a class has one, no claim is made about its containers.
_REGISTERS = frozenset({"add_module", "register_module", "register_parameter", "setattr", "__setattr__"})
#: Where a module keeps what is registered: a class that reads it has a way of its own.
_TABLES = frozenset({"_modules", "_parameters"})
#: Methods with which a class says itself which parameters it has, or moves them itself.
_OWN_WAY = frozenset(
    ["parameters", "named_parameters", "modules", "children", "named_children", "state_dict", "_apply", "__getattr__"]
)
_HIDDEN = regex(
    r"regist|state[_ ]?dict|checkpoint|\b(?:do|does|should|must|will)(?: not|n't)\b|avoid|exclude|prevent|on purpose"
    r"|intention|deliberate|hack|\bhid(?:e|es|ing)\b|\bfrozen\b|\bno (?:grad|train)",
    re.IGNORECASE,
)


class UnregisteredSubmodules(Rule):
    """## What it does

    Reports layers or parameters that a module keeps in a list, tuple or dict of Python.

    ## Why is this bad?

    `nn.Module` registers what is assigned to its attributes, but does not look into containers. `parameters()` does
    not list the layers, so that the optimizer never trains them; `.to(device)` does not move them; `state_dict()` does
    not save them; `train()` and `eval()` do not reach them.

    ## Example

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.blocks = [nn.Linear(width, width) for _ in range(depth)]

        def forward(self, x):
            for block in self.blocks:
                x = block(x).relu()
            return x
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Net(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x).relu()
            return x
    ```

    ## Exceptions

    Containers that are wrapped or registered while the module is made, elements that are attributes of the module too,
    elements that keep nothing (`nn.ReLU`, most losses), a container of one module that was passed in or built
    elsewhere, which hides it on purpose, and containers of which a comment says so.

    ## References

    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    - [torch.nn.ModuleDict](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html)
    - [torch.nn.ParameterList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterList.html)
    """

    code = "TL103"
    name = "unregistered-submodules"
    level = Level.ERROR
    fix = FixKind.UNSAFE
    summary = "Layers in a plain list, tuple or dict are not trained, moved or saved."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        containers = list(plain_containers(view))
        found = [(container, _hidden_elements(container, unit.semantics)) for container in containers]
        found = [(container, hidden) for container, hidden in found if hidden]
        if not found or _registers_in_its_own_way(view) or _is_taken_apart(containers, view):
            return
        for container, hidden in found:
            if _is_registered(container, view) or is_stated(container.write.statement, _HIDDEN):
                continue
            if container.display is not container.write.value and is_stated(container.display, _HIDDEN):
                continue
            if all(kind.what is What.PARAMETER for _, kind in hidden) and (
                _hands_out(container.name, view) or _is_only_counted(container, view)
            ):
                continue
            yield self._diagnosis(container, hidden, view)

    def _diagnosis(self, container: PlainContainer, hidden: list[tuple[ast.expr, Kind]], view: ClassView) -> Diagnosis:
        assert container.write.value is not None
        parameters = all(kind.what is What.PARAMETER for _, kind in hidden)
        only_mode = all(state_of(kind, view.semantics) is State.MODE for _, kind in hidden)
        if parameters:
            consequence = "its parameters are not registered: they are not trained, moved or saved with the module."
        elif only_mode:
            consequence = "its layers are not registered: `train()` and `eval()` do not reach them."
        else:
            consequence = "its layers are not registered: they are not trained, moved or saved with the module."
        word = "a plain dict" if container.sort is Sort.DICT else f"a plain {container.sort.value}"
        inside = [element for element, _ in hidden if not _is_inside(element, container.write.value)]
        first = "the first parameter" if parameters else "the first layer"
        return self.found(
            container.write.value,
            f"`self.{container.name}` is {word}, so {consequence}",
            related=[(inside[0], f"{first} that is put into it")] if len(inside) == len(hidden) else [],
            fixes=fixes_of(container, parameters, view),
        )


def _is_inside(node: ast.AST, holder: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(holder))


def _registers_in_its_own_way(view: ClassView) -> bool:
    """Whether a class says itself which parameters or modules it has."""
    if any(method.name in _OWN_WAY for method in view.methods):
        return True
    return view.semantics.module.reads_any_attribute(_TABLES) and any(
        isinstance(node, ast.Attribute) and node.attr in _TABLES
        for method in view.methods
        for node in nodes_within(method, ast.Attribute)
    )


def _is_taken_apart(containers: list[PlainContainer], view: ClassView) -> bool:
    """Whether a class only holds layers that other code of the file takes from it, to build a module of them."""
    if view.method_names != ("__init__",):
        return False
    return any(view.semantics.module.reads_attribute(item.name, of_others=True) for item in containers)


def _is_registered(container: PlainContainer, view: ClassView) -> bool:
    """Whether a class registers modules under names that it makes up, and what it registers may be of the container:
    in a loop over it, or anything that is not known to be something else."""
    if not view.semantics.module.mentions_any_call(_REGISTERS):
        return False
    names = {container.name, *(name.id for name in [container.write.value] if isinstance(name, ast.Name))}
    for method in view.methods:
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            called = call.func
            name = last_name(called)
            if name in _REGISTERS and (not _registers_new(call, view.semantics) or _mentions(call, names)):
                return True
    return False


def _registers_new(call: ast.Call, semantics: Semantics) -> bool:
    """Whether what is registered is built right there, or in a local variable (which `_hidden_elements` looks at)."""
    given = call.args[-1] if call.args else None
    if not isinstance(given, ast.Name):
        return isinstance(given, ast.Call) and not isinstance(given.func, ast.Subscript)
    definitions = semantics.definitions(given)
    return bool(definitions) and all(
        item.kind is Binding.ASSIGNMENT and not item.path and isinstance(item.value, ast.Call) for item in definitions
    )


def _mentions(call: ast.Call, names: set[str]) -> bool:
    """Whether a call, or the head of a loop around it, speaks of one of these names."""
    heads: list[ast.AST] = [call]
    node = parent_of(call)
    while node is not None and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(node, ast.For):
            heads.append(node.iter)
        node = parent_of(node)
    return any(
        (isinstance(inner, ast.Attribute) and inner.attr in names)
        or (isinstance(inner, ast.Name) and inner.id in names)
        for head in heads
        for inner in ast.walk(head)
    )


def _hands_out(name: str, view: ClassView) -> bool:
    """Whether a method other than `forward` returns the container or one of its elements: who wants them asks it."""
    for method in view.methods:
        if method.name == "forward":
            continue
        for value in view.semantics.returned_values(method):
            inner = value.value if isinstance(value, ast.Subscript) else value
            if isinstance(inner, ast.Attribute) and inner.attr == name:
                return True
    return False


def _is_only_counted(container: PlainContainer, view: ClassView) -> bool:
    """Whether the class asks how many there are and nothing else: no number is computed with them."""
    grown = {
        call.func.value
        for call in container.growth
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    }
    uses = [read for read in view.reads(container.name) if read not in grown]
    return bool(uses) and all(
        isinstance(call := parent_of(use), ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "len"
        for use in uses
    )


# -- elements -------------------------------------------------------------------------------------------------------


def _hidden_elements(container: PlainContainer, semantics: Semantics) -> list[tuple[ast.expr, Kind]]:
    """The elements that are layers or parameters which nothing else registers, with their kinds."""
    found = []
    for element in container.elements:
        kind = module_kind(element, semantics)
        if element is None or kind is None or not _keeps_something(kind, semantics):
            continue
        if isinstance(element, ast.Attribute) or (
            isinstance(element, ast.Name) and is_given_elsewhere(element, container, semantics)
        ):
            continue
        found.append((element, kind))
    if len(container.elements) == 1 and not container.growth and found:
        (element, kind) = found[0]
        alone = isinstance(container.display, ast.List | ast.Tuple)
        if alone and not (
            isinstance(element, ast.Call) and kind.class_node is None and kind.origin.startswith("torch.nn.")
        ):
            return []
    return found


def _keeps_something(kind: Kind, semantics: Semantics) -> bool:
    """Whether a module has weights, buffers or a mode. A class of the file that runs something imported has."""
    state = state_of(kind, semantics)
    if state is State.UNKNOWN and kind.class_node is not None:
        return not semantics.has_unknown_base(kind.class_node)
    return state in (State.WEIGHTS, State.BUFFERS, State.MODE)
