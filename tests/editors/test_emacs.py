"""A real Emacs with Eglot and the configuration of docs/editors.md, where there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.editors.snippets import snippet

FOLDER = Path(__file__).parent
BIN = Path(sys.executable).parent
EMACS = shutil.which("emacs")

TEXT = 'import torch\n\nname = "😀"; weight = torch.ones(2, require_grad=True)\n'


def has_eglot() -> bool:
    """Whether there is an Emacs, and Eglot in it."""
    return EMACS is not None and subprocess.run([EMACS, "--batch", "-l", "eglot"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_eglot(), reason="no Emacs with Eglot here")
def test_findings_hover_and_quick_fix_in_emacs(tmp_path: Path) -> None:
    assert EMACS is not None
    project = tmp_path / "project"
    project.mkdir()
    (project / "net.py").write_text(TEXT, "utf-8")
    (project / "types.py").write_text("raise SystemExit('imported from the workspace')\n")
    configuration = tmp_path / "init.el"
    configuration.write_text(snippet("Emacs", "elisp"), "utf-8")
    result = tmp_path / "result.json"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "TORCHLINT_FILE": str(project / "net.py"),
        "TORCHLINT_RESULT": str(result),
    }
    finished = subprocess.run(
        [EMACS, "--batch", "-l", str(configuration), "-l", str(FOLDER / "emacs.el")],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.is_file(), f"Emacs ended with {finished.returncode}:\n{finished.stderr}"
    seen = json.loads(result.read_text("utf-8"))
    assert "failed" not in seen, f"{seen['failed']}\n{seen}\n{finished.stderr}"
    assert seen["count"] == 1
    assert "require_grad" in seen["finding"]
    assert seen["flagged"] == "require_grad=True"
    assert "requires-grad-typo" in seen["hover"]
    assert seen["text"] == TEXT.replace("require_grad", "requires_grad")
