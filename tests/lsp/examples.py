"""Python that the server has something to say about, with where."""

from __future__ import annotations

#: TL107, an error with a safe fix: the keyword in row 2.
TYPO = "import torch\n\nweight = torch.ones(2, require_grad=True)\n"
TYPO_LINE, TYPO_START, TYPO_END = 2, 23, 40

FIXED = "import torch\n\nweight = torch.ones(2, requires_grad=True)\n"

#: TL201, an error with an unsafe fix and related places.
NO_ZERO_GRAD = """\
import torch
from torch import nn


def train(loader):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
BACKWARD_LINE, STEP_LINE = 9, 10

#: TL013, a warning about a deprecated name, with a safe fix.
DEPRECATED = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
