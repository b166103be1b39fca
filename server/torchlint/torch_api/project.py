"""Which versions of torch the project of a file allows, read from the files that declare it.

Nothing is imported or executed: `setup.py` is parsed, and the environment in use is never asked.
"""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.torch_api.torch_range import TorchRange

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["DECLARATION_FILES", "ProjectRanges", "TorchRange", "project_torch_range"]

#: Declarations, the more binding first: the first file that bounds torch says it.
#: With the name of what reads them in `declared.py`, which is loaded when the first of them mentions torch.
_DECLARATIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("pyproject.toml",), "in_pyproject"),
    (("setup.cfg",), "in_setup_cfg"),
    (("setup.py",), "in_setup_py"),
    (("requirements.txt",), "in_requirements"),
    (("requirements*.txt", "requirements"), "in_requirements"),
    (("environment.yml", "environment.yaml", "conda.yml", "conda.yaml"), "in_conda_environment"),
    (("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"), "in_lock"),
)
#: Names and patterns of the files that may declare a requirement, for who watches them.
DECLARATION_FILES = tuple(name for names, _ in _DECLARATIONS for name in names if name != "requirements")
#: In bytes; a lock file of a large workspace has a few megabytes.
_MAXIMUM_SIZE = 20 * 1024 * 1024


def project_torch_range(start: Path) -> TorchRange | None:
    """The versions of torch that the project around a file or folder allows; None if nothing says.

    The nearest folder whose files bound torch decides. The search ends with the folder that is a repository, and
    before the home directory. A lock file counts only where no requirement bounds torch: what a library has locked for
    its own tests is not all that its users may install.
    """
    return ProjectRanges().range_of(start)


class ProjectRanges:
    """`project_torch_range` for many files: every folder is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, TorchRange | None] = {}
        self._home = Path.home()

    def range_of(self, start: Path) -> TorchRange | None:
        """The versions of torch that the project around a file or folder allows; None if nothing says."""
        folder = start.absolute()
        visited: list[Path] = []
        found = None
        while folder != self._home:
            if folder in self._known:
                found = self._known[folder]
                break
            visited.append(folder)
            names = _names(folder)
            found = _declared(folder, names)
            if found is not None or ".git" in names or folder.parent == folder:
                break
            folder = folder.parent
        self._known.update(dict.fromkeys(visited, found))
        return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _declared(folder: Path, names: list[str]) -> TorchRange | None:
    for patterns, reader in _DECLARATIONS:
        paths = [folder / name for pattern in patterns for name in fnmatch.filter(names, pattern)]
        found = [entry for path in paths for entry in _requirements(reader, _text(path))]
        bounded = [entry for entry in found if len(entry)]
        if bounded and len(bounded) == len(found):
            return TorchRange(*bounded)
    return None


def _requirements(reader: str, text: str) -> list[SpecifierSet]:
    if not text:
        return []
    from torchlint.torch_api import declared

    found: list[SpecifierSet] = getattr(declared, reader)(text)
    return found


def _text(path: Path) -> str:
    """The text of a file; empty if it does not mention torch, or cannot be read: then it says nothing."""
    if path.name == "requirements":
        return "\n".join(_text(path / name) for name in fnmatch.filter(_names(path), "*.txt"))
    try:
        text = path.read_text("utf-8", "replace") if path.stat().st_size <= _MAXIMUM_SIZE else ""
    except OSError:
        return ""
    return text if "torch" in text.lower() else ""
