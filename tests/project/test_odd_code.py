"""Code that nobody should write costs nothing but itself: no exception, no failed rule, no hours."""

from __future__ import annotations

import pytest

from torchlint.linter import Linter
from torchlint.settings import Settings
from torchlint.text import Document

HEAD = "import torch\nimport torch.nn as nn\n"
#: Is in every text below, at its end.
MISTAKE = "for p in model.parameters():\n    p.require_grad = False\n"

FUNCTIONS_THAT_CALL_EACH_OTHER = "\n".join(
    f"def f{i}(m: nn.Module, o: torch.optim.Optimizer, x):\n"
    + "".join(f"    f{(i + k) % 12}(m, o, x)\n" for k in range(1, 6))
    + "    m(x).sum().backward()\n    o.step()"
    for i in range(12)
)
CHAIN = "def f(a, o: torch.optim.Optimizer):\n    for b in a:\n        if b == 0:\n            pass\n" + "".join(
    f"        elif b == {i}:\n            o.step()\n" for i in range(900)
)
ODD = {
    "a class that is its own base": "class A(A):\n    pass\nA()(1)\n",
    "bases in a circle": "class A(B, nn.Module):\n    pass\nclass B(A):\n    def forward(self):\n        self.x()\n",
    "names in a circle": "a = b\nb = a\na.load('x')\n",
    "torch is a number": "torch = 3\ntorch.load('x')\nimport torch\n",
    "methods without self": "class A(nn.Module):\n def __init__():\n  pass\n def forward(*, x):\n  pass\n",
    "layers of absurd sizes": "nn.Conv2d(3, groups=0)\nnn.LSTM(10**400, -1, 0, dropout=1e999)\nnn.GroupNorm(0, ())\n",
    "calls without arguments": "torch.load()\nnn.Linear()\nnn.CrossEntropyLoss()()\ntorch.save()\ntorch.autocast()\n",
    "a null byte": "x = '\0'\n",
    "a lone surrogate": "x = '\ud800'\n",
    "three thousand brackets": "x = " + "(" * 3000 + "\n" + ")" * 3000 + "\n",
    "three thousand calls in a row": "x = torch.zeros(1)" + ".cuda()" * 3000 + "\n",
    "a chain of 900 elif": CHAIN,
    "functions that call each other": FUNCTIONS_THAT_CALL_EACH_OTHER + "\n",
    "loops in loops": "".join(f"{' ' * i}for i{i} in a:\n" for i in range(19))
    + f"{' ' * 19}loss.backward(); o.step()\n",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_code_costs_only_itself(name: str) -> None:
    analysis = Linter().analyze(Document(HEAD + ODD[name] + MISTAKE), Settings(select=("ALL",)))
    assert [problem for problem in analysis.problems if problem.kind == "rule"] == []
    assert "requires-grad-typo" in {finding.name for finding in analysis.findings}
