"""The files below folders that are to be linted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.settings.errors import SettingsError
from torchlint.settings.schema import git_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pathspec import GitIgnoreSpec

    from torchlint.settings.discovery import SettingsResolver

SUFFIXES = (".py", ".pyi", ".ipynb")
#: The second is that of ripgrep and its kin, for what git tracks and searches should pass over; it wins.
IGNORE_FILES = (".gitignore", ".ignore")


class _Ignored:
    """The `.gitignore` and `.ignore` files that reach into a folder, the nearest last."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._specs = specs

    def inside(self, folder: Path) -> _Ignored:
        """What holds in ``folder``, which lies in the folder that this is for."""
        read = (_read(folder / name) for name in IGNORE_FILES)
        prefix = f"{folder.as_posix().rstrip('/')}/"
        own = tuple((prefix, spec) for spec in read if spec is not None)
        return _Ignored((*self._specs, *own)) if own else self

    def matches(self, path: str) -> bool:
        """Whether git ignores a path with `/`, absolute, with `/` at the end for a folder."""
        for folder, spec in reversed(self._specs):
            verdict = spec.check_file(path[len(folder) :]).include
            if verdict is not None:
                return verdict
        return False


def _raise(folder: Path, error: Exception) -> None:
    raise error


def discover(
    paths: Iterable[Path], resolver: SettingsResolver, failed: Callable[[Path, Exception], None] = _raise
) -> Iterator[Path]:
    """The files to lint: those named, whatever they are called, and the Python files and notebooks below folders.

    In the order of the paths, and by name in a folder; none twice. Links to folders are not followed. A path that does
    not exist is given back like a file, for the reader to say so.

    ``failed`` is told of each folder that is left out because it cannot be read (OSError) or because its settings are
    wrong (SettingsError); without it the error is raised.
    """
    seen: set[Path] = set()
    for path in paths:
        found = _below(path, resolver, failed) if path.is_dir() else iter((path,))
        for file in found:
            absolute = Path(os.path.abspath(file))  # noqa: PTH100 - `a/../b` is `b`; Path.resolve would follow links
            if absolute not in seen:
                seen.add(absolute)
                yield file


def _below(folder: Path, resolver: SettingsResolver, failed: Callable[[Path, Exception], None]) -> Iterator[Path]:
    start = Path(os.path.abspath(folder))  # noqa: PTH100
    try:
        settings = resolver.settings_for(start)
    except SettingsError as error:
        failed(folder, error)
        return
    # A folder that was named is searched even if patterns exclude it, and those then begin there.
    base = start if settings.root != start and settings.excludes(start, folder=True) else None
    ignored = _above(start)
    if ignored.matches(f"{start.as_posix()}/"):
        ignored = _Ignored()
    yield from _walk(folder, start, ignored, base, resolver, failed)


def _walk(
    shown: Path,
    folder: Path,
    ignored: _Ignored,
    base: Path | None,
    resolver: SettingsResolver,
    failed: Callable[[Path, Exception], None],
) -> Iterator[Path]:
    ignored = ignored.inside(folder)
    try:
        settings = resolver.settings_for(folder)
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except (OSError, SettingsError) as error:
        failed(shown, error)
        return
    for entry in ordered:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not (entry.name.endswith(SUFFIXES) and entry.is_file()):
            continue
        path = folder / entry.name
        if settings.excludes(path, folder=is_folder, base=base):
            continue
        if settings.respect_gitignore and ignored.matches(f"{path.as_posix()}/" if is_folder else path.as_posix()):
            continue
        if is_folder:
            yield from _walk(shown / entry.name, path, ignored, base, resolver, failed)
        else:
            yield shown / entry.name


def _above(folder: Path) -> _Ignored:
    """What git ignores in a folder because of the folders above it, up to the root of its repository."""
    parents: list[Path] = []
    for parent in (folder, *folder.parents):
        parents.append(parent)
        if (parent / ".git").exists():
            break
    else:
        return _Ignored()
    ignored = _Ignored()
    exclude = _read(parents[-1] / ".git" / "info" / "exclude")
    if exclude is not None:
        ignored = _Ignored(((f"{parents[-1].as_posix().rstrip('/')}/", exclude),))
    for parent in reversed(parents[1:]):
        ignored = ignored.inside(parent)
    return ignored


def _read(path: Path) -> GitIgnoreSpec | None:
    try:
        rows = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    try:
        return git_patterns(rows)
    except ValueError:
        return git_patterns(_valid(rows))


def _valid(rows: Iterable[str]) -> Iterator[str]:
    """The patterns of a `.gitignore` that can be used: git, too, passes over a bad one."""
    for row in rows:
        try:
            git_patterns([row])
        except ValueError:
            continue
        yield row
