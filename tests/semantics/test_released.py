"""An analysis without its trees still says what was found and how to mend it."""

from __future__ import annotations

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
