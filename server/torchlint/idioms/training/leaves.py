"""Leaf tensors that certainly require gradients: created so, parameters of modules, parameters that are optimized."""

from __future__ import annotations

import ast

from torchlint.frozen import dataclass
from torchlint.idioms.training.in_place import changes_in_place
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import element_of, enclosing_class, enclosing_function, nodes_within
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics
from torchlint.syntax import parent_of

_CREATED = frozenset(
    f"torch.{name}"
    for name in "tensor zeros ones full empty rand randn randint arange linspace eye normal zeros_like ones_like "
    "full_like empty_like rand_like randn_like".split()
)
_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding "
    "EmbeddingBag LayerNorm GroupNorm BatchNorm1d BatchNorm2d BatchNorm3d".split()
)
_OPTIMIZER = frozenset(("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"))
_VARIABLE = ("torch.autograd.Variable", "torch.autograd.variable.Variable")
_PARAMETER = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")


@dataclass(frozen=True, eq=False, slots=True)
class Leaf:
    """``node``: what tells that it is a leaf, in words ("created here"). ``is_local``: made in the same function."""

    node: ast.AST
    what: str
    is_local: bool = False


def leaf_of(semantics: Semantics, target: ast.expr) -> Leaf | None:
    """What tells that an expression is a leaf that requires gradients; None where it may be something else."""
    match target:
        case ast.Name():
            return _of_name(semantics, target)
        case ast.Attribute():
            return _of_attribute(semantics, target)
        case _:
            return None


def may_freeze(semantics: Semantics) -> bool:
    """Whether anything in the file changes ``requires_grad`` of something."""
    module = semantics.module
    return module.writes_attribute_of_others("requires_grad") or bool(module.calls_of("requires_grad_"))


def _may_be_leaf(definition: Definition) -> bool:
    """What the form of a binding allows: asked of each name that is changed, before paths are followed to it."""
    if definition.kind is Binding.ASSIGNMENT:
        return isinstance(definition.value, ast.Call)
    return definition.kind in (Binding.LOOP, Binding.COMPREHENSION)


def _of_name(semantics: Semantics, name: ast.Name) -> Leaf | None:
    if not any(map(_may_be_leaf, semantics.bindings(name))):
        return None
    definitions = _original_definitions(semantics, name)
    if not definitions:
        return None
    found = [_of_definition(semantics, definition, name) for definition in definitions]
    if None in found or _is_released(semantics, name):
        return None
    return found[0]


def _original_definitions(semantics: Semantics, name: ast.Name) -> list[Definition]:
    """What a name was bound to before ``w -= ...``, which leaves it the same object."""
    found: dict[Definition, None] = {}
    queue, seen = [name], {name}
    while queue:
        for definition in semantics.definitions(queue.pop()):
            match definition.node:
                case ast.AugAssign(target=ast.Name() as target) if definition.kind is Binding.AUGMENTED:
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
                case _:
                    found[definition] = None
    return list(found)


def _is_released(semantics: Semantics, name: ast.Name) -> bool:
    """Whether the function makes what a name holds no leaf, or one that requires no gradients."""
    for change in changes_in_place(semantics, name):
        match change:
            case ast.Attribute() | ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[_, *_]):
                return True
            case _:
                pass
    return False


def _of_definition(semantics: Semantics, definition: Definition, use: ast.Name) -> Leaf | None:
    value = definition.value
    if value is None:
        return None
    if definition.kind is Binding.ASSIGNMENT and not definition.path and isinstance(value, ast.Call):
        return _created(semantics, value, enclosing_function(value) is enclosing_function(use))
    if definition.kind not in (Binding.LOOP, Binding.COMPREHENSION):
        return None
    kind = semantics.definition_kind(definition)
    if kind is not None and kind.what is What.PARAMETER:
        trained = _gradient_is_read(use) or (kind.proven and not may_freeze(semantics))
        return Leaf(definition.node, "a parameter of a module") if trained else None
    return Leaf(definition.node, "a parameter that is optimized") if _of_group(semantics, value, use) else None


