"""What an instance of a class is, and what an annotation promises."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint import torch_api
from torchlint.semantics.kinds import Grade, Kind, What
from torchlint.semantics.literals import literal_of

if TYPE_CHECKING:
    from torchlint.semantics.semantics import Semantics

_PROVEN = Grade.PROVEN
_ANNOTATIONS = {
    "torch.Tensor": What.TENSOR,
    "torch.FloatTensor": What.TENSOR,
    "torch.LongTensor": What.TENSOR,
    "torch.nn.Parameter": What.PARAMETER,
    "torch.optim.Optimizer": What.OPTIMIZER,
    "torch.device": What.DEVICE,
    "torch.dtype": What.DTYPE,
    "torch.utils.data.DataLoader": What.LOADER,
    "torch.nn.Module": What.MODULE,
    "numpy.ndarray": What.ARRAY,
}
_BUILTIN_ANNOTATIONS = {
    "int": What.NUMBER,
    "float": What.NUMBER,
    "bool": What.NUMBER,
    "str": What.TEXT,
    "list": What.LIST,
    "dict": What.MAPPING,
    "tuple": What.TUPLE,
}
_BASES = {"torch.nn.Module": What.MODULE, "torch.optim.Optimizer": What.OPTIMIZER}
_CLASSES: tuple[tuple[What, Callable[[str], bool]], ...] = (
    (What.LOSS, torch_api.is_loss_class),
    (What.MODULE, torch_api.is_module_class),
    (What.OPTIMIZER, torch_api.is_optimizer),
    (What.SCHEDULER, torch_api.is_scheduler),
    (What.SCALER, torch_api.is_scaler),
    (What.LOADER, torch_api.is_loader),
    (What.DATASET, torch_api.is_dataset),
    (What.SAMPLER, torch_api.is_sampler),
    (What.PARAMETER, lambda name: name in ("torch.nn.Parameter", "torch.nn.UninitializedParameter")),
    (What.TENSOR, lambda name: name == "torch.Tensor"),
    (What.DEVICE, lambda name: name == "torch.device"),
    (What.GENERATOR, lambda name: name == "torch.Generator"),
)


class InstanceKinds:
    """Answers for classes by name."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics

    def annotated(self, annotation: ast.expr | None) -> Kind | None:
        """The kind that an annotation promises; that of a ``list[...]`` or ``dict[...]`` has it as its node."""
        if annotation is None:
            return None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return None
        if isinstance(annotation, ast.Subscript):
            base = self._semantics.names(annotation.value)
            if "typing.Optional" in base:
                return self.annotated(annotation.slice)
            if isinstance(annotation.value, ast.Name):
                what = _BUILTIN_ANNOTATIONS.get(annotation.value.id.lower())
                node = annotation if what in (What.LIST, What.MAPPING) else None
                return Kind(what, _PROVEN, "annotated", node=node) if what is not None else None
            return None
        if isinstance(annotation, ast.BinOp):
            sides = [side for side in (annotation.left, annotation.right) if literal_of(side) is not None]
            return self.annotated(sides[0]) if len(sides) == 1 else None
        names = self._semantics.names(annotation)
        if len(names) == 1:
            (name,) = names
            what = _ANNOTATIONS.get(name)
            if what is not None:
                return Kind(what, _PROVEN, "annotated", name)
            instance = self.instance_of(name, annotation, None)
            if instance is not None:
                return Kind(instance.what, _PROVEN, "annotated", name, None, instance.class_node)
        elif isinstance(annotation, ast.Name) and annotation.id in _BUILTIN_ANNOTATIONS:
            return Kind(_BUILTIN_ANNOTATIONS[annotation.id], _PROVEN, "annotated")
        return None

    def instance_of(self, name: str, expression: ast.expr, call: ast.Call | None) -> Kind | None:
        """The kind of an instance of the class ``name``."""
        if name.startswith("."):
            node = self._semantics.local_class(expression)
            if node is None:
                return None
            return self._of_local_class(name, node, call)
        for what, test in _CLASSES:
            if test(name):
                return Kind(what, _PROVEN, f"built by {name}", name, call)
        return None

    def _of_local_class(self, name: str, node: ast.ClassDef, call: ast.Call | None) -> Kind | None:
        ancestors = self._semantics.ancestors(node)
        for what, test in _CLASSES:
            if any(test(ancestor) for ancestor in ancestors):
                return Kind(what, _PROVEN, f"an instance of {name[1:]}", name, call, node)
        for ancestor, what in _BASES.items():
            if ancestor in ancestors:
                return Kind(what, _PROVEN, f"an instance of {name[1:]}", name, call, node)
        return Kind(What.OTHER, _PROVEN, f"an instance of {name[1:]}", name, call, node)
