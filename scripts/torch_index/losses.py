"""losses.json: what the first argument of each loss is, as its documentation of torch 2.13 says, checked by running."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .signatures import listed, parameters_of

# "logits": raw scores, the loss normalises them. "log-probabilities": after log_softmax. "probabilities": in 0..1.
EXPECTS: dict[str, str] = {
    "torch.nn.BCELoss": "probabilities",
    "torch.nn.BCEWithLogitsLoss": "logits",
    "torch.nn.CTCLoss": "log-probabilities",
    "torch.nn.CrossEntropyLoss": "logits",
    "torch.nn.KLDivLoss": "log-probabilities",
    "torch.nn.MultiLabelSoftMarginLoss": "logits",
    "torch.nn.NLLLoss": "log-probabilities",
    "torch.nn.NLLLoss2d": "log-probabilities",
    "torch.nn.functional.binary_cross_entropy": "probabilities",
    "torch.nn.functional.binary_cross_entropy_with_logits": "logits",
    "torch.nn.functional.cross_entropy": "logits",
    "torch.nn.functional.ctc_loss": "log-probabilities",
    "torch.nn.functional.kl_div": "log-probabilities",
    "torch.nn.functional.multilabel_soft_margin_loss": "logits",
    "torch.nn.functional.nll_loss": "log-probabilities",
    # torchvision 0.24, torchvision/ops/focal_loss.py: "inputs: A float tensor ... The predictions for each example"
    # that it gives to binary_cross_entropy_with_logits.
    "torchvision.ops.sigmoid_focal_loss": "logits",
}


def check() -> None:
    """Run what the table claims: each pair below must agree, else the table is wrong for this torch."""
    scores = torch.tensor([[0.3, -1.2, 2.0], [1.5, 0.1, -0.4]])
    labels = torch.tensor([2, 0])
    binary = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    log_probabilities = scores.log_softmax(1)
    pairs = [
        (functional.cross_entropy(scores, labels), functional.nll_loss(log_probabilities, labels)),
        (nn.CrossEntropyLoss()(scores, labels), nn.NLLLoss()(log_probabilities, labels)),
        (
            functional.binary_cross_entropy_with_logits(scores, binary),
            functional.binary_cross_entropy(torch.sigmoid(scores), binary),
        ),
        (nn.BCEWithLogitsLoss()(scores, binary), nn.BCELoss()(torch.sigmoid(scores), binary)),
        (
            functional.multilabel_soft_margin_loss(scores, binary),
            functional.binary_cross_entropy(torch.sigmoid(scores), binary),
        ),
        (functional.kl_div(log_probabilities, scores.softmax(1), reduction="sum"), torch.tensor(0.0)),
    ]
    for first, second in pairs:
        torch.testing.assert_close(first, second)


def build() -> dict[str, str | None]:
    """Canonical name -> what the loss expects, or null; every function of torch.nn.functional with a `reduction`."""
    check()
    table: dict[str, str | None] = {}
    for dotted, value in listed():
        functional_loss = dotted.startswith("torch.nn.functional.") and not isinstance(value, type)
        if functional_loss and any(p.name == "reduction" for p in parameters_of(dotted, value) or []):
            table[dotted] = None
    for name, cls in vars(nn).items():
        if isinstance(cls, type) and cls.__module__ in ("torch.nn.modules.loss", "torch.nn.modules.adaptive"):
            table[f"torch.nn.{name}"] = None
    return {**table, **EXPECTS}
