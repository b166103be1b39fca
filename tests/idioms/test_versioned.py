"""Findings about names that came and went follow the imports of the file from version to version."""

from __future__ import annotations

import pytest

from torchlint.linter import Linter
from torchlint.settings import Settings
from torchlint.text import Document

USE = "def decompose(a):\n    return ger(a, a)\n"
SETTINGS = Settings(select=("TL001", "TL002"))


def _rows(linter: Linter, text: str) -> list[tuple[str, int]]:
    return [(finding.code, finding.row) for finding in linter.analyze(Document(text), SETTINGS).findings]


def test_an_import_that_comes_and_goes_changes_what_is_said_of_a_function_that_did_not_change() -> None:
    linter = Linter()
    assert _rows(linter, f"from torch import eye\n\n{USE}") == []
    assert _rows(linter, f"from torch import ger\n\n{USE}") == [("TL002", 4)]
    assert _rows(linter, f"from torch import outer as ger\n\n{USE}") == []


def test_an_import_is_reported_while_nothing_uses_it() -> None:
    linter = Linter()
    assert _rows(linter, "from torch import ger\n\nx = 1\n") == [("TL002", 1)]
    assert _rows(linter, f"from torch import ger\n\n{USE}") == [("TL002", 4)]
    assert _rows(linter, "from torch import ger\n\nx = 1\n") == [("TL002", 1)]


@pytest.mark.parametrize("use", ["torch.ger(a, a)", "f = torch.ger", "t.ger(a, a)", "g(a, a)", "print(linalg.ger)"])
def test_a_name_is_found_however_it_is_spelled(use: str) -> None:
    text = f"import torch\nimport torch as t\nfrom torch import ger as g\nimport torch as linalg\n{use}\n"
    expected = [("TL002", 5)] if use.startswith("g(") else [("TL002", 3), ("TL002", 5)]
    assert _rows(Linter(), text) == expected
