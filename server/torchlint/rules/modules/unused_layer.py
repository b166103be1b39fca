from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchlint.idioms.module_state import State, state_of
from torchlint.rules.base import Diagnosis, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.module import enclosing_function
from torchlint.semantics.scopes import AttributeWrite
from torchlint.semantics.semantics import nodes_within
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Ways to reach layers without their names.
_REACHING = frozenset(
    {"getattr", "eval", "vars", "hasattr", "setattr", "delattr", "add_module", "register_module", "get_submodule"}
) | frozenset({"children", "modules", "named_children", "named_modules", "register_forward_hook"})


class UnusedLayer(Rule):
    """## What it does

    Points out layers with weights that a module builds and never uses. Where a layer of the same name with another
    number is used twice (`bn1` twice, `bn2` never), it is a warning: the wrong one was called.

    ## Why is this bad?

    The layer is trained by nothing, takes memory and is saved. `DistributedDataParallel` raises, because its parameters
    get no gradient. Where it was left out by mistake, two places of the network share one layer.

    ## Example

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3)
            self.bn1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3)
            self.bn2 = nn.BatchNorm2d(8)

        def forward(self, x):
            return self.bn1(self.conv2(self.bn1(self.conv1(x))))
    ```

    ## Use instead

    ```python
    import torch.nn as nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3)
            self.bn1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 8, 3)
            self.bn2 = nn.BatchNorm2d(8)

        def forward(self, x):
            return self.bn2(self.conv2(self.bn1(self.conv1(x))))
    ```

    ## Exceptions

    Classes that reach layers in other ways (`getattr`, `children()`, hooks), that others in the file derive from, or
    whose bases are not known; layers that anything in the file reads.

    ## References

    - [torch.nn.parallel.DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL109"
    name = "unused-layer"
    level = Level.WARNING
    summary = "A layer that is built and never used is not trained; often its sibling was called twice."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        forward, constructor = view.method("forward"), view.method("__init__")
        semantics = view.semantics
        if forward is None or constructor is None or not _uses_names_only(view):
            return
        for name in view.attributes:
            write = _layer(name, view)
            if write is None or semantics.module.reads_attribute(name):
                continue
            twin = _called_twice(name, view)
            if twin is None:
                yield self.found(
                    write.target,
                    f"`self.{name}` is built and nothing in this file uses it: then it is not trained.",
                    severity=Level.HINT.severity,
                )
                continue
            yield self.found(
                write.target,
                f"`self.{name}` is never used, but `self.{twin[0].attr}` is called {len(twin)} times: one of the calls"
                f" means `self.{name}`.",
                related=[(call, "called here") for call in twin],
            )


def _uses_names_only(view: ClassView) -> bool:
    """Whether all that uses the class's layers spells their names in this file."""
    semantics = view.semantics
    if semantics.has_unknown_base(view.node) or semantics.module.is_base(view.name) or view.node.decorator_list:
        return False
    for method in view.methods:
        for call in nodes_within(method, ast.Call):
            assert isinstance(call, ast.Call)
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called in _REACHING and not _only_initialises(call):
                return False
        for attribute in self_attributes(method):
            if attribute.attr in ("_modules", "__dict__", "_parameters"):
                return False
    return True


def _only_initialises(call: ast.Call) -> bool:
    """Whether ``self.modules()`` is gone through to initialise the weights: a loop that calls no module."""
    loop = parent_of(call)
    if not isinstance(loop, ast.For) or loop.iter is not call:
        return False
    names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return not any(
        isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in names
        for statement in loop.body
        for inner in ast.walk(statement)
    )


def _layer(name: str, view: ClassView) -> AttributeWrite | None:
    """The write of an attribute that is a layer with weights, built once in the constructor and not given elsewhere."""
    writes = view.writes(name)
    if len(writes) != 1 or writes[0].path or not isinstance(writes[0].value, ast.Call):
        return None
    function = enclosing_function(writes[0].statement)
    statement = writes[0].statement
    alone = isinstance(statement, ast.AnnAssign) or (isinstance(statement, ast.Assign) and len(statement.targets) == 1)
    if function is None or function.name != "__init__" or not alone:
        return None
    kind = view.semantics.kind(writes[0].value)
    if kind is None or not kind.proven or not kind.is_module or state_of(kind, view.semantics) is not State.WEIGHTS:
        return None
    return writes[0]


def _called_twice(name: str, view: ClassView) -> list[ast.Attribute] | None:
    """The calls of a layer whose name has another number and the same class, where there are several in `forward`."""
    stem = re.sub(r"\d+", "#", name)
    if stem == name:
        return None
    mine = view.attribute_kind(name)
    for other in view.attributes:
        if other == name or re.sub(r"\d+", "#", other) != stem:
            continue
        kind = view.attribute_kind(other)
        if kind is None or mine is None or kind.origin != mine.origin:
            continue
        calls = [
            node
            for node in view.reads(other)
            if isinstance(call := parent_of(node), ast.Call)
            if call.func is node and getattr(enclosing_function(node), "name", "") == "forward"
        ]
        if len(calls) > 1:
            return calls
    return None
