"""The direction of imports (pyproject.toml, [tool.importlinter]) covers the whole package, and it is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _layers() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [name.strip(" ()") for layer in contract["layers"] for name in layer.replace(":", "|").split("|")]


def test_every_part_of_the_package_has_its_layer() -> None:
    package = ROOT / "server" / "torchlint"
    parts = {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}
    parts -= {"__init__", "__main__", "__pycache__", "_version"}
    assert {f"torchlint.{part}" for part in parts} == set(_layers())


def test_imports_go_one_way() -> None:
    # Runs the command that a person runs: what it prints is the failure's message.
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
