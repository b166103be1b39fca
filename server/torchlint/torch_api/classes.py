"""Which classes are optimizers, schedulers, scalers, loaders, datasets, samplers, by their bases in torch 2.13.

Those of torchvision 0.28 too, with its model builders (scripts/torch_index/classes.py and vision.py).
"""

from __future__ import annotations

from .names import canonical
from .tables import table

# These step with a closure that computes the loss again: torch 2.13, `torch.optim.LBFGS.step(closure)`.
_CLOSURE_REQUIRED = frozenset({"torch.optim.LBFGS"})

# `step(metrics)` has no default: torch 2.13, `torch.optim.lr_scheduler.ReduceLROnPlateau.step`.
_METRIC_REQUIRED = frozenset({"torch.optim.lr_scheduler.ReduceLROnPlateau"})


def role(name: str) -> str | None:
    """What an object made by calling the name is, or None for a name that is not known to make one of these.

    "module", "optimizer", "scheduler", "scaler", "loader", "dataset", "sampler", "distribution", "parameter",
    "autograd-function"; of torchvision also "model" (a function of torchvision.models that builds a module) and
    "transform" (a module of torchvision.transforms, which has no parameters).
    """
    name = canonical(name)
    found: str | None = table("classes").get(name)
    if found is None and name.startswith("torchvision."):
        found = table("torchvision").get(name, (None,))[0]
    return found


def names_of_role(wanted: str) -> tuple[str, ...]:
    """The canonical names of torch whose ``role`` is ``wanted``, in alphabetical order."""
    return tuple(sorted(name for name, found in table("classes").items() if found == wanted))


def is_torchvision_model(name: str) -> bool:
    """Whether the name is a model builder of torchvision, e.g. `torchvision.models.resnet18`."""
    return role(name) == "model"


def torchvision_model_mode_dependent(name: str) -> bool | None:
    """Whether train() and eval() make a difference for what the builder makes by default; None for other names.

    Few do not: `torchvision.models.vit_b_16` has only dropout layers of probability 0 unless it is told otherwise.
    """
    entry = table("torchvision").get(canonical(name))
    return entry[1] if entry and entry[0] == "model" else None


def is_optimizer(name: str) -> bool:
    """Whether the name is torch.optim.Optimizer or a class of torch that derives from it."""
    return role(name) == "optimizer"


def closure_required(name: str) -> bool:
    """Whether the optimizer's `step` cannot be called without a closure."""
    return canonical(name) in _CLOSURE_REQUIRED


def is_scheduler(name: str) -> bool:
    """Whether the name is a learning rate scheduler of torch, its base classes included."""
    return role(name) == "scheduler"


def needs_metric(name: str) -> bool:
    """Whether the scheduler's `step` needs the metric that it watches."""
    return canonical(name) in _METRIC_REQUIRED


def is_scaler(name: str) -> bool:
    """Whether the name is a gradient scaler of automatic mixed precision."""
    return role(name) == "scaler"


def is_loader(name: str) -> bool:
    """Whether the name is torch.utils.data.DataLoader."""
    return role(name) == "loader"


def is_dataset(name: str) -> bool:
    """Whether the name is a dataset class of torch, its base classes included, or of torchvision.datasets."""
    return role(name) == "dataset"


def is_sampler(name: str) -> bool:
    """Whether the name is a sampler class of torch, its base class included."""
    return role(name) == "sampler"
