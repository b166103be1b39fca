"""`docs/configuration.md` speaks of every key and every default, and its example works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint.finding import Finding, Severity
from torchlint.rules import all_rules
from torchlint.settings import DEFAULT_EXCLUDE, SETTINGS_FILES, Suppressions, read_settings
from torchlint.settings.schema import KEYS
from torchlint.text import Document

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")


def test_every_key_has_its_heading_and_every_heading_its_key() -> None:
    assert sorted(re.findall(r"^### `([\w-]+)`$", PAGE, re.MULTILINE)) == sorted(KEYS)


def test_the_default_of_exclude() -> None:
    paragraph = PAGE.split("### `exclude`")[1].split("###")[0].split("in place of the default:")[1]
    assert tuple(re.findall(r"`([^`]+)`", paragraph)) == DEFAULT_EXCLUDE


def test_the_files_in_the_order_in_which_they_win() -> None:
    assert tuple(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)) == SETTINGS_FILES


def test_the_example_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "pyproject.toml"
    path.write_text(example)
    settings = read_settings(path)
    assert settings is not None
    settings.validate(all_rules())


@pytest.mark.parametrize("row", re.findall(r"^optimizer.step\(\)  #.*", PAGE, re.MULTILINE))
def test_the_comments_suppress(row: str) -> None:
    finding = Finding("TL201", "missing-zero-grad", Severity.ERROR, "message", 1, 1, 1, 9)
    assert Suppressions.from_document(Document(row)).suppresses(finding)
