"""What is not shown is not mended."""

from __future__ import annotations

from torchlint.finding import Finding, Severity
from torchlint.linter import fix_all
from torchlint.settings import Settings
from torchlint.text import Document

TEXT = "import torch\n\nstate = torch.load('a.pt', weights_only=False)\n"


def test_fix_all_leaves_what_is_not_wanted() -> None:
    asked: list[str] = []

    def wanted(finding: Finding) -> bool:
        asked.append(finding.code)
        return finding.severity is Severity.ERROR

    result = fix_all(Document(TEXT), Settings(), unsafe=True, wanted=wanted)
    assert (result.document.text, result.applied, asked) == (TEXT, 0, ["TL901"])
    assert "weights_only=True" in fix_all(Document(TEXT), Settings(), unsafe=True).document.text
