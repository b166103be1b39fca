"""What earlier runs found, so that a file that did not change is not linted again.

One folder, `.torchlint_cache`, beside the settings file (without one: in the working folder). In it a folder for each
version of torchlint and of the settings, in that one JSON file for each folder of sources. Every file is replaced as a
whole, so that runs may overlap; what cannot be read counts as not there, and what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint._version import __version__
from torchlint.cli.record import Record, Stamp, digest
from torchlint.regex import regex
from torchlint.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.settings import Settings, SettingsResolver

FOLDER = ".torchlint_cache"
#: In seconds: what no run has written to for so long goes when a new folder is made beside it.
_KEPT = 30 * 24 * 3600
#: https://bford.info/cachedir/: backups and searches leave such a folder out.
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by torchlint; it can be removed at any time.\n"
_OURS = regex(r"\d[\w.+]*-\w+-\d+\w*-[0-9a-f]{16}")
_NAME = f"{__version__}-{sys.implementation.cache_tag}-"


class Cache:
    """The records of many files, read when they are asked for and written by ``close``. Never raises."""

    def __init__(self, resolver: SettingsResolver, folder: Path | None = None) -> None:
        """``folder``: the one for all files, in place of those beside the settings."""
        self._resolver = resolver
        self._folder = folder
        self._working_folder = Path.cwd()
        self._made_by = f"{code_version()} {sys.version}"
        self._places: dict[int, tuple[Settings, _Place]] = {}
        self._shards: dict[tuple[Path, str], _Shard] = {}

    def recall(self, path: Path) -> Record | None:
        """The record of a file if it is still true: of these contents, under the settings that the file has now."""
        found = self._entry(path)
        if found is None:
            return None
        shard, name = found
        record = shard.record(name)
        now = Stamp.of_file(path) if record is not None else None
        if record is None or now is None:
            return None
        if record.stamp.is_same(now):
            return record
        if record.stamp.size != now.size:
            return None
        try:
            stamp = now.read(path.read_bytes())
        except OSError:
            return None
        if stamp.digest != record.stamp.digest:
            return None
        if any(stamp.times):
            shard.keep(name, record.with_stamp(stamp))
        return record

    def keep(self, path: Path, record: Record) -> None:
        """Keep the record of a file that was linted."""
        found = self._entry(path)
        if found is not None:
            shard, name = found
            shard.keep(name, record)

    def close(self) -> None:
        """Write what is new, and drop what is kept of files and folders that are gone."""
        for shard in self._shards.values():
            shard.drop_missing()
        changed = [shard for shard in self._shards.values() if shard.changed]
        for shard in changed:
            shard.write(self._made_by)
        for place in {shard.place.folder: shard.place for shard in changed}.values():
            place.sweep({shard.file for shard in self._shards.values()})

    def _entry(self, path: Path) -> tuple[_Shard, str] | None:
        """What is kept of the files beside a file, and its name there."""
        try:
            settings = self._resolver.settings_for(path)
        except SettingsError:
            return None
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - a link is not followed
        place = self._place(settings)
        key = place.folder, folder
        if key not in self._shards:
            self._shards[key] = _Shard(place, folder, self._made_by)
        return self._shards[key], name

    def _place(self, settings: Settings) -> _Place:
        known = self._places.get(id(settings))
        if known is None:
            root = Path(os.path.abspath(settings.root or self._working_folder))  # noqa: PTH100
            key = settings.findings_key()
            if self._folder is None:
                place = _Place(root / FOLDER, key, root)
            else:
                # Several projects may meet here: paths are absolute, and patterns mean something else elsewhere.
                place = _Place(self._folder.absolute(), f"{key} {root}", None)
            # The settings are kept with it, or another object might have their id one day.
            self._places[id(settings)] = known = settings, place
        return known[1]


class _Place:
    """The folder for the records of one version of torchlint under the same settings."""

    def __init__(self, cache: Path, key: str, root: Path | None) -> None:
        """``root``: what paths are relative to, so that a project may move together with its cache."""
        self.cache = cache
        self.folder = cache / (_NAME + digest(key.encode("utf-8", "surrogatepass")))
        self.root = root

    def relative(self, folder: str) -> str:
        """What a folder of sources is called here."""
        root = str(self.root) if self.root is not None else ""
        if folder == root:
            return "."
        inside = root and folder.startswith(root.rstrip(os.sep) + os.sep)
        return folder[len(root.rstrip(os.sep)) + 1 :] if inside else folder

    def prepare(self) -> None:
        """Make the folder. Raises OSError."""
        if self.folder.is_dir():
            with contextlib.suppress(OSError):
                os.utime(self.folder)
            return
        new = not self.cache.exists()
        self.cache.mkdir(parents=True, exist_ok=True)
        if new:
            (self.cache / "CACHEDIR.TAG").write_text(_TAG, encoding="utf-8")
            (self.cache / ".gitignore").write_text("# Made by torchlint.\n*\n", encoding="utf-8")
        self.folder.mkdir(exist_ok=True)
        self._remove_unused()

    def _remove_unused(self) -> None:
        for other in _entries(self.cache):
            if _OURS.fullmatch(other.name) and other.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if other.stat().st_mtime < time.time() - _KEPT:
                        _remove(Path(other.path))

    def sweep(self, used: set[Path]) -> None:
        """Remove what is kept of folders that are gone. ``used``: the files that this run has looked at."""
        for entry in _entries(self.folder):
            file = self.folder / entry.name
            if file in used or file.suffix != ".json":
                continue
            folder = _content(file).get("folder")
            if not isinstance(folder, str) or not Path(self.root or "", folder).is_dir():
                with contextlib.suppress(OSError):
                    file.unlink()


class _Shard:
    """The records of the files of one folder."""

    def __init__(self, place: _Place, folder: str, made_by: str) -> None:
        self.place = place
        self._folder = folder
        self._name = place.relative(folder)
        self.file = place.folder / f"{digest(self._name.encode('utf-8', 'surrogatepass'))}.json"
        #: As JSON has them: of a long file that holds many, one may be all that is asked for.
        self._known = self._read(made_by)
        #: None for a file that is gone.
        self._new: dict[str, Record | None] = {}

    @property
    def changed(self) -> bool:
        return bool(self._new)

    def record(self, name: str) -> Record | None:
        return Record.from_json(self._known[name]) if name in self._known else None

    def keep(self, name: str, record: Record) -> None:
        self._new[name] = record

    def drop_missing(self) -> None:
        """Forget the files that are gone."""
        for name in self._known.keys() - self._new.keys():
            if not os.path.lexists(f"{self._folder}{os.sep}{name}"):
                self._new[name] = None

    def write(self, made_by: str) -> None:
        """Write what is new over what is there by now: another run may have written meanwhile."""
        files = self._read(made_by)
        for name, record in self._new.items():
            files.pop(name, None)
            if record is not None:
                files[name] = record.to_json()
        if not files:
            with contextlib.suppress(OSError):
                self.file.unlink(missing_ok=True)
            return
        content = {"made_by": made_by, "folder": self._name, "files": files}
        temporary = self.file.with_suffix(f".{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            self.place.prepare()
            try:
                temporary.write_text(json.dumps(content, separators=(",", ":")), encoding="ascii")
                temporary.replace(self.file)
            except OSError:
                temporary.unlink(missing_ok=True)

    def _read(self, made_by: str) -> dict[str, Any]:
        content = _content(self.file)
        files = content.get("files")
        if content.get("made_by") != made_by or content.get("folder") != self._name or not isinstance(files, dict):
            return {}
        return files


def _content(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is none."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _remove(folder: Path) -> None:
    """Remove a folder of ours, and nothing in it that is not. Raises OSError."""
    for entry in _entries(folder):
        if entry.name.endswith((".json", ".tmp")):
            Path(entry.path).unlink()
    folder.rmdir()


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def code_version() -> str:
    """A digest of the code of torchlint and of its facts: another one after every change."""
    package = Path(__file__).parents[1]
    # Of code in an archive nothing is known, and nothing that was found by it is used again.
    state = _recorded(package) or sorted(_looked_at(package)) or [str(time.time_ns())]
    return digest("\n".join(state).encode("utf-8", "surrogatepass"))


def _recorded(package: Path) -> list[str]:
    """The digests of all files as an installer recorded them; none for a development install, whose files change."""
    try:
        record = (package.parent / f"torchlint-{__version__}.dist-info" / "RECORD").read_text("utf-8")
    except (OSError, ValueError):
        return []
    return [row for row in record.splitlines() if row.startswith(f"{package.name}/") and "__pycache__" not in row]


def _looked_at(folder: Path | str) -> Iterator[str]:
    """Name, time and size of each source and each file of facts."""
    for entry in _entries(folder):
        if entry.name.endswith((".py", ".json")):
            with contextlib.suppress(OSError):
                found = entry.stat()
                yield f"{entry.path} {found.st_mtime_ns} {found.st_size}"
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _looked_at(entry.path)
