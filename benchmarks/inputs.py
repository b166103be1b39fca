"""The pinned real files and the pinned peers, installed below ``.bench/`` of the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"

PACKAGE, PACKAGE_VERSION = "timm", "1.0.31"
#: Name in the tables -> path in the wheel.
FILES = {
    "vision_transformer.py": "timm/models/vision_transformer.py",
    "swin_transformer.py": "timm/models/swin_transformer.py",
    "lcnetv2.py": "timm/models/lcnetv2.py",
}
PEERS = {"TorchFix": "0.7.0", "torch-preflight": "0.5.0", "ruff": "0.17.6"}


@dataclass(frozen=True)
class Source:
    """A pinned file; ``rows`` is its number of lines."""

    name: str
    path: Path
    text: str

    @property
    def rows(self) -> int:
        return self.text.count("\n")


def package_folder() -> Path:
    """The unpacked Python files of the pinned wheel."""
    folder = FOLDER / f"{PACKAGE}-{PACKAGE_VERSION}"
    if not folder.exists():
        downloads = FOLDER / "downloads"
        _run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(downloads),
              f"{PACKAGE}=={PACKAGE_VERSION}"])  # fmt: skip
        wheel = next(downloads.glob(f"{PACKAGE}-{PACKAGE_VERSION}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
    return folder


def sources() -> list[Source]:
    """The measured files, the longest first."""
    folder = package_folder()
    found = [Source(name, folder / path, (folder / path).read_text(encoding="utf-8")) for name, path in FILES.items()]
    return sorted(found, key=lambda source: -source.rows)


def peer(name: str) -> Path:
    """The folder with the programs of a peer's own virtual environment (TorchFix pins an old libcst)."""
    environment = FOLDER / "peers" / f"{name}-{PEERS[name]}"
    programs = environment / ("Scripts" if sys.platform == "win32" else "bin")
    done = environment / ".installed"
    if not done.exists():
        _run([sys.executable, "-m", "venv", str(environment)])
        _run([str(programs / "python"), "-m", "pip", "install", "--quiet", f"{name}=={PEERS[name]}"])
        done.touch()
    return programs


def _run(command: list[str]) -> None:
    print("+", " ".join(command), file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=sys.stderr)
