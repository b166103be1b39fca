"""An analysis without its trees still says what was found and how to mend it."""

from __future__ import annotations

import gc

from torchlint.linter import Linter, lint
from torchlint.text import Document

TEXT = "import torch\n\nstate = torch.load('a.pt', weights_only=False)\n"


def test_fixes_are_computed_again() -> None:
    analysis = Linter().analyze(Document(TEXT))
    released = analysis.released()
    (finding,) = released.findings
    assert released.fixes(finding) == analysis.fixes(finding) != ()


def test_a_finding_of_another_text_has_no_fixes() -> None:
    released = Linter().analyze(Document(TEXT)).released()
    (other,) = lint("\n" + TEXT)
    assert released.fixes(other) == ()


def test_one_cold_lint_leaves_next_to_nothing_to_the_garbage_collector() -> None:
    layers = "".join(f"        self.layer{i} = nn.Linear({i}, {i + 1})\n" for i in range(100))
    text = f"from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n{layers}"
    lint(text)  # what it loads stays
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        assert lint(text)
        left = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert left < 50  # of several thousand
