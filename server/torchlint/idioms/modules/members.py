"""The modules in a module: loops over them (``for child in model.children()``), and their names in torchvision."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.semantics.scopes import Binding, Definition
from torchlint.semantics.semantics import Semantics

_DEEPEST = 6
#: Iterators over modules, and where in one of their elements the module stands.
_ITERATORS: dict[str, tuple[int | None, ...]] = {
    "modules": (),
    "children": (),
    "named_modules": (1,),
    "named_children": (1,),
}
#: What the modules inside of torchvision's models are called: no parameter has one of these names.
_TORCHVISION = frozenset(
    "AuxLogits aux_classifier avgpool backbone bn1 body box_head box_predictor classifier conv1 conv_proj encoder fc "
    "features fpn head heads layer1 layer2 layer3 layer4 layers mask_head mask_predictor maxpool relu roi_heads rpn "
    "stem trunk_output".split()
)
_ROWS = ("torch.nn.ModuleList", "torch.nn.Sequential")


def module_iterator(expression: ast.expr, semantics: Semantics) -> str | None:
    """The method ("children", "named_modules", ...) whose loop gives a name its value, one module after the other.

    None for anything that is not known to be a module of such a loop.
    """
    if not isinstance(expression, ast.Name):
        return None
    found: set[str | None] = set()
    for definition in semantics.definitions(expression):
        source, path = looped(definition)
        if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
            return None
        method = source.func.attr
        if _ITERATORS.get(method, (None,)) != path or not _is_of_module(source.func.value, semantics):
            return None
        found.add(method)
    return next(iter(found)) if len(found) == 1 else None


def is_member(expression: ast.expr, semantics: Semantics, depth: int = 0) -> bool:
    """Whether something that has no kind of its own is a module inside of another: one of a loop, the ``.module`` of a
    wrapper, ``resnet.layer1`` or ``vgg.features[0]`` of torchvision."""
    if depth > _DEEPEST:
        return False
    match expression:
        case ast.Name():
            definitions = semantics.definitions(expression)
            loops = [looped(definition) for definition in definitions]
            return module_iterator(expression, semantics) is not None or (
                bool(loops) and all(not path and _is_row(source, semantics, depth) for source, path in loops)
            )
        case ast.Attribute(value=base, attr=name):
            kind = semantics.kind(base)
            if kind is not None:
                whole = kind.is_module and kind.class_node is None and kind.origin.startswith("torch")
                return whole and (
                    name == "module" or (torch_api.is_torchvision_model(kind.origin) and name in _TORCHVISION)
                )
            return name in _TORCHVISION and is_member(base, semantics, depth + 1)
        case ast.Subscript(value=base):
            return isinstance(base, ast.Attribute) and is_member(base, semantics, depth + 1)
        case _:
            return False


def _is_row(source: ast.expr | None, semantics: Semantics, depth: int) -> bool:
    """Whether something that is looped over is a list of modules: ``self.layers``, ``vgg.features``."""
    if source is None:
        return False
    kind = semantics.kind(source)
    return kind.origin in _ROWS if kind is not None else is_member(source, semantics, depth + 1)


def looped(definition: Definition) -> tuple[ast.expr | None, tuple[int | None, ...]]:
    """What the loop of a definition runs over, and the way into one of its elements: through ``list(...)[:-1]`` and
    ``enumerate(...)``. None for a definition that is of no loop."""
    if definition.kind not in (Binding.LOOP, Binding.COMPREHENSION):
        return None, ()
    source, path = definition.value, definition.path
    while True:
        match source:
            case ast.Subscript(value=inner, slice=ast.Slice()):
                source = inner
            case ast.Call(func=ast.Name(id="list" | "tuple" | "reversed"), args=[inner], keywords=[]):
                source = inner
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if path[:1] == (1,):
                source, path = inner, path[1:]
            case _:
                return source, path


def _is_of_module(receiver: ast.expr, semantics: Semantics) -> bool:
    """Whether something is a module, or unknown (then the method's name is evidence enough)."""
    owner = semantics.class_of_self(receiver)
    if owner is not None:
        return semantics.is_module_class(owner)
    kind = semantics.kind(receiver)
    return kind is None or kind.is_module
