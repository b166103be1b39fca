"""Calls of torch's losses, as functions or as instances: what the prediction is, and what the loss expects."""

from __future__ import annotations

import ast

from torchlint import torch_api
from torchlint.frozen import dataclass
from torchlint.idioms.values.dataflow import Operation, last_operations
from torchlint.semantics.kinds import What
from torchlint.semantics.nodes import argument, contains
from torchlint.semantics.semantics import Semantics

#: Functions and methods that make probabilities of logits, and these and the layers that do.
SOFTMAX_FUNCTIONS = frozenset(
    ("torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax", "torch.Tensor.softmax")
)
SOFTMAXES = SOFTMAX_FUNCTIONS | {"torch.nn.Softmax", "torch.nn.Softmax2d"}
LOG_SOFTMAXES = frozenset(
    (
        "torch.log_softmax",
        "torch.nn.functional.log_softmax",
        "torch.special.log_softmax",
        "torch.Tensor.log_softmax",
        "torch.nn.LogSoftmax",
    )
)
SIGMOIDS = frozenset(
    (
        "torch.sigmoid",
        "torch.nn.functional.sigmoid",
        "torch.special.expit",
        "torch.Tensor.sigmoid",
        "torch.Tensor.sigmoid_",
        "torch.nn.Sigmoid",
    )
)
#: What gives numbers of any size and sign.
LINEAR_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
    "functional.linear".split()
)

_FUNCTIONS = frozenset(
    "cross_entropy binary_cross_entropy binary_cross_entropy_with_logits multilabel_soft_margin_loss nll_loss kl_div "
    "sigmoid_focal_loss mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss".split()
)
_CLASSES = frozenset(
    "CrossEntropyLoss BCEWithLogitsLoss MultiLabelSoftMarginLoss NLLLoss NLLLoss2d KLDivLoss BCELoss "
    "MSELoss L1Loss SmoothL1Loss HuberLoss PoissonNLLLoss".split()
)
_ALL = _FUNCTIONS | _CLASSES
#: Losses that compare element by element, and broadcast shapes that differ with no more than a warning (torch 2.13).
BROADCASTING = frozenset(
    f"torch.nn.{name}"
    for name in "MSELoss L1Loss SmoothL1Loss HuberLoss PoissonNLLLoss functional.mse_loss functional.l1_loss "
    "functional.smooth_l1_loss functional.huber_loss functional.poisson_nll_loss".split()
)


@dataclass(frozen=True, eq=False, slots=True)
class LossCall:
    """``name``: canonical name of the function or class (``torch.nn.CrossEntropyLoss``); ``built``: the constructor
    call of an instance, where it is known; ``target`` is None where it cannot be read."""

    call: ast.Call
    name: str
    prediction: ast.expr
    target: ast.expr | None
    built: ast.Call | None = None

    @property
    def shown(self) -> str:
        """The loss as the source spells it, in backticks: ``F.cross_entropy``, ``criterion``, ``nn.BCELoss()``."""
        return f"`{_short(self.call.func, 'the loss')}`"

    @property
    def shown_prediction(self) -> str:
        """The prediction as the source spells it, in backticks if it is short."""
        text = _short(self.prediction, "")
        return f"`{text}`" if text else "its input"


def loss_call(semantics: Semantics, call: ast.Call) -> LossCall | None:
    """The call as one of a loss of torch (or torchvision's focal loss) of a prediction and a target; else None."""
    if len(call.args) + len(call.keywords) < 2:
        return None
    return semantics.module.memo.cached(("loss call", call), lambda: _loss_call(semantics, call), None)


def last_operations_among(semantics: Semantics, loss: LossCall, names: frozenset[str]) -> tuple[Operation, ...]:
    """The last operations of the prediction if all paths end in one of ``names``; else none."""
    found = last_operations(semantics, loss.prediction)
    return found if all(operation.name in names for operation in found) else ()


def removable(loss: LossCall, operations: tuple[Operation, ...]) -> tuple[ast.expr, ast.expr] | None:
    """The operation and its operand, where it stands inside the call of the loss and nothing else sees its result."""
    if len(operations) != 1 or operations[0].through or operations[0].operand is None:
        return None
    (operation,) = operations
    if not isinstance(operation.node, ast.expr) or not contains(loss.prediction, operation.node):
        return None
    return operation.node, operations[0].operand


def _loss_call(semantics: Semantics, call: ast.Call) -> LossCall | None:
    name, built = _function(semantics, call.func), None
    if not name and _has_loss_objects(semantics):
        kind = semantics.kind(call.func)
        if kind is not None and kind.what is What.LOSS and kind.class_node is None:
            name = kind.origin
            built = kind.node if isinstance(kind.node, ast.Call) else None
    if not name or (torch_api.loss_expects(name) is None and name not in BROADCASTING):
        return None
    prediction = argument(call, 0, "input") or argument(call, None, "inputs")
    if prediction is None:
        return None
    target = argument(call, 1, "target") or argument(call, None, "targets")
    return LossCall(call, name, prediction, target, built)


def _function(semantics: Semantics, function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=tail) if tail in _FUNCTIONS:
            pass
        case ast.Name() if _has_loss_functions(semantics):
            pass
        case _:
            return ""
    name = semantics.name(function)
    return name if torch_api.is_loss_function(name) else ""


def may_have_losses(semantics: Semantics) -> bool:
    """Whether the file names one of these losses at all, so that other files cost nothing."""
    module = semantics.module
    return module.mentions_any_call(_ALL) or module.reads_any_attribute(_FUNCTIONS)


def _has_loss_functions(semantics: Semantics) -> bool:
    """Whether the file calls or names one of these functions, so that a plain name can stand for one."""
    module = semantics.module
    return module.mentions_any_call(_FUNCTIONS) or module.reads_any_attribute(_FUNCTIONS)


def _has_loss_objects(semantics: Semantics) -> bool:
    """Whether the file builds one of these losses."""
    return semantics.module.mentions_any_call(_CLASSES)


def _short(expression: ast.expr, otherwise: str) -> str:
    text = ast.unparse(expression)
    return text if len(text) <= 50 and "\n" not in text else otherwise
