from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import cast

from torchlint import torch_api
from torchlint.idioms.modules.class_decorators import may_be_remade
from torchlint.idioms.modules.module_state import State, state_of
from torchlint.idioms.surroundings.stated import is_stated
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_module_class
from torchlint.semantics.class_facts import first_parameter
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.index import index_of
from torchlint.semantics.nodes import element_of, enclosing_function, nodes_within
from torchlint.semantics.scopes import AttributeWrite, Binding, FunctionNode, last_name
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of, part_of

#: Functions and methods that reach attributes of the module they are given, or called on, by other means than a name.
_FUNCTIONS = frozenset({"getattr", "eval", "exec", "vars", "hasattr", "setattr", "delattr"})
_METHODS = frozenset({"children", "modules", "named_children", "named_modules", "get_submodule"})
_TELLING = _FUNCTIONS | _METHODS
_TABLES = frozenset({"_modules", "__dict__", "_parameters", "__getattr__"})
#: What the author says of a layer that is kept without being used.
_KEPT = regex(
    r"unused|not used|never (?:used|reads?)|compatib|checkpoints?'? |checkpoint$|state_?dict|legacy|placeholder",
    re.IGNORECASE,
)
#: Modules of torch whose methods read layers by name.
_READERS = tuple(f"torch.nn.Transformer{part}" for part in ("", "Encoder", "Decoder", "EncoderLayer", "DecoderLayer"))
#: What the author says where one layer is called in two places on purpose.
_SHARED = regex(r"\bsame\b|\bshare[sd]?\b|re-?use", re.IGNORECASE)
#: Modules of a framework, which reach no layer of their own.
_FRAMEWORK_BASES = frozenset({"pytorch_lightning.LightningModule", "lightning.pytorch.LightningModule"})


