"""classes.json: which classes of torch are modules, optimizers, schedulers, scalers, datasets, loaders or samplers."""

from __future__ import annotations

import torch
from torch.utils import data

from . import names

# The first base that fits names the role.
ROLES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("module", (torch.nn.Module,)),
    ("optimizer", (torch.optim.Optimizer,)),
    ("scheduler", (torch.optim.lr_scheduler.LRScheduler,)),
    ("scaler", (torch.amp.GradScaler,)),
    ("loader", (data.DataLoader,)),
    ("dataset", (data.Dataset,)),
    ("sampler", (data.Sampler,)),
    ("distribution", (torch.distributions.Distribution,)),
    ("parameter", (torch.nn.Parameter, torch.nn.UninitializedParameter)),
    ("autograd-function", (torch.autograd.Function,)),
)


def build() -> dict[str, str]:
    """Canonical name -> role."""
    bindings = names.all_bindings()
    aliases = {f"{module}.{name}" for module, entries in names.build().items() for name in entries}
    table: dict[str, str] = {}
    for dotted, value in bindings.items():
        if dotted in aliases or not isinstance(value, type):
            continue
        # private bases count too where they are at home: user code derives from `torch.nn.modules.loss._Loss`
        at_home = dotted == f"{value.__module__}.{value.__qualname__}" and "._" not in value.__module__
        if not at_home and not names.is_exported(dotted, value):
            continue
        for role, bases in ROLES:
            if issubclass(value, bases):
                table[dotted] = role
                break
    return table
