"""Which versions of torch the project of a file allows, read from the files that declare it.

Nothing is imported or executed: `setup.py` is parsed, and the environment in use is never asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.torch_api import declared
from torchlint.torch_api.torch_range import TorchRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packaging.specifiers import SpecifierSet

__all__ = ["TorchRange", "project_torch_range"]

#: Declarations, the more binding first: the first file that bounds torch says it.
_DECLARATIONS: tuple[tuple[tuple[str, ...], Callable[[str], list[SpecifierSet]]], ...] = (
    (("pyproject.toml",), declared.in_pyproject),
    (("setup.cfg",), declared.in_setup_cfg),
    (("setup.py",), declared.in_setup_py),
    (("requirements.txt",), declared.in_requirements),
    (("requirements*.txt", "requirements/*.txt"), declared.in_requirements),
    (("environment.yml", "environment.yaml", "conda.yml", "conda.yaml"), declared.in_conda_environment),
    (("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"), declared.in_lock),
)
#: In bytes; a lock file of a large workspace has a few megabytes.
_MAXIMUM_SIZE = 20 * 1024 * 1024


def project_torch_range(start: Path) -> TorchRange | None:
    """The versions of torch that the project around a file or folder allows; None if nothing says.

    The nearest folder whose files bound torch decides. The search ends with the folder that is a repository, and
    before the home directory. A lock file counts only where no requirement bounds torch: what a library has locked for
    its own tests is not all that its users may install.
    """
    for folder in _folders(start):
        for patterns, reader in _DECLARATIONS:
            found = [entry for text in _texts(folder, patterns) for entry in reader(text)]
            bounded = [entry for entry in found if len(entry)]
            if bounded and len(bounded) == len(found):
                return TorchRange(*bounded)
    return None


def _folders(start: Path) -> Iterator[Path]:
    start = start.absolute()
    home = Path.home()
    for folder in (start, *start.parents):
        if folder == home:
            return
        yield folder
        if (folder / ".git").exists():
            return


def _texts(folder: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    """The texts of the files in a folder that match, if they mention torch."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            text = _text(path)
            if "torch" in text.lower():
                yield text


def _text(path: Path) -> str:
    """The text of a file; empty for one that cannot be read, which says nothing."""
    try:
        return path.read_text("utf-8", "replace") if path.stat().st_size <= _MAXIMUM_SIZE else ""
    except OSError:
        return ""