class UnusedLayer(Rule):
    """## What it does

    Points out layers with weights that a module builds and never uses. Where a layer of the same name with another
    number or letter is used twice (`bn1` twice, `bn2` never), it is a warning: the wrong one was called. So is it where
    a subclass of a layer has a `forward` of its own that uses nothing of the layer.

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

    Classes that reach their layers in other ways (`getattr(self, ...)`, `self.children()`), that others in the file
    derive from, or whose bases are not known; layers that a function of the file reads, and those of which a comment
    says that they are kept unused, for old checkpoints say; a `forward` that uses nothing of the module.

    ## References

    - [torch.nn.parallel.DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "TL109"
    name = "unused-layer"
    level = Level.WARNING
    summary = "A layer that is built and never used is not trained; often its sibling was called twice."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        forward = view.method("forward")
        if forward is None or not _uses_names_only(view):
            return
        yield from self._check_base(forward, view)
        if any(view.semantics.is_named(base, *_READERS) for base in view.node.bases):
            return  # what it inherits reads `self.self_attn` and its kind
        if view.method("__init__") is None or not self_attributes(forward):
            return  # a `forward` that uses nothing of the module is not what runs its layers
        reads = _reads(view)
        for name in view.attributes:
            used = reads.get(name, ())
            if not all(_initialises(read, view.semantics) for read in used):
                continue
            write = _layer(name, view)
            if write is None or view.semantics.module.reads_attribute(name, of_others=True):
                continue
            if not is_stated(write.statement, _KEPT):
                yield self._unused(name, write, bool(used), view)

    def _unused(self, name: str, write: AttributeWrite, initialised: bool, view: ClassView) -> Diagnosis:
        place = write.target
        twin = _called_twice(name, view)
        if twin is None or any(is_stated(call, _SHARED) for call in twin):
            done = "built and only initialised" if initialised else "built and nothing in this file uses it"
            return self.found(place, f"`self.{name}` is {done}: then it is not trained.", severity=Level.HINT.severity)
        return self.found(
            place,
            f"`self.{name}` is never used, but `self.{twin[0].attr}` is called {len(twin)} times: one of the calls"
            f" means `self.{name}`.",
            related=[(call, "called here") for call in twin],
        )

    def _check_base(self, forward: FunctionNode, view: ClassView) -> Iterator[Diagnosis]:
        """A subclass of a layer, ``nn.BatchNorm2d`` say, that does something else in its ``forward``."""
        base = _weighted_base(view)
        if base is None or len(forward.args.args) < 2:
            return
        own = {*view.attributes, *(method.name for method in view.methods)}
        for method in view.called_from("forward"):
            name = first_parameter(method)
            for node in nodes_within(method, ast.Name):
                if not isinstance(node, ast.Name) or node.id not in (name, "super", "__class__"):
                    continue
                holder = parent_of(node)
                if not isinstance(holder, ast.Attribute) or holder.attr not in own:
                    return
        shown = ast.unparse(base)
        yield self.found(
            forward,
            f"`{view.name}.forward` uses nothing of `{shown}`, its base: the layer that it is does nothing.",
            related=[(base, "the base")],
        )


def _reads(view: ClassView) -> dict[str, list[ast.Attribute]]:
    """Each ``self.<name>`` that the methods of a class and of its bases in the file read, or delete, by name."""
    found: dict[str, list[ast.Attribute]] = {}
    for owner in (view.node, *view.semantics.local_bases(view.node)):
        for method in view.semantics.module.methods(owner):
            for node in self_attributes(method):
                if not isinstance(node.ctx, ast.Store):
                    found.setdefault(node.attr, []).append(node)
    return found


def _initialises(read: ast.Attribute, semantics: Semantics) -> bool:
    """Whether a read only gives the weights of a layer their first values: ``nn.init.zeros_(self.fc.weight)``."""
    holder = parent_of(read)
    if not isinstance(holder, ast.Attribute) or holder.attr not in ("weight", "bias"):
        return False
    outer = parent_of(holder)
    if isinstance(outer, ast.Call) and holder in outer.args:
        return semantics.name(outer.func).startswith("torch.nn.init.") and isinstance(parent_of(outer), ast.Expr)
    if not isinstance(outer, ast.Attribute) or outer.attr != "data":
        return False
    method, call = parent_of(outer), parent_of(parent_of(outer) or outer)
    in_place = isinstance(method, ast.Attribute) and method.attr.endswith("_")
    return in_place and isinstance(call, ast.Call) and isinstance(parent_of(call), ast.Expr)


def _uses_names_only(view: ClassView) -> bool:
    """Whether all that uses the class's layers spells their names in this file."""
    semantics = view.semantics
    unknown = semantics.has_unknown_base(view.node) and not all(
        semantics.name(base) in _FRAMEWORK_BASES for base in view.node.bases
    )
    if unknown or semantics.module.is_base(view.name) or may_be_remade(view.node):
        return False
    for method in view.methods:
        if not _TELLING.isdisjoint(index_of(part_of(method)).called):
            calls = cast("Iterator[ast.Call]", nodes_within(method, ast.Call))
            telling = [call for call in calls if last_name(call.func) in _TELLING]
            if any(_reaches_otherwise(call, method, semantics) for call in telling):
                return False
        if any(attribute.attr in _TABLES for attribute in self_attributes(method)):
            return False
    return True


