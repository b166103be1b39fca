"""What single actions of a flow do to gradients, whoever owns them."""

from __future__ import annotations

import ast

from torchlint.regex import regex
from torchlint.semantics.flow import Action
from torchlint.semantics.kinds import Kind, What
from torchlint.semantics.scopes import last_name

#: Functions that take an optimizer and cannot clear its gradients.
HARMLESS = regex(
    r"(^|[._:])(print|len|type|id|str|repr|vars|isinstance|issubclass|hasattr|getattr|setattr|callable|enumerate|zip)$"
    r"|lr|learning_rate|save|checkpoint|log|dump|summary|sched|warm|decay|momentum|^torch\."
)
_CLIP = regex(r"^(torch\.nn\.utils\.(clip_grad\.)?clip_grads?_(norm_?|value_|with_norm_)|clip_grad_norm_)$")


def is_backward(action: Action) -> bool:
    """Whether an action adds to gradients: ``loss.backward()`` or ``torch.autograd.backward(...)``."""
    if action.verb == "torch.autograd.backward":
        return True
    return action.verb == "backward" and action.receiver is not None and not is_foreign_backward(action)


def is_foreign_backward(action: Action) -> bool:
    """``engine.backward(loss)``: a backward pass that somebody else runs, and who knows what else with it."""
    if action.verb != "backward" or action.receiver is None or not isinstance(action.node, ast.Call):
        return False
    return bool(action.node.args) and not is_certain_tensor(action.receiver.kind)


def is_certain_tensor(kind: Kind | None) -> bool:
    """Whether a value is a tensor by more than that ``backward()`` is called on it, as on an engine or accelerator."""
    return kind is not None and kind.is_tensor and not kind.evidence.endswith("is called on it")


def cleared_gradient(action: Action) -> str | None:
    """The path of the module or optimizer that owns the gradient which an action clears (``p.grad = None``,
    ``p.grad.zero_()``); empty where it is not known; None if the action clears no gradient."""
    receiver = action.receiver
    if receiver is None:
        return None
    if action.verb == "grad=":
        given = action.arguments[0].kind if action.arguments else None
        return _owner_of_element(receiver.path) if given is not None and given.what is What.NONE else None
    if action.verb in ("zero_", "fill_"):
        parts = receiver.path.split(".")
        if parts[-1] == "data":
            parts.pop()
        return _owner_of_element(".".join(parts[:-1])) if parts[-1] == "grad" else None
    return None


def _owner_of_element(path: str) -> str:
    for mark in (".parameters()[]", ".param_groups"):
        head, found, _ = path.partition(mark)
        if found:
            return head
    return ""


def is_clip(action: Action) -> bool:
    """Whether an action clips gradients: torch's functions, or the method of FSDP modules."""
    return _CLIP.search(action.verb) is not None


def may_touch_gradients(action: Action) -> bool:
    """Whether an action runs code that cannot be seen and that may write gradients (torch's own calls do not)."""
    if action.verb in ("?", "...", "()"):
        return action.verb != "()" and not HARMLESS.search(called_name(action))
    return "." in action.verb and not action.verb.startswith(("torch.", "numpy.", "math.", "time.", "super."))


def called_name(action: Action) -> str:
    """The name by which an action calls something, as it is written."""
    if action.verb not in ("?", "()", "..."):
        return action.verb
    function = action.node.func if isinstance(action.node, ast.Call) else None
    return last_name(function)
