"""What the actions of a training flow are to gradient scalers: scaled backward passes, unscaling, steps, updates."""

from __future__ import annotations

from enum import Enum, auto

from torchlint.frozen import dataclass
from torchlint.idioms.training.gradient_actions import is_backward
from torchlint.idioms.training.vocabulary import Training
from torchlint.semantics.flow import Action, Ref, is_within


class Scaling(Enum):
    """What an action is to gradient scalers."""

    NOTHING = auto()
    #: A backward pass of a loss that a scaler scaled, and one of any other loss.
    SCALED_BACKWARD = auto()
    BACKWARD = auto()
    #: ``scaler.step(optimizer)``, ``scaler.unscale_(optimizer)`` and ``scaler.update()``.
    STEP = auto()
    UNSCALE = auto()
    UPDATE = auto()
    #: ``scaler.load_state_dict(...)``, and what only looks at a scaler or scales by it.
    LOAD = auto()
    LOOK = auto()
    #: Code that cannot be seen has the scaler, and may do anything with it.
    UNSEEN = auto()


@dataclass(frozen=True, eq=False, slots=True)
class ScalerAction:
    """``scaler`` is the scaler whose method is called or that scaled the loss; ``optimizer`` what it is given."""

    what: Scaling
    scaler: Ref | None = None
    optimizer: Ref | None = None


_METHODS = {
    "step": Scaling.STEP,
    "unscale_": Scaling.UNSCALE,
    "update": Scaling.UPDATE,
    "load_state_dict": Scaling.LOAD,
    "scale": Scaling.LOOK,
    "get_scale": Scaling.LOOK,
    "is_enabled": Scaling.LOOK,
    "state_dict": Scaling.LOOK,
}
_NOTHING = ScalerAction(Scaling.NOTHING)


def scaling_of(found: Training, action: Action) -> ScalerAction:
    """What an action of a flow is to the gradient scalers of the flow."""
    if is_backward(action):
        scaler = found.scaled.get(action)
        return ScalerAction(Scaling.BACKWARD if scaler is None else Scaling.SCALED_BACKWARD, scaler)
    receiver = action.receiver
    if found.is_scaler(receiver):
        optimizer = action.arguments[0] if action.arguments else None
        return ScalerAction(_METHODS.get(action.verb, Scaling.UNSEEN), receiver, optimizer)
    if action.verb == "..." or "unscale" in action.verb or any(map(found.is_scaler, action.arguments)):
        return ScalerAction(Scaling.UNSEEN)
    return _NOTHING


def is_handed(action: Action, scaler: str) -> bool:
    """Whether an action is given the scaler of this path, or what holds it."""
    return any(is_within(scaler, item.path) for item in action.arguments)
