"""The pages of the rules and the README's table are what the rules say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import generate_docs
from torchlint.rules import all_rules

ROOT = Path(__file__).parents[2]


def test_docs_are_up_to_date() -> None:
    assert generate_docs.stale() == [], "run `make docs`"


def test_stale_and_orphaned_pages_are_noticed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    generate_docs.write(tmp_path)
    assert generate_docs.stale(tmp_path) == []
    page = tmp_path / "docs" / "rules" / f"{all_rules()[0].name}.md"
    page.write_text(page.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    page.with_name("no-such-rule.md").touch()
    assert sorted(generate_docs.stale(tmp_path)) == sorted([f"docs/rules/{page.name}", "docs/rules/no-such-rule.md"])


def test_readme_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="markers"):
        generate_docs.with_table("# torchlint", "table")


def _links() -> list[tuple[str, str]]:
    """Markdown file -> a relative link in it, for every link of README and docs."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pattern = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)")
    return [
        (path.relative_to(ROOT).as_posix(), target)
        for path in sorted(files)
        for target in pattern.findall(_outside_code(path.read_text(encoding="utf-8")))
    ]


def _outside_code(text: str) -> str:
    return re.sub(r"^(`{3,}).*?^\1`*$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("file", "target"), _links())
def test_links_lead_somewhere(file: str, target: str) -> None:
    assert (ROOT / file).parent.joinpath(target).exists()
