"""What the elements of a tensor are, by how it is made (each compared with torch 2.13)."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.values.element_types import ElementType, element_type


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("torch.zeros(2)", ElementType.FLOAT),
        ("torch.zeros(2, dtype=torch.long)", ElementType.INTEGER),
        ("torch.zeros(2, dtype=torch.bool)", ElementType.TRUTH),
        ("torch.tensor([1, 2])", ElementType.INTEGER),
        ("torch.tensor([1, 2.0])", ElementType.FLOAT),
        ("torch.tensor([True])", ElementType.TRUTH),
        ("torch.tensor([[1], [2]])", ElementType.INTEGER),
        ("torch.tensor([])", ElementType.FLOAT),
        ("torch.tensor(1j)", ElementType.COMPLEX),
        ("torch.as_tensor(3)", ElementType.INTEGER),
        ("torch.arange(3)", ElementType.INTEGER),
        ("torch.arange(0, 3, 0.5)", None),
        ("torch.arange(3.0)", None),
        ("torch.arange(start=0, end=3)", ElementType.INTEGER),
        ("torch.full((2,), 1)", ElementType.INTEGER),
        ("torch.full((2,), 1.0)", ElementType.FLOAT),
        ("torch.full((2,), True)", ElementType.TRUTH),
        ("torch.randint(3, (2,))", ElementType.INTEGER),
        ("torch.randint(3, (2,), dtype=torch.float32)", ElementType.FLOAT),
        ("torch.randperm(3)", ElementType.INTEGER),
        ("torch.LongTensor([1])", ElementType.INTEGER),
        ("torch.Tensor([1])", ElementType.FLOAT),
        ("torch.ByteTensor([1])", ElementType.INTEGER),
        ("torch.BoolTensor([True])", ElementType.TRUTH),
        ("torch.zeros(2).long()", ElementType.INTEGER),
        ("torch.zeros(2).to(torch.int32)", ElementType.INTEGER),
        ('torch.zeros(2).to("cpu")', ElementType.FLOAT),
        ("torch.tensor([1]).float()", ElementType.FLOAT),
        ("torch.tensor([1]).type(torch.float64)", ElementType.FLOAT),
        ("torch.zeros(2).argmax()", ElementType.INTEGER),
        ("torch.zeros(2) > 0", ElementType.TRUTH),
        ("torch.zeros(2).gt(0)", ElementType.TRUTH),
        ("torch.eq(torch.zeros(2), 0)", ElementType.TRUTH),
        ("torch.tensor([1]) + 1", ElementType.INTEGER),
        ("torch.tensor([1]) + 1.0", ElementType.FLOAT),
        ("torch.tensor([1]) / 2", None),
        ("torch.tensor([1]) // 2", ElementType.INTEGER),
        ("torch.tensor([1]) * torch.zeros(1)", ElementType.FLOAT),
        ("torch.tensor([1]) * torch.tensor([2])", ElementType.INTEGER),
        ("torch.zeros_like(torch.tensor([1]))", ElementType.INTEGER),
        ("torch.zeros_like(torch.tensor([1]), dtype=torch.float32)", ElementType.FLOAT),
        ("torch.tensor([1]).view(1, 1).clone()", ElementType.INTEGER),
        ("torch.tensor([1, 2])[0]", ElementType.INTEGER),
        ("torch.tensor(range(3))", ElementType.INTEGER),
        ("torch.tensor(list(range(3)))", ElementType.INTEGER),
        ("torch.tensor([i for i in range(3)])", None),
        ("torch.nn.functional.one_hot(torch.tensor([0]))", ElementType.INTEGER),
        ("torch.nonzero(torch.zeros(2))", ElementType.INTEGER),
        ("torch.zeros(2).bool()", ElementType.TRUTH),
        ("torch.tensor([1] * 3)", ElementType.INTEGER),
        ("torch.tensor([1.0] * 3)", ElementType.FLOAT),
        ("torch.tensor([1]) ** 2", ElementType.INTEGER),
        ("torch.tensor([1]) ** -1.0", ElementType.FLOAT),
        ("torch.tensor([True]) + 1", None),
        ("torch.tensor([True]) & True", None),
        ("torch.tensor([1]) @ torch.tensor([1])", ElementType.INTEGER),
        ("torch.eye(2)", ElementType.FLOAT),
        ("torch.linspace(0, 1, 2)", ElementType.FLOAT),
        ("torch.full_like(torch.tensor([1]), 2.5)", ElementType.INTEGER),
        ("torch.rand_like(torch.zeros(2))", None),
        ("torch.zeros(2).int().float()", ElementType.FLOAT),
        ("torch.nn.Parameter(torch.zeros(2))", ElementType.FLOAT),
        ("torch.isnan(torch.zeros(2))", ElementType.TRUTH),
        ("torch.tensor([3]).expand(2).t()", ElementType.INTEGER),
        ("torch.searchsorted(torch.arange(3), 1)", ElementType.INTEGER),
        ("torch.bucketize(torch.tensor([1]), torch.arange(3))", ElementType.INTEGER),
        ("torch.any(torch.zeros(2))", ElementType.TRUTH),
        ("torch.tensor([True]).any()", ElementType.TRUTH),
        ("torch.zeros(2).all()", ElementType.TRUTH),
    ],
)
def test_element_types(written: str, found: ElementType | None) -> None:
    meaning = Meaning(f"import torch\nuse({written})\n")
    (call,) = meaning.semantics.module.calls_of("use")
    assert element_type(meaning.semantics, call.args[0]) is found
