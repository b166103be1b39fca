"""Sizes of layers are read where the code shows them, and only there."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.modules.layer_sizes import LayerSizes, sizes_of_layer
from torchlint.idioms.values.whole_numbers import whole_number

HEAD = "import torch.nn as nn\nwide = 8\nbase = wide * 4\n"


@pytest.mark.parametrize(
    ("built", "takes", "gives"),
    [
        ("nn.Linear(3, 4)", 3, 4),
        ("nn.Linear(out_features=4, in_features=3)", 3, 4),
        ("nn.Linear(wide, base // 2 + 1)", 8, 17),
        ("nn.LazyLinear(4)", None, 4),
        ("nn.Conv2d(3, unknown, 3)", 3, None),
        ("nn.Conv2d(*sizes)", None, None),
        ("nn.Conv2d(3, 2 ** 5, 3)", 3, 32),
        ("nn.ConvTranspose1d(4, 2, 3)", 4, 2),
        ("nn.BatchNorm2d(16)", 16, 16),
        ("nn.LayerNorm([5, 6])", 6, 6),
        ("nn.Embedding(100, 12)", None, 12),
        ("nn.LSTM(4, 6)", 4, 6),
        ("nn.LSTM(4, 6, bidirectional=True)", 4, 12),
        ("nn.LSTM(4, 6, bidirectional=True, proj_size=2)", 4, 4),
        ("nn.LSTM(4, 6, bidirectional=both)", 4, None),
        ("nn.ReLU()", None, None),
        ("make(3, 4)", None, None),
    ],
)
def test_sizes(built: str, takes: int | None, gives: int | None) -> None:
    meaning = Meaning(f"{HEAD}layer = {built}\nuse(layer)\n")
    assert sizes_of_layer(meaning.kind("layer"), meaning.semantics) == LayerSizes(takes, gives)


def test_attributes_that_are_written_once_count() -> None:
    meaning = Meaning(
        f"{HEAD}class Net(nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.width = wide\n"
        "        self.planes = 64\n"
        "        self.given = n\n"
        "        use(self.width * 2, self.planes + 1, self.given)\n"
        "        self.planes = 128\n"
    )
    (call,) = meaning.semantics.module.calls_of("use")
    assert [whole_number(argument, meaning.semantics) for argument in call.args] == [16, None, None]
