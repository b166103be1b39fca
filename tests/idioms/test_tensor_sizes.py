"""Sizes of tensors are read where the calls that make them tell, and only there (each compared with torch 2.13)."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.values.tensor_sizes import Sizes, permutation_of, sizes_of


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ("torch.zeros(2, 3)", (2, 3)),
        ("torch.zeros((2, 3))", (2, 3)),
        ("torch.rand(size=(4,))", (4,)),
        ("torch.Tensor(2, 5)", (2, 5)),
        ("torch.full((2, 2), 1.0)", (2, 2)),
        ("torch.randint(10, (3, 4))", (3, 4)),
        ("torch.randint(0, 10, (3, 4))", (3, 4)),
        ("torch.arange(6)", (6,)),
        ("torch.arange(2, 6)", (None,)),
        ("torch.linspace(0, 1, 7)", (7,)),
        ("torch.eye(3)", (3, 3)),
        ("torch.eye(3, 4)", (3, 4)),
        ("torch.tensor([[1, 2, 3], [4, 5, 6]])", (2, 3)),
        ("torch.tensor(3.0)", ()),
        ("torch.tensor([])", (0,)),
        ("torch.zeros_like(torch.ones(2, 3))", (2, 3)),
        ("torch.nn.Parameter(torch.ones(1, 4))", (1, 4)),
        ("torch.ones(2, 3).unsqueeze(0)", (1, 2, 3)),
        ("torch.ones(2, 3).unsqueeze(-1)", (2, 3, 1)),
        ("torch.unsqueeze(torch.ones(2, 3), dim=1)", (2, 1, 3)),
        ("torch.ones(2, 1, 3).squeeze(1)", (2, 3)),
        ("torch.ones(2, 1, 3).squeeze(0)", (2, 1, 3)),
        ("torch.ones(2, 3, 4).transpose(0, 2)", (4, 3, 2)),
        ("torch.ones(2, 3, 4).permute(2, 0, 1)", (4, 2, 3)),
        ("torch.permute(torch.ones(2, 3, 4), (2, 0, 1))", (4, 2, 3)),
        ("torch.ones(2, 3).t()", (3, 2)),
        ("torch.ones(2, 3).T", (3, 2)),
        ("torch.ones(2, 3).view(3, 2)", (3, 2)),
        ("torch.ones(2, 3).view(-1)", (None,)),
        ("torch.ones(2, 3).flatten()", (None,)),
        ("torch.ones(2, 3).sum()", ()),
        ("torch.ones(2, 3).sum(0)", (3,)),
        ("torch.ones(2, 3).mean(dim=1, keepdim=True)", (2, 1)),
        ("torch.ones(2, 3).argmax(1)", (2,)),
        ("torch.ones(2, 3)[0]", (3,)),
        ("torch.ones(2, 3)[0, 1]", ()),
        ("torch.ones(2, 3)[:, 1]", (2,)),
        ("torch.ones(2, 3)[None]", (1, 2, 3)),
        ("torch.ones(2, 3)[:, None, 0]", (2, 1)),
        ("torch.ones(2, 1) + torch.ones(3)", (2, 3)),
        ("torch.ones(2, 3) * 2", (2, 3)),
        ("torch.ones(2, 3) > 0", (2, 3)),
        ("-torch.ones(2, 3)", (2, 3)),
        ("torch.sigmoid(torch.ones(2, 3))", (2, 3)),
        ("torch.ones(2, 3).softmax(1).clamp(0, 1)", (2, 3)),
        ("torch.ones(2, 3).expand(2, 3)", (2, 3)),
        ("torch.stack([torch.ones(2), torch.ones(2)])", (None, None)),
        ("torch.cat([torch.ones(2, 3), torch.ones(2, 3)])", (None, None)),
        ("torch.ones(2, 3).norm()", ()),
        ("torch.ones(2, 3).std(0)", (3,)),
        ("torch.ones(2, 3).cumsum(0)", (2, 3)),
        ("torch.ones(2, 3).detach().cpu().clone()", (2, 3)),
        ("torch.ones(2, 3).flip(0)", (2, 3)),
        ("torch.ones(2, 3).masked_fill(torch.ones(2, 3) > 0, 1)", None),
        ("torch.ones(2, 3).max()", ()),
        ("torch.ones(2, 3).repeat(2, 2)", (None, None)),
        ("torch.ones(1, 3).pow(2)", (1, 3)),
        ("torch.nn.functional.one_hot(torch.arange(3))", None),
        ("torch.ones(2, 3) @ torch.ones(3, 4)", None),
        ("torch.ones(2, 3) ** torch.ones(2, 3)", (2, 3)),
        ("torch.ones(3).normal_()", None),
        ("torch.normal(0.0, 1.0, (2, 3))", (2, 3)),
        ("torch.ones(2, 3).select(0, 1)", None),
        ("torch.ones(3, 2).all()", ()),
        ("torch.ones(3, 2).isnan()", (3, 2)),
        ("torch.where(torch.ones(2) > 0, 1.0, 0.0)", None),
        ("torch.randn_like(torch.ones(2, 3))", (2, 3)),
        ("torch.randperm(5)", (5,)),
        ("torch.full_like(torch.ones(2), 3)", (2,)),
        ("torch.ones(2, 3).sum((0, 1))", None),
        ("torch.ones(2, 3).sum(dim=[0])", None),
        ("torch.ones(4)[1:3]", (None,)),
        ("torch.ones(4)[[0, 1]]", None),
        ("torch.ones(4)[torch.tensor([0, 1])]", None),
        ("torch.ones(2, 3).reshape((3, 2))", (3, 2)),
        ("torch.ones(2, 3).type(torch.int64)", (2, 3)),
        ("torch.tensor(range(3))", None),
        ("torch.ones(2, 3).expand(-1, 3)", (None, None)),
        ("torch.ones(1, 3).expand(4, -1)", (None, None)),
        ("torch.tensor([torch.ones(1).item()])", None),
        ("torch.normal(torch.ones(2), 1.0)", None),
        ("torch.dropout(torch.ones(2, 3), 0.1, True)", (2, 3)),
        ("torch.ones(2, 3).logsumexp(1)", (2,)),
        ("torch.ones(2, 3).prod(1, True)", (2, 1)),
        ("torch.ones(2, 3).var(1, keepdim=True)", (2, 1)),
        ("torch.ones(2, 3).roll(1)", (2, 3)),
        ("torch.ones(2, 3).new_zeros(3)", None),
        ("torch.clamp(torch.ones(3), min=torch.ones(2, 3))", None),
        ("torch.pow(2, torch.ones(3))", (3,)),
        ("torch.ones(3).masked_fill(torch.ones(2, 3) > 1, 1)", None),
        ("torch.ones(3).eq(torch.ones(2, 3))", (2, 3)),
        ("torch.ones(3).flip(0).mul(torch.ones(2, 3))", None),
    ],
)
def test_sizes(written: str, sizes: Sizes | None) -> None:
    meaning = Meaning(f"import torch\nuse({written})\n")
    (call,) = meaning.semantics.module.calls_of("use")
    assert sizes_of(meaning.semantics, call.args[0]) == sizes


def test_names_and_attributes_are_followed() -> None:
    meaning = Meaning(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, n, shape):\n"
        "        super().__init__()\n"
        "        self.table = torch.zeros(n, 3)\n"
        "        self.twice = torch.zeros(1)\n"
        "        self.twice = torch.zeros(2)\n"
        "        row = self.table[0]\n"
        "        use(self.table, row, self.twice, torch.zeros(shape), torch.zeros(*shape))\n"
    )
    (call,) = meaning.semantics.module.calls_of("use")
    found = [sizes_of(meaning.semantics, argument) for argument in call.args]
    assert found == [(None, 3), (3,), None, None, None]


@pytest.mark.parametrize(
    ("operation", "axes", "rank", "order"),
    [
        ("transpose", (1, 2), None, (0, 2, 1)),
        ("transpose", (1, 2), 4, (0, 2, 1, 3)),
        ("transpose", (-1, -2), 3, (0, 2, 1)),
        ("transpose", (-1, -2), None, None),
        ("transpose", (0, 5), 3, None),
        ("permute", (0, 2, 3, 1), None, (0, 2, 3, 1)),
        ("permute", (0, 2, -1, 1), 4, (0, 2, 3, 1)),
        ("permute", (0, 0), None, None),
        ("permute", (0, None), None, None),
        ("t", (), None, (1, 0)),
    ],
)
def test_permutations(
    operation: str, axes: tuple[int | None, ...], rank: int | None, order: tuple[int, ...] | None
) -> None:
    assert permutation_of(operation, axes, rank) == order
