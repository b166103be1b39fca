"""The settings of each open document: those of its project's files, and on top of them those of the editor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygls.uris import to_fs_path

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.settings import (
    SETTINGS_FILES,
    Origin,
    Selection,
    Settings,
    SettingsError,
    SettingsResolver,
    parse_settings,
)
from torchlint.torch_api.project import DECLARATION_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.lsp.log import Log

SECTION = "torchlint"
#: Names and patterns of files that settings, or the project's versions of torch, are read from.
WATCHED_FILES = (*SETTINGS_FILES, *DECLARATION_FILES)
#: In seconds: how often files are looked at where the client does not watch them.
_LOOK_INTERVAL = 1.0
#: Settings that only the client needs.
_CLIENT_ONLY = {"enable", "interpreter", "path", "trace"}
_CAPITAL = regex(r"(?<=[a-z])([A-Z])")

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Scope:
    """A folder of the workspace, or None for everything outside of them."""

    uri: str | None
    path: Path | None


class EditorSettings:
    """Answers which settings a document has; reads each file once, until it is told that files changed."""

    def __init__(self, folders: Iterable[str], log: Log, *, watched: bool) -> None:
        """``folders``: URIs of the workspace; ``watched``: the client tells when a file changes."""
        self._log = log
        self._watched = watched
        self._options: Table = {}
        self._by_folder: dict[str | None, Table] = {}
        self._resolver = SettingsResolver()
        self._known: dict[tuple[Path, str | None], Settings] = {}
        #: What was answered for each file: paths take longer than all the rest, and it is asked at every keystroke.
        self._answers: dict[str, Settings] = {}
        self._last_good: dict[Path, Settings] = {}
        self._problems: dict[Path, SettingsError] = {}
        self._stamps: dict[Path, int | None] = {}
        self._looked = 0.0
        self._scopes: list[_Scope] = []
        self.change_folders(added=folders)

    @property
    def folders(self) -> list[str]:
        """The URIs of the workspace's folders."""
        return [scope.uri for scope in self._scopes if scope.uri is not None]

    def change_folders(self, added: Iterable[str] = (), removed: Sequence[str] = ()) -> None:
        """Folders came into the workspace or left it."""
        kept = [scope for scope in self._scopes if scope.uri is not None and scope.uri not in removed]
        self._scopes = [*kept, *(_Scope(uri, _path(uri)) for uri in added)]
        self._forget_merged()

    def set_options(self, options: object) -> None:
        """Settings for all documents: what comes with `initialize` or a change of the configuration."""
        self._options = _table(options)
        self._forget_merged()

    def set_by_folder(self, options: Mapping[str | None, object]) -> bool:
        """Settings as the client gives them for each folder, and under None for documents outside of them.

        Whether any is another than before.
        """
        before, self._by_folder = self._by_folder, {folder: _table(value) for folder, value in options.items()}
        self._forget_merged()
        return any(before.get(folder, {}) != table for folder, table in self._by_folder.items())

    def forget_files(self) -> None:
        """Read files anew: one of them was created, changed or deleted."""
        self._resolver.forget()
        self._forget_merged()
        self._problems.clear()

    def changed_on_disk(self, *, now: bool = False) -> bool:
        """Whether a file of settings is not as it was when it was read; then all are read anew.

        Looks only where the client does not tell, and then at most once a second unless it is to look ``now``.
        """
        if self._watched or not (now or time.monotonic() - self._looked > _LOOK_INTERVAL):
            return False
        self._looked = time.monotonic()
        changed = any(_stamp(path) != stamp for path, stamp in self._stamps.items())
        if changed:
            self._stamps.clear()
            self.forget_files()
        return changed

    def problems(self) -> dict[Path, SettingsError]:
        """The files of settings that cannot be used, of those that were read so far."""
        return dict(self._problems)

    def for_file(self, filename: str) -> Settings:
        """The settings of a document. Where its file of settings is broken: the last ones that were not."""
        if filename not in self._answers:
            self._answers[filename] = self._for_file(filename)
        return self._answers[filename]

    def _forget_merged(self) -> None:
        self._known.clear()
        self._answers.clear()

    def _for_file(self, filename: str) -> Settings:
        path = Path(filename)
        scope = self._scope(path)
        if not path.is_absolute():  # an unsaved document is thought to be in the workspace's first folder
            path = (scope.path or Path.home()) / path.name
        key = path.parent, scope.uri
        if key not in self._known:
            self._known[key] = self._merged(self._from_files(path), scope)
        settings = self._known[key]
        base = settings.root or scope.path or path.parent
        return _nothing(settings) if settings.excludes(path, base=base) else settings

    def _scope(self, path: Path) -> _Scope:
        """The innermost folder of the workspace that holds a path; for an unsaved document the first folder."""
        if not path.is_absolute():
            return self._scopes[0] if self._scopes else _Scope(None, None)
        holding = [scope for scope in self._scopes if scope.path is not None and path.is_relative_to(scope.path)]
        return max(holding, key=lambda scope: len(scope.path.parts) if scope.path else 0, default=_Scope(None, None))

    def _from_files(self, path: Path) -> Settings:
        if not self._watched:
            self._stamps.update((candidate, _stamp(candidate)) for candidate in _candidates(path))
        try:
            settings = self._resolver.settings_for(path)
            _validate(settings)
        except SettingsError as error:
            if error.path is None:
                self._log.once(str(error))
                return Settings()
            self._problems[error.path] = error
            self._log.once(f"{error}; the settings before are used")
            return self._last_good.get(error.path, Settings())
        if settings.origin.path is not None:
            self._last_good[settings.origin.path] = settings
        return settings

    def _merged(self, settings: Settings, scope: _Scope) -> Settings:
        """Settings with those of the editor on top, where it has any."""
        table = {**self._options, **self._by_folder.get(scope.uri, {})}
        editor = Settings()
        for key, value in table.items():
            try:
                one = parse_settings({key: value}, Origin(), None)
                _validate(one)
            except SettingsError as error:
                self._log.once(f"a setting of the editor is not used: {error}")
                continue
            editor = replace(editor, **_given(one))
        given = _given(editor)
        selection = Selection(given.pop("select", None), given.pop("ignore", ()), given.pop("extend_select", ()))
        severity = {**settings.severity, **given.pop("severity", {})}
        return replace(settings, **given, severity=severity, override=selection)