def _created(semantics: Semantics, call: ast.Call, is_local: bool) -> Leaf | None:
    name = semantics.name(call.func)
    requires = next((semantics.literal(item.value) for item in call.keywords if item.arg == "requires_grad"), None)
    unpacked = any(item.arg is None for item in call.keywords)
    if name in _PARAMETER and requires in (None, True) and len(call.args) == 1 and not unpacked:
        return Leaf(call, "a parameter that is created here", is_local)
    if requires is True and (name in _CREATED or name in _VARIABLE):
        return Leaf(call, "created here with `requires_grad=True`", is_local)
    return None


def _gradient_is_read(use: ast.Name) -> bool:
    """Whether the statement or loop around a use reads ``p.grad``: only what is optimized has one."""
    current: ast.AST | None = use
    while current is not None and not isinstance(current, ast.For):
        current = parent_of(current)
    return current is not None and any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.value, ast.Name)
        and node.value.id == use.id
        for node in nodes_within(current, ast.Attribute)
    )


def _of_group(semantics: Semantics, source: ast.expr, use: ast.Name) -> bool:
    """``for p in group["params"]`` in the ``step`` of an optimizer class of this file."""
    function = enclosing_function(use)
    holder = enclosing_class(use)
    if function is None or function.name != "step" or holder is None:
        return False
    match source:
        case ast.Subscript(value=ast.Name(id="group"), slice=ast.Constant(value="params")):
            return not _OPTIMIZER.isdisjoint(semantics.ancestors(holder))
        case _:
            return False


def _of_attribute(semantics: Semantics, target: ast.Attribute) -> Leaf | None:
    """``self.weight`` that the class only ever makes a parameter, ``self.layer.weight`` and ``layer.bias``."""
    owner = semantics.class_of_self(target.value)
    if owner is not None:
        writes = semantics.module.attribute_writes(owner, target.attr)
        values = [element_of(w.value, w.path) if w.value is not None and w.path else w.value for w in writes]
        if not writes or not all(isinstance(value, ast.Call) for value in values):
            return None
        found = [_created(semantics, value, False) for value in values if isinstance(value, ast.Call)]
        return found[0] if None not in found and not may_freeze(semantics) else None
    base = semantics.kind(target.value)
    if base is None and target.attr in ("weight", "bias"):
        asked = _asked_for_layer(semantics, target)
        return Leaf(asked, "a layer with parameters, as asked here") if asked and not may_freeze(semantics) else None
    built = base.node if base is not None and base.proven and base.what is What.MODULE else None
    if base is None or not isinstance(built, ast.Call) or target.attr not in ("weight", "bias"):
        return None
    layer = base.origin in _LAYERS and semantics.name(built.func) == base.origin
    return Leaf(built, "a parameter of this layer") if layer and not may_freeze(semantics) else None


def _asked_for_layer(semantics: Semantics, target: ast.Attribute) -> ast.Call | None:
    """The test around ``m.weight`` that lets only layers with parameters pass: ``if isinstance(m, nn.Linear):``."""
    child: ast.AST = target
    current = parent_of(target)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(current, ast.If) and child in current.body:
            tests = current.test.values if isinstance(current.test, ast.BoolOp) else [current.test]
            alternative = isinstance(current.test, ast.BoolOp) and isinstance(current.test.op, ast.Or)
            for test in tests if not alternative else ():
                match test:
                    case ast.Call(func=ast.Name(id="isinstance"), args=[asked, given]):
                        classes = given.elts if isinstance(given, ast.Tuple) else [given]
                        is_layer = all(semantics.name(item) in _LAYERS for item in classes)
                        if is_layer and ast.unparse(asked) == ast.unparse(target.value):
                            return test
        child, current = current, parent_of(current)
    return None
