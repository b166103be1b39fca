"""torchvision.json: models, datasets and other classes of torchvision; torchvision_names.json: their canonical names;
torchvision_weights.json: the old arguments of the builders of models.

Builders are run with their weights on the meta device, so that nothing is downloaded and no memory is used.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from typing import Any

import torch
from torch.library import Library
from torch.overrides import TorchFunctionMode

from . import names

# Operators of torchvision's C++ part, as far as importing its Python part needs them.
OPERATORS = ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")


def load() -> types.ModuleType:
    """torchvision; where its C++ part does not load (a CUDA build on a machine without), its Python part alone."""
    try:
        import torchvision
    except RuntimeError:
        library = Library("torchvision", "DEF")
        for name in OPERATORS:
            boxes = "(Tensor dets, Tensor scores, float iou_threshold)" if name.endswith("nms") else "(Tensor input)"
            for each in (name, f"_{name}_backward"):
                library.define(f"{each}{boxes} -> Tensor")
        globals()["_kept"] = library  # the definitions go with the object
        import torchvision
    module: types.ModuleType = torchvision
    return module


class WeightsOnMeta(TorchFunctionMode):  # type: ignore[misc]  # torch is not there for the type checker
    """Layers make their weights with `torch.empty`; what models compute with uses other functions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{**(kwargs or {}), **({"device": "meta"} if func is torch.empty else {})})


def is_mode_dependent(module: torch.nn.Module) -> bool:
    """Whether a submodule that is mode dependent as configured, or a forward that reads `self.training`, is inside."""
    import torchvision

    for each in module.modules():
        if isinstance(each, (torch.nn.modules.batchnorm._NormBase)):
            if each.track_running_stats:
                return True
        elif isinstance(each, (torch.nn.modules.dropout._DropoutNd, torchvision.ops.StochasticDepth)):
            if each.p > 0:
                return True
        elif isinstance(each, (torch.nn.MultiheadAttention, torch.nn.RNNBase)):
            if each.dropout > 0:
                return True
        elif type(each).__module__.startswith("torchvision.") and "self.training" in inspect.getsource(type(each)):
            return True
    return False


def builders(torchvision: types.ModuleType) -> dict[str, Any]:
    """Canonical name -> whether what the builder returns by default depends on the mode."""
    found: dict[str, bool] = {}
    for registered in torchvision.models.list_models():
        builder = torchvision.models.get_model_builder(registered)
        without_weights = {p: None for p in inspect.signature(builder).parameters if p.startswith("weights")}
        try:
            with torch.device("meta"):
                model = builder(**without_weights)
        except NotImplementedError:  # it reads numbers out of tensors to find its widths or rates
            with WeightsOnMeta():
                model = builder(**without_weights)
        found[f"{builder.__module__}.{builder.__name__}"] = is_mode_dependent(model)
    return found


def build_weights() -> dict[str, dict[str, list[str]]]:
    """Canonical name of a model builder -> old argument -> [argument of torchvision 0.13, what True means there].

    True means no weights where torchvision computes them from other arguments, or has none.
    """
    torchvision = load()
    aliases = flat_names(torchvision)
    table: dict[str, dict[str, list[str]]] = {}
    for registered in torchvision.models.list_models():
        builder = torchvision.models.get_model_builder(registered)
        legacy = old_arguments(builder)
        if legacy:
            dotted = f"{builder.__module__}.{builder.__name__}"
            table[aliases.get(dotted, dotted)] = {
                old: [new, public_name(torchvision, default)] for new, (old, default) in legacy.items()
            }
    return table


def old_arguments(builder: Any) -> dict[str, tuple[str, Any]]:
    """What the decorator handle_legacy_interface (torchvision/models/_utils.py) was given."""
    while builder is not None:
        names_of_cells = builder.__code__.co_freevars
        cells = dict(zip(names_of_cells, (cell.cell_contents for cell in builder.__closure__ or ()), strict=True))
        if "weights" in cells and "builder" in cells:
            found: dict[str, tuple[str, Any]] = cells["weights"]
            return found
        builder = getattr(builder, "__wrapped__", None)
    return {}


def public_name(torchvision: types.ModuleType, weights: Any) -> str:
    """The dotted name of a member of an enumeration of weights, by the package that shows it."""
    if not isinstance(weights, torchvision.models.WeightsEnum):
        return ""
    module = type(weights).__module__
    while not hasattr(sys.modules[module.rpartition(".")[0]], type(weights).__name__):
        module = module.rpartition(".")[0]
    return f"{module.rpartition('.')[0]}.{type(weights).__name__}.{weights.name}"


def build() -> dict[str, list[Any]]:
    """Canonical name -> [role], and for model builders whether the model depends on the mode."""
    torchvision = load()
    aliases = flat_names(torchvision)
    table: dict[str, list[Any]] = {}
    for dotted, depends in builders(torchvision).items():
        table[aliases.get(dotted, dotted)] = ["model", depends]
    for dotted, value in names.all_bindings(torchvision).items():
        if dotted in aliases or not isinstance(value, type) or not names.is_exported(dotted, value):
            continue
        if issubclass(value, torch.nn.Module):
            table[dotted] = ["transform" if dotted.startswith("torchvision.transforms.") else "module"]
        elif issubclass(value, torch.utils.data.Dataset):
            table[dotted] = ["dataset"]
        elif issubclass(value, torch.utils.data.Sampler):
            table[dotted] = ["sampler"]
    return table


def flat_names(torchvision: types.ModuleType) -> dict[str, str]:
    table = names.build(torchvision)
    return {f"{module}.{name}": target for module, entries in table.items() for name, target in entries.items()}


def build_names() -> dict[str, dict[str, str]]:
    """As names.json, for torchvision."""
    return names.build(load())


def available() -> bool:
    """Whether torchvision is installed: without it, its two files are left as they are."""
    return importlib.util.find_spec("torchvision") is not None