def _validate(settings: Settings) -> None:
    # The rules are loaded after `initialize` is answered, and before the first document has settings.
    from torchlint.rules import all_rules

    settings.validate(all_rules())


def _given(settings: Settings) -> dict[str, Any]:
    """The fields that are not as in settings that say nothing."""
    nothing = Settings()
    values = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "origin"}
    return {name: value for name, value in values.items() if value != getattr(nothing, name)}


def _nothing(settings: Settings) -> Settings:
    """Settings under which nothing is found: the project excludes the file."""
    return replace(settings, override=Selection(select=()))


def _table(options: object) -> Table:
    """The table of settings in what a client sends, which may be one or two levels down; keys as in a file."""
    while isinstance(options, Mapping):
        inner = next((options[name] for name in (SECTION, "settings") if isinstance(options.get(name), Mapping)), None)
        if inner is None:
            break
        options = inner
    if not isinstance(options, Mapping):
        return {}
    return {
        _CAPITAL.sub(r"-\1", str(key)).lower(): value
        for key, value in options.items()
        if value is not None and key not in _CLIENT_ONLY
    }


def _candidates(path: Path) -> Iterator[Path]:
    """The files that could hold settings for a path."""
    for folder in path.parents:
        yield from (folder / name for name in SETTINGS_FILES)


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _path(uri: str) -> Path | None:
    path = to_fs_path(uri)
    return Path(path) if path else None