def _reaches_otherwise(call: ast.Call, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether a call may give a layer of ``self`` without its name."""
    match call:
        case ast.Call(func=ast.Name(id="eval" | "exec")):
            return True
        case ast.Call(func=ast.Name(id=called), args=[given, *rest]) if called in _FUNCTIONS:
            if not _may_be_self(given, method, semantics):
                return False
            # A name that is written out counts as read wherever texts of the file do.
            return not (rest and isinstance(rest[0], ast.Constant))
        case ast.Call(func=ast.Attribute(attr=called, value=receiver)) if called in _METHODS:
            return _may_be_self(receiver, method, semantics) and not _only_initialises(call)
        case _:
            return False


def _may_be_self(expression: ast.expr, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether an expression can be the module itself: not a part of it, something imported or another argument."""
    match expression:
        case ast.Name(id=name):
            if name == first_parameter(method):
                return True
            definitions = semantics.definitions(expression)
            return not definitions or any(
                item.kind in (Binding.ASSIGNMENT, Binding.LOOP) and not _is_other(item.value, method, semantics)
                for item in definitions
            )
        case ast.Call(func=ast.Name(id="super")):
            return True
        case _:
            return not _is_other(expression, method, semantics)


def _is_other(value: ast.expr | None, method: FunctionNode, semantics: Semantics) -> bool:
    """Whether a value is certainly not the module itself."""
    if isinstance(value, ast.Attribute | ast.Subscript | ast.Constant):
        return True
    if isinstance(value, ast.Call):
        return not any(
            isinstance(node, ast.Name)
            and node.id == first_parameter(method)
            and not isinstance(parent_of(node), ast.Attribute)
            for node in nodes_within(value, ast.Name)
        )
    return isinstance(value, ast.Name) and bool(semantics.names(value))


def _only_initialises(call: ast.Call) -> bool:
    """Whether ``self.modules()`` is gone through to initialise the weights: a loop that calls no module."""
    loop = parent_of(call)
    if not isinstance(loop, ast.For) or loop.iter is not call:
        return False
    names = {node.id for node in cast("Iterator[ast.Name]", nodes_within(loop.target, ast.Name))}
    calls = cast("Iterator[ast.Call]", nodes_within(loop, ast.Call))
    return not any(isinstance(inner.func, ast.Name) and inner.func.id in names for inner in calls)


def _layer(name: str, view: ClassView) -> AttributeWrite | None:
    """The write of an attribute that is a layer with weights, built once in the constructor and not given elsewhere."""
    writes = view.writes(name)
    if len(writes) != 1 or writes[0].value is None:
        return None
    write = writes[0]
    value = element_of(writes[0].value, write.path)
    function = enclosing_function(write.statement)
    if isinstance(value, ast.Name) and function is not None and _is_read_once(value, function):
        value = view.semantics.value_of(value)
    statement = write.statement
    alone = isinstance(statement, ast.AnnAssign) or (isinstance(statement, ast.Assign) and len(statement.targets) == 1)
    if function is None or function.name != "__init__" or not alone or not isinstance(value, ast.Call):
        return None
    kind = view.semantics.kind(value)
    if kind is None or not kind.proven or not kind.is_module or state_of(kind, view.semantics) is not State.WEIGHTS:
        return None
    return write


def _is_read_once(name: ast.Name, function: FunctionNode) -> bool:
    """Whether a local variable is only read here: nothing else gets the layer that it holds."""
    same = (node for node in nodes_within(function, ast.Name) if getattr(node, "id", None) == name.id)
    return all(node is name or isinstance(getattr(node, "ctx", None), ast.Store) for node in same)


def _weighted_base(view: ClassView) -> ast.expr | None:
    """The base class where that is one layer of torch with weights, and no other."""
    bases = view.node.bases
    if len(bases) != 1:
        return None
    name = view.semantics.name(bases[0])
    facts = torch_api.module_facts(name)
    if facts is None or facts.kind == "container" or not name.startswith("torch.nn."):
        return None
    return bases[0] if torch_api.has_parameters(name, {}) else None


def _stem(name: str) -> str:
    """A name without what tells it from its siblings: numbers, or a letter at the end."""
    return re.sub(r"\d+|_[a-z]$", "#", name)


def _called_twice(name: str, view: ClassView) -> list[ast.Attribute] | None:
    """The calls of a layer whose name has another number and the same class, where ``forward`` and the methods that it
    calls have several."""
    stem = _stem(name)
    if stem == name:
        return None
    mine = view.attribute_kind(name)
    methods = view.called_from("forward")
    for other in view.attributes:
        if other == name or _stem(other) != stem:
            continue
        kind = view.attribute_kind(other)
        if kind is None or mine is None or kind.origin != mine.origin:
            continue
        calls = [
            node
            for node in view.reads(other)
            if isinstance(call := parent_of(node), ast.Call)
            if call.func is node and enclosing_function(node) in methods
        ]
        if len(calls) > 1:
            return calls
    return None
