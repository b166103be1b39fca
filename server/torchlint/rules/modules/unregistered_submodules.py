from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.fixes import Editor
from torchlint.idioms.modules.container_parts import Sort
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.modules.plain_containers import PlainContainer, is_given_elsewhere, plain_containers
from torchlint.idioms.surroundings.stated import comments_around, count_of_comments, is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.nodes import nodes_within
from torchlint.semantics.scopes import Binding, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Calls that register what they are given; where a class has one, no claim is made about its containers.
_REGISTERS = frozenset({"add_module", "register_module", "register_parameter", "setattr", "__setattr__"})
#: Methods with which a class says itself which parameters it has, or moves them itself.
_TABLES = frozenset({"_modules", "_parameters"})
_OWN_WAY = frozenset(
    ["parameters", "named_parameters", "modules", "children", "named_children", "state_dict", "_apply", "__getattr__"]
)
_HIDDEN = regex(
    r"regist|state[_ ]?dict|checkpoint|\b(?:do|does|should|must|will)(?: not|n't)\b|avoid|exclude|prevent|on purpose"
    r"|intention|deliberate|hack|\bhid(?:e|es|ing)\b|\bfrozen\b|\bno (?:grad|train)",
    re.IGNORECASE,
)
_CONTAINERS = (ast.List, ast.ListComp, ast.Tuple, ast.Dict, ast.DictComp)
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"items", "keys", "values", "pop", "update", "clear"})


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
            fixes=_fixes(container, parameters, view),
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
        kind = _module_kind(element, semantics)
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


def _module_kind(element: ast.expr | None, semantics: Semantics) -> Kind | None:
    """The kind of an element that is a layer, model or parameter for certain."""
    kind = semantics.kind(element)
    if kind is None or not (kind.is_module or kind.what is What.PARAMETER):
        return None
    return kind if kind.proven else None


# -- fixes ----------------------------------------------------------------------------------------------------------


def _fixes(container: PlainContainer, parameters: bool, view: ClassView) -> list[FixPlan]:
    if not _can_be_wrapped(container, parameters, view):
        return []
    if container.sort is Sort.DICT:
        name = "ParameterDict" if parameters else "ModuleDict"
    else:
        name = "ParameterList" if parameters else "ModuleList"
    fixes = [
        FixPlan(f"Keep them in an `nn.{name}`", "unsafe", lambda edit: _wrap(edit, container, f"torch.nn.{name}", view))
    ]
    loop = _only_loop(container, view)
    if name == "ModuleList" and loop is not None and isinstance(container.write.value, ast.List | ast.ListComp):
        fixes.append(
            FixPlan(
                "Keep them in an `nn.Sequential` and call that",
                "unsafe",
                lambda edit: _to_sequential(edit, container, loop),
            )
        )
    return fixes


def _can_be_wrapped(container: PlainContainer, parameters: bool, view: ClassView) -> bool:
    """Whether a registering container takes all elements, and has all methods that the class uses."""
    kinds = [_module_kind(element, view.semantics) for element in container.elements]
    if any(kind is None or (kind.what is What.PARAMETER) != parameters for kind in kinds):
        return False
    if len([write for write in view.writes(container.name) if not write.augmented]) != 1:
        return False
    supported = _DICT_METHODS if container.sort is Sort.DICT else _LIST_METHODS
    for read in view.reads(container.name):
        parent = parent_of(read)
        if isinstance(parent, ast.Attribute) and parent.attr not in supported:
            return False
    if not _can_be_spelled(container):
        return False
    if container.sort is Sort.DICT:
        return _has_text_keys(container, view.semantics)
    return not any(isinstance(growth, ast.Assign) for growth in container.growth)


def _can_be_spelled(container: PlainContainer) -> bool:
    """Whether putting a call around the container, and around those inside it, is all that there is to do."""
    match container.write.value:
        case ast.BinOp(op=ast.Mult(), left=ast.List(elts=[ast.Call()])):
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return all(isinstance(side, ast.List | ast.ListComp) and _holds_lists_only(side) for side in (left, right))
        case ast.BinOp() | None:
            return False
        case value:
            grown = [call.args[-1] for call in container.growth if isinstance(call, ast.Call) and call.args]
            return all(_holds_lists_only(one) for one in (value, *grown))


def _holds_lists_only(value: ast.expr) -> bool:
    """Whether all containers directly inside one are lists, to any depth."""
    inside = value.elts if isinstance(value, ast.List | ast.Tuple) else [getattr(value, "elt", None)]
    if isinstance(value, ast.Dict | ast.DictComp):
        inside = value.values if isinstance(value, ast.Dict) else [value.value]
        return not any(isinstance(element, _CONTAINERS) for element in inside)
    if any(isinstance(element, ast.Tuple | ast.Dict | ast.DictComp | ast.Starred) for element in inside):
        return False
    return all(_holds_lists_only(element) for element in inside if isinstance(element, ast.List | ast.ListComp))


