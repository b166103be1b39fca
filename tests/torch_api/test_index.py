"""The data files are what scripts/index_torch.py writes. Needs torch: a test environment without it skips this.

TORCHLINT_TORCH_PYTHON may name a Python that has torch, where the one that runs the tests has not.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.torch_api.tables import DATA

ROOT = Path(__file__).resolve().parents[2]


def _python_with_torch() -> str:
    named = os.environ.get("TORCHLINT_TORCH_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    return sys.executable


def test_data_files_are_what_running_torch_gives() -> None:
    python = _python_with_torch()
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
    ).stdout
    indexed = json.loads((DATA / "about.json").read_text(encoding="utf-8"))["torch"]
    if version.strip().partition("+")[0] != indexed:
        pytest.skip(f"torch {version.strip()} is installed, {indexed} is indexed")
    checked = subprocess.run(
        [python, str(ROOT / "scripts" / "index_torch.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_data_files_have_one_sorted_entry_a_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    table = json.loads(text)
    assert list(table) == sorted(table)
    assert text.count("\n") == len(table) + 2
