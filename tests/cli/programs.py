"""Small programs with known findings."""

#: A warning with an unsafe fix.
UNSAFE_LOAD = """\
import torch

state = torch.load("model.pt", map_location="cpu", weights_only=False)
"""
UNSAFE_LOAD_FIXED = UNSAFE_LOAD.replace("False", "True")

#: An error with a safe fix.
TYPO = """\
import torch

weights = torch.zeros(3, require_grad=True)
"""
TYPO_FIXED = TYPO.replace("require_grad", "requires_grad")

#: An error with an unsafe fix and related places.
NO_ZERO_GRAD = """\
import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()

for x, y in [(torch.zeros(4, 2), torch.zeros(4, 1))]:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""

#: A hint.
CHAIN = """\
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x):
        x = self.fc1(x)
        x = self.act(x)
        return self.fc2(x)
"""

CLEAN = "import torch\n\nprint(torch.__version__)\n"