def _has_text_keys(container: PlainContainer, semantics: Semantics) -> bool:
    keys: list[ast.expr | None] = []
    match container.display:
        case ast.Dict(keys=written):
            keys += written
        case ast.DictComp(key=key):
            keys.append(key)
        case ast.Call(args=[], keywords=named):
            keys += [ast.Constant(item.arg) if item.arg is not None else None for item in named]
        case ast.Call(func=function, args=[ast.List(elts=pairs)], keywords=[]) if last_name(function) == "OrderedDict":
            keys += [pair.elts[0] if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 else None for pair in pairs]
        case _:
            return False
    for growth in container.growth:
        if not isinstance(growth, ast.Assign) or not isinstance(growth.targets[0], ast.Subscript):
            return False
        keys.append(growth.targets[0].slice)
    return all(_is_text_key(key, semantics) for key in keys)


def _is_text_key(key: ast.expr | None, semantics: Semantics) -> bool:
    """Whether a key may be one of an `nn.ModuleDict`: a text without a dot that is no name of its own."""
    literal = semantics.literal(key)
    if isinstance(literal, str):
        return bool(literal) and "." not in literal and literal not in _DICT_METHODS
    if isinstance(key, ast.JoinedStr):
        return not any(isinstance(part, ast.Constant) and "." in str(part.value) for part in key.values)
    if isinstance(key, ast.Call) and isinstance(key.func, ast.Name):
        return key.func.id == "str"
    kind = semantics.kind(key)
    return kind is not None and kind.what is What.TEXT


def _wrap(edit: Editor, container: PlainContainer, name: str, view: ClassView) -> None:
    value = container.write.value
    assert value is not None
    spelling = edit.spell(name)
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            edit.replace(value, f"{spelling}()")
        case ast.Call(args=[], keywords=[]) if last_name(value.func) in ("list", "tuple", "dict", "OrderedDict"):
            edit.replace(value, f"{spelling}()")
        case ast.BinOp(op=ast.Mult(), left=ast.List(elts=[element]), right=count) if isinstance(element, ast.Call):
            repeated = f"[{edit.source(element)} for _ in range({edit.source(count)})]"
            edit.replace(value, f"{spelling}({repeated})")
        case ast.Tuple() if not edit.source(value).startswith("("):
            edit.wrap(value, f"{spelling}([", "])")
        case _:
            edit.wrap(value, f"{spelling}(", ")")
            _wrap_inner(edit, value, spelling)
    for growth in container.growth:
        match growth:
            case ast.Call(func=ast.Attribute(attr="append"), args=[ast.List() | ast.ListComp() as grown]):
                edit.wrap(grown, f"{spelling}(", ")")
                _wrap_inner(edit, grown, spelling)
            case _:
                pass


def _wrap_inner(edit: Editor, value: ast.expr, spelling: str) -> None:
    """Wrap the lists inside a list, too."""
    elements = value.elts if isinstance(value, ast.List | ast.Tuple) else [getattr(value, "elt", None)]
    for element in elements:
        if isinstance(element, ast.List | ast.ListComp):
            edit.wrap(element, f"{spelling}(", ")")
            _wrap_inner(edit, element, spelling)


def _only_loop(container: PlainContainer, view: ClassView) -> ast.For | None:
    """The loop ``for layer in self.layers: x = layer(x)`` where the class uses the container nowhere else."""
    reads = list(view.reads(container.name))
    if len(reads) != 1:
        return None
    match parent_of(reads[0]):
        case (
            ast.For(
                target=ast.Name(id=layer),
                iter=iterable,
                body=[
                    ast.Assign(
                        targets=[ast.Name(id=result)],
                        value=ast.Call(func=ast.Name(id=called), args=[ast.Name(id=given)], keywords=[]),
                    )
                ],
                orelse=[],
            ) as loop
        ) if iterable is reads[0] and called == layer and given == result:
            inside = count_of_comments(loop, loop) - len(comments_around(loop)[0])
            return loop if inside == 0 else None
        case _:
            return None


def _to_sequential(edit: Editor, container: PlainContainer, loop: ast.For) -> None:
    value = container.write.value
    assert value is not None
    spelling = edit.spell("torch.nn.Sequential")
    source = edit.source(value)
    elements = source[1:-1] if isinstance(value, ast.List) else f"*{source}"
    edit.replace(value, f"{spelling}({elements})")
    (statement,) = loop.body
    assert isinstance(statement, ast.Assign)
    name = edit.source(statement.targets[0])
    edit.replace(loop, f"{name} = {edit.source(loop.iter)}({name})")
