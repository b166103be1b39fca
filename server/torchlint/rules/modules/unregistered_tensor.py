from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.values.input_tensors import is_input_tensor
from torchlint.idioms.values.tensor_fates import Fate, fates_of
from torchlint.idioms.values.tensors_made_here import is_made_here
from torchlint.rules.base import Diagnosis, FixKind, FixPlan, Level, Rule, on_module_class
from torchlint.semantics.classes import ClassView, self_attributes
from torchlint.semantics.nodes import enclosing_function, nodes_within
from torchlint.semantics.scopes import AttributeWrite, Binding, FunctionNode
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit
from torchlint.syntax import parent_of

#: Methods with which a class moves its tensors itself.
_OWN_WAY = frozenset({"_apply", "to", "cuda", "half", "float", "__setattr__", "__getattr__"})
_DEEPEST = 3
_FRAMEWORKS = ("pytorch_lightning.", "lightning.")
#: Builtins that give no tensor.
_BUILTINS = frozenset("bool dict float getattr int isinstance len round set str super".split())
#: What makes all tensors of a program somewhere else.
_DEFAULTS = frozenset({"set_default_device", "set_default_tensor_type"})


class UnregisteredTensor(Rule):
    """## What it does

    Reports a tensor that a module makes in its constructor, keeps as a plain attribute and computes with in `forward`.

    ## Why is this bad?

    Only parameters and buffers follow the module. After `model.to("cuda")` the tensor is still on the CPU, and
    `forward` raises "Expected all tensors to be on the same device". `model.half()` leaves it in float32, and the state
    dict does not have it.

    ## Example

    ```python
    import torch
    import torch.nn as nn


    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.mask = torch.tril(torch.ones(size, size))

        def forward(self, scores):
            return scores * self.mask
    ```

    ## Use instead

    ```python
    import torch
    import torch.nn as nn


    class Attention(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(size, size)), persistent=False)

        def forward(self, scores):
            return scores * self.mask
    ```

    With `persistent=False` the tensor follows the module but is not saved, so that checkpoints of before still load.

    ## Exceptions

    Tensors that are moved where they are used, made with a device, or written again later; tensors of one number,
    single elements (`schedule[epoch]`) and indices (`x[self.order]`), which may stay on the CPU; Lightning modules;
    classes that move their tensors themselves.

    ## References

    - [torch.nn.Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "TL104"
    name = "unregistered-tensor"
    level = Level.WARNING
    fix = FixKind.UNSAFE
    summary = "A plain tensor of a module stays where it was made when the module is moved."

    @on_module_class()
    def check(self, view: ClassView, unit: Unit) -> Iterator[Diagnosis]:
        if view.method("__init__") is None or not _OWN_WAY.isdisjoint(view.method_names):
            return
        if any(name.startswith(_FRAMEWORKS) for name in view.semantics.ancestors(view.node)):
            return
        if view.semantics.module.mentions_any_call(_DEFAULTS):
            return
        making = _making(view)
        running: frozenset[FunctionNode] | None = None
        for name in view.attributes:
            plain = _plain_tensors(name, view, making)
            if not plain:
                continue
            if running is None:
                running = _running(view) - making
            use = _use_in_forward(name, view, running)
            if use is not None:
                yield from (self._diagnosis(write, use) for write in plain)

    def _diagnosis(self, write: AttributeWrite, use: ast.expr) -> Diagnosis:
        statement, value = write.statement, write.value
        assert value is not None
        fixes = []
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            title = f'Register it: `register_buffer("{write.name}", ..., persistent=False)`'
            fixes = [
                FixPlan(
                    title,
                    "unsafe",
                    lambda edit: edit.replace(
                        statement,
                        f'{write.base}.register_buffer("{write.name}", {edit.source(value)}, persistent=False)',
                    ),
                )
            ]
        return self.found(
            write.target,
            f"`self.{write.name}` is a plain tensor: it stays on the CPU when the module is moved to another device.",
            related=[(use, "`forward` computes with it here")],
            fixes=fixes,
        )


def _making(view: ClassView) -> frozenset[FunctionNode]:
    """The constructor and those of bases in this file, with the methods that they call."""
    semantics = view.semantics
    owners = semantics.method_owners(view.node)
    queue = [semantics.module.method(node, "__init__") for node in semantics.lineage(view.node)]
    found: set[FunctionNode] = set()
    while queue:
        method = queue.pop()
        if method is not None and method not in found:
            found.add(method)
            called = {attribute.attr for attribute in self_attributes(method)}
            queue += [semantics.module.method(owners[name], name) for name in called if name in owners]
    return frozenset(found)


def _running(view: ClassView) -> frozenset[FunctionNode]:
    """What runs when the module is called: ``forward`` with the methods that it calls, or those of its subclasses in
    this file; all methods of a class that has none."""
    if view.semantics.find_method(view.node, "forward") is not None:
        return view.called_from("forward")
    found: set[FunctionNode] = set()
    for facts in view.semantics.module.classes():
        if view.node in view.semantics.local_bases(facts.header):
            found |= ClassView(view.semantics, facts.header).called_from("forward")
    return frozenset(found or view.methods)


def _plain_tensors(name: str, view: ClassView, making: frozenset[FunctionNode]) -> list[AttributeWrite]:
    """Where the constructor, or a method that it calls, gives an attribute a tensor of the CPU; none of them where
    another method may give it one, or where it may be something else than that, a parameter or None."""
    writes = view.writes(name)
    made = [write for write in writes if write.value is not None and enclosing_function(write.statement) in making]
    if any(write.path or write.augmented for write in made):
        return []
    tensors = [write for write in made if _may_be_tensor(write.value, view.semantics)]
    if not tensors or not all(write in tensors or _is_none_or_parameter(write, view) for write in made):
        return []
    later = (write for write in writes if enclosing_function(write.statement) not in making)
    if not all(write.augmented or _reads_itself(write) for write in later):
        return []
    plain = [write for write in tensors if write.value is not None and is_made_here(write.value, view.semantics)]
    return plain if all(write in plain or _is_none_or_parameter(write, view) for write in tensors) else []


def _may_be_tensor(value: ast.expr | None, semantics: Semantics, depth: int = 0) -> bool:
    """What the form of a value allows, and of all that its name is bound to: asked of every attribute, before its
    value is followed along the paths of a function."""
    match value:
        case ast.Call(func=ast.Name(id=called)) if called in _BUILTINS:
            return False
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)):
            if called[:1].isupper() or called.endswith("Tensor"):
                return called.endswith("Tensor")
            name = semantics.name(value.func)
            return not name or name.startswith((".", "torch.", "numpy."))
        case ast.Name():
            bound = [item for item in semantics.bindings(value) if item.kind is not Binding.PARAMETER]
            return any(
                depth > _DEEPEST
                or item.kind is not Binding.ASSIGNMENT
                or bool(item.path)
                or _may_be_tensor(item.value, semantics, depth + 1)
                for item in bound
            )
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements and depth <= _DEEPEST:
            return any(_may_be_tensor(element, semantics, depth + 1) for element in elements)
        case ast.IfExp(body=body, orelse=orelse):
            return any(_may_be_tensor(side, semantics, depth) for side in (body, orelse))
        case ast.Constant() | ast.JoinedStr() | ast.Dict() | ast.Lambda() | ast.BoolOp() | None:
            return False
        case _:
            return True


def _is_none_or_parameter(write: AttributeWrite, view: ClassView) -> bool:
    """Whether an attribute is given None, or a parameter that is not made of the tensor that it held before."""
    if isinstance(write.value, ast.Constant):
        return write.value.value is None
    return view.semantics.is_call_to(write.value, "torch.nn.Parameter") and not _reads_itself(write)


def _reads_itself(write: AttributeWrite) -> bool:
    """Whether an attribute is given what is computed from itself (``self.mean = 0.9 * self.mean + 0.1 * new``)."""
    reads = nodes_within(write.value, ast.Attribute) if write.value is not None else ()
    return any(isinstance(read, ast.Attribute) and read.attr == write.name for read in reads)


def _use_in_forward(name: str, view: ClassView, running: frozenset[FunctionNode]) -> ast.expr | None:
    """Where ``forward``, or a method that it calls, computes with an attribute; None if it moves it anywhere."""
    found: ast.expr | None = None
    for method in sorted(running, key=lambda one: one.lineno):
        for node in self_attributes(method):
            if node.attr != name:
                continue
            for fate, _ in _fates(node, view):
                if fate is Fate.MOVED:
                    return None
                found = found or node
    return found


def _fates(node: ast.Attribute, view: ClassView) -> Iterator[tuple[Fate, ast.expr]]:
    if isinstance(node.ctx, ast.Load):
        yield from fates_of(view.semantics, node)
        return
    statement = parent_of(node)
    if isinstance(statement, ast.AugAssign) and is_input_tensor(view.semantics, statement.value):
        yield Fate.MEETS_INPUT, node
