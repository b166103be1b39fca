"""The snippets of docs/editors.md, to be executed as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "editors.md"


def snippet(heading: str, language: str) -> str:
    """The first code block of a language under a heading of the page."""
    section = re.search(
        rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert section, f"docs/editors.md has no section {heading!r}"
    block = re.search(rf"^```{language}$\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    assert block, f"docs/editors.md has no {language} block under {heading!r}"
    return block[1]
