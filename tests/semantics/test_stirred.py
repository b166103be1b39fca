"""What an edit does not stir is kept unasked: asked again, the file would say the same."""

from __future__ import annotations

import random

import pytest

from tests.semantics.test_incremental import RULES, TYPED, programs
from torchlint.linter import Linter
from torchlint.semantics.memo import Memo
from torchlint.text import Document

TEXTS = programs()
#: Lines that change what the top level binds, calls, reads and writes.
LINES = [
    "import torch.nn as layers\n",
    "from torch import *\n",
    "Module = nn.Module\n",
    "def forward(self, x):\n    return self.layer(x)\n",
    "class Net(nn.Module):\n    def __init__(self):\n        self.layer = nn.Linear(2, 2)\n",
    "    def step(self):\n        optimizer.step(closure=None)\n",
    "        self.layer = x.weight\n",
    "        model.layer = layers(x)\n",
]


class Checked:
    """A linter whose kept answers are asked again after each version."""

    def __init__(self) -> None:
        self.linter = Linter()

    def see(self, text: str) -> None:
        self.linter.analyze(Document(text))
        memo: Memo = self.linter._memo
        if memo._answers is not None:
            stale = [one.read for one in memo._now.values() if memo._answers.look_up(one.read) != one.value]
            assert not stale


@pytest.mark.parametrize("number", range(0, len(RULES), 5))
def test_what_is_kept_over_an_edit_is_what_the_file_says(number: int) -> None:
    chance = random.Random(number)
    text = TEXTS[number][:5000]
    checked = Checked()
    checked.see(text)
    for _ in range(12):
        start = chance.randrange(len(text) + 1)
        if chance.random() < 0.5:
            start = text.find("\n", start) + 1
        removed = chance.choice((0, 0, 1, 40, 400))
        text = text[:start] + chance.choice(["", *TYPED, *LINES]) + text[start + removed :]
        checked.see(text)
