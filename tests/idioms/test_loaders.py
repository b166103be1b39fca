"""What a DataLoader is given, how many workers it starts, and which class's samples it loads."""

from __future__ import annotations

import ast

import pytest

from tests.semantics.meaning import Meaning
from torchlint.idioms.data.loaders import loaded_class, loader_argument, loaders_of, worker_count
from torchlint.idioms.surroundings.expected_errors import is_expected_to_raise

HEAD = """
import argparse
import os
from torch.utils.data import DataLoader, Dataset, Subset, random_split

WORKERS = 2
parser = argparse.ArgumentParser()
parser.add_argument("-j", "--num-workers", type=int, default=6)
args = parser.parse_args()


class Base(Dataset):
    pass


class Data(Base):
    pass


def build(dataset, workers=3, other=None, *, kw=5):
    loader = {call}
"""


def _loader(call: str) -> tuple[Meaning, ast.Call]:
    meaning = Meaning(HEAD.format(call=call))
    (found,) = meaning.semantics.module.calls_of("DataLoader")
    return meaning, found


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("DataLoader(dataset)", 0),
        ("DataLoader(dataset, num_workers=4)", 4),
        ("DataLoader(dataset, 8, True, None, None, 2)", 2),
        ("DataLoader(dataset, num_workers=WORKERS)", 2),
        ("DataLoader(dataset, num_workers=workers)", 3),
        ("DataLoader(dataset, num_workers=kw)", 5),
        ("DataLoader(dataset, num_workers=args.num_workers)", 6),
        ("DataLoader(dataset, num_workers=os.cpu_count())", 1),
        ("DataLoader(dataset, num_workers=other)", None),
        ("DataLoader(dataset, num_workers=args.unknown)", None),
        ("DataLoader(dataset, **other)", None),
        ("DataLoader(*other)", None),
    ],
)
def test_workers(call: str, count: int | None) -> None:
    meaning, loader = _loader(call)
    assert worker_count(meaning.semantics, loader) == count


@pytest.mark.parametrize(
    "dataset", ["Data()", "Subset(Data(), [1])", "random_split(Data(), [1, 2])[0]", "random_split(Data(), [1, 2])"]
)
def test_class_of_the_samples(dataset: str) -> None:
    meaning, loader = _loader(f"DataLoader({dataset}, 4)")
    node = loaded_class(meaning.semantics, loader)
    if "[0]" in dataset:
        assert node is None, "an element of a split is followed by name only"
        return
    assert node is not None
    assert node.name == "Data"
    assert list(loaders_of(meaning.semantics, node)) == [loader]
    (base,) = meaning.semantics.local_bases(node)
    assert list(loaders_of(meaning.semantics, base)) == [loader]


def test_arguments_by_place_and_name() -> None:
    _, loader = _loader("DataLoader(dataset, 8, sampler=other)")
    assert isinstance(size := loader_argument(loader, "batch_size"), ast.Constant)
    assert size.value == 8
    assert isinstance(loader_argument(loader, "sampler"), ast.Name)
    assert loader_argument(loader, "prefetch_factor") is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("with pytest.raises(ValueError):\n    f()", True),
        ("self.assertRaises(ValueError, lambda: f())", True),
        ("try:\n    f()\nexcept (KeyError, ValueError):\n    pass", True),
        ("try:\n    f()\nexcept:\n    pass", True),
        ("try:\n    f()\nexcept KeyboardInterrupt:\n    pass", False),
        ("try:\n    pass\nexcept ValueError:\n    f()", False),
        ("with open(path):\n    f()", False),
    ],
)
def test_errors_that_are_expected(code: str, expected: bool) -> None:
    (call,) = Meaning(code + "\n").semantics.module.calls_of("f")
    assert is_expected_to_raise(call) is expected
