"""Which classes are optimizers, schedulers, scalers, loaders, datasets, samplers: by their bases in torch 2.13."""

from __future__ import annotations

from .names import canonical
from .tables import table

# These step with a closure that computes the loss again: torch 2.13, `torch.optim.LBFGS.step(closure)`.
_CLOSURE_REQUIRED = frozenset({"torch.optim.LBFGS"})

# `step(metrics)` has no default: torch 2.13, `torch.optim.lr_scheduler.ReduceLROnPlateau.step`.
_METRIC_REQUIRED = frozenset({"torch.optim.lr_scheduler.ReduceLROnPlateau"})


def role(name: str) -> str | None:
    """ "module", "optimizer", "scheduler", "scaler", "loader", "dataset", "sampler", "distribution", "parameter",
    "autograd-function", or None for a name that is no such class."""
    found: str | None = table("classes").get(canonical(name))
    return found


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
