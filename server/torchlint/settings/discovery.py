"""Which settings a file has: those of the nearest folder that holds any."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.regex import regex
from torchlint.settings.errors import SettingsError
from torchlint.settings.schema import Origin, Settings, parse_settings

if TYPE_CHECKING:
    from torchlint.settings.selection import Selection

#: In one folder the first that is there wins.
SETTINGS_FILES = (".torchlint.toml", "torchlint.toml", "pyproject.toml")
_PLACE = regex(r" \(at line (\d+), column (\d+)\)\Z")


def settings_for(path: Path) -> Settings:
    """The settings of a file or folder, with the versions of torch that its project allows. Raises SettingsError."""
    return SettingsResolver().settings_for(path)


def read_settings(path: Path) -> Settings | None:
    """The settings in one file; None for a `pyproject.toml` without `[tool.torchlint]`. Raises SettingsError."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise SettingsError("cannot be read: it is not UTF-8", path) from None
    shared = path.name == "pyproject.toml"
    if shared and "torchlint" not in text:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        row, column = (int(place[1]), int(place[2])) if place else (0, 0)
        raise SettingsError(f"is not valid TOML: {_PLACE.sub('', str(error))}", path, row, column) from None
    except RecursionError:
        raise SettingsError("is not valid TOML: it is nested too deeply", path) from None
    table: tuple[str, ...] = ("tool", "torchlint") if shared else ()
    origin = Origin(path, text, table)
    for key in table:
        if key not in content:
            return None
        content = content[key]
        if not isinstance(content, dict):
            raise origin.error(f"`{key}` must be a table", ())
    return parse_settings(content, origin, path.parent)


class SettingsResolver:
    """The settings of many files: every folder is looked at once, until it is forgotten."""

    def __init__(
        self, *, isolated: bool = False, config: Path | None = None, override: Selection | None = None
    ) -> None:
        """``isolated``: no file is read, and the versions of torch are unknown. ``config``: the file to use for all.

        ``override``: what the command line or the editor selects on top of every file.
        """
        self._isolated = isolated
        self._config = config
        self._override = override
        self.forget()

    def forget(self) -> None:
        """Look at everything anew: a file of settings or of requirements has changed."""
        self._folders: dict[Path, Settings | SettingsError] = {}
        self._found: dict[Path, Settings | None] = {}
        self._read: dict[Path, Settings | SettingsError | None] = {}
        self._finished: dict[tuple[Path | None, str], Settings] = {}
        # Reading requirements needs modules that no door loads before it has a file to lint.
        self._torch: Any = None

    def settings_for(self, path: Path) -> Settings:
        """The settings of a file or folder. Raises SettingsError, each time, when its file of settings is wrong."""
        path = path.absolute()
        folder = path if path.is_dir() else path.parent
        known = self._folders.get(folder)
        if known is None:
            try:
                known = self._find(folder)
            except SettingsError as error:
                known = error
            self._folders[folder] = known
        if isinstance(known, SettingsError):
            raise known
        return known

    def _find(self, folder: Path) -> Settings:
        if self._isolated:
            return self._finish(Settings(), None)
        found = self._in_file(self._config) if self._config else self._nearest(folder)
        settings = found or Settings()
        return self._finish(settings, folder if settings.torch is None else None)

    def _nearest(self, folder: Path) -> Settings | None:
        """The settings of the nearest folder that has any."""
        if folder not in self._found:
            own = (self._in_file(path) for name in SETTINGS_FILES if _is_file(path := folder / name))
            found = next((settings for settings in own if settings is not None), None)
            if found is None and folder.parent != folder:
                found = self._nearest(folder.parent)
            self._found[folder] = found
        return self._found[folder]

    def _in_file(self, path: Path) -> Settings | None:
        if path not in self._read:
            try:
                self._read[path] = read_settings(path)
            except SettingsError as error:
                self._read[path] = error
        found = self._read[path]
        if isinstance(found, SettingsError):
            raise found
        return found

    def _finish(self, settings: Settings, folder: Path | None) -> Settings:
        """The settings with what does not come from their file; the same object for equal values."""
        torch = settings.torch
        if folder is not None:
            if self._torch is None:
                from torchlint.torch_api.project import ProjectRanges

                self._torch = ProjectRanges()
            torch = self._torch.range_of(folder)
        key = (settings.origin.path, str(torch))
        if key not in self._finished:
            self._finished[key] = replace(settings, torch=torch, override=self._override)
        return self._finished[key]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A folder that may not be looked into holds no settings for us.
        return False
