"""The state of one client's session: its open programs, their settings and their analyses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from lsprotocol import types
from pygls.uris import to_fs_path

from torchlint.lsp import memory
from torchlint.lsp.analyses import Analysed, Analyses, Unfinished
from torchlint.lsp.documents import Buffer, File, Notebook, Part, Program
from torchlint.lsp.protocol import Json
from torchlint.lsp.reports import Report, settings_report

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import Path

    from torchlint.lsp.analyses import MakeLinter
    from torchlint.lsp.capabilities import Client
    from torchlint.lsp.editor_settings import EditorSettings
    from torchlint.lsp.server import Server
    from torchlint.settings import SettingsError

_T = TypeVar("_T")

#: In seconds: how long the first analyses wait for the editor to say its settings.
_PATIENCE = 1.0
#: In seconds: how long after the first finding with a fix libcst is loaded, which the user may soon need.
_READING_TIME = 0.5


class Session:
    """Owned by the event loop; nothing here is called from another thread."""

    def __init__(self, server: Server, client: Client, settings: EditorSettings, make_linter: MakeLinter) -> None:
        self.client = client
        self.settings = settings
        self._server = server
        self._log = server.log
        self._programs: dict[str, Program] = {}
        self._program_of: dict[str, Program] = {}
        self._published: dict[str, set[str]] = {}
        self._told: dict[Path, SettingsError] = {}
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fixes_loaded = False
        self.analyses = Analyses(make_linter, client, done=self._done, failed=self._failed)
        asyncio.get_running_loop().call_later(_PATIENCE, self._start)

    # Documents

    def open_file(self, item: types.TextDocumentItem) -> None:
        """A text document was opened."""
        if item.language_id == "python" or filename_of(item.uri).endswith((".py", ".pyi")):
            self._open(File(Buffer(item), filename_of(item.uri)))

    def open_notebook(self, notebook: types.NotebookDocument, texts: Iterable[types.TextDocumentItem]) -> None:
        """A notebook was opened."""
        self._open(Notebook(notebook, texts, filename_of(notebook.uri)))

    def file(self, uri: str) -> File | None:
        """The open file of a URI."""
        program = self._programs.get(uri)
        return program if isinstance(program, File) else None

    def notebook(self, uri: str) -> Notebook | None:
        """The open notebook of a URI."""
        program = self._programs.get(uri)
        return program if isinstance(program, Notebook) else None

    def changed(self, program: Program) -> None:
        """The text or the structure of a program is another now."""
        program.generation += 1
        if isinstance(program, Notebook):
            self._claim(program)
        self._analyse(program)

    def close(self, uri: str) -> None:
        """A file or a notebook was closed."""
        program = self._programs.pop(uri, None)
        if program is None:
            return
        self._program_of = {uri: owner for uri, owner in self._program_of.items() if owner is not program}
        self.analyses.close(program)
        for published in self._published.pop(program.uri, ()):
            self._publish(published, Report())

    def _open(self, program: Program) -> None:
        if program.uri in self._programs:
            self.close(program.uri)
        self._programs[program.uri] = program
        self._claim(program)
        self._analyse(program)

    def _claim(self, program: Program) -> None:
        self._program_of = {uri: owner for uri, owner in self._program_of.items() if owner is not program}
        self._program_of.update(dict.fromkeys(program.uris, program))

    # Analyses

    async def newest(self, uri: str) -> tuple[Analysed, Part] | None:
        """The analysis of a document's present text, and the document's part in it; None if it is not open."""
        program = self._program_of.get(uri)
        if program is None:
            return None
        try:
            analysed = await self.newest_of(program)
        except Unfinished:
            return None
        part = analysed.snapshot.part(uri)
        return (analysed, part) if part else None

    async def newest_of(self, program: Program) -> Analysed:
        """The analysis of a program's present state. Raises Unfinished if there is none."""
        await self._ready.wait()
        return await self.analyses.newest(program)

    async def soon(self, program: Program, patience: float | None) -> Analysed | None:
        """The analysis of a program's present state if it comes in so many seconds, else the last one.

        The first one of a program is waited for, and every one with no ``patience``. None if there is none.
        """
        last = self.analyses.last(program)
        try:
            newest = self.newest_of(program)
            return await asyncio.wait_for(newest, patience if last else None)
        except asyncio.TimeoutError:
            return last
        except Unfinished:
            return None

    def program(self, uri: str) -> Program | None:
        """The program that a document (a file or a notebook cell) belongs to."""
        return self._program_of.get(uri)

    def settings_known(self, *, changed: bool) -> None:
        """The editor has said its settings: analyse what is open, again if they come late and change something."""
        if not self._ready.is_set():
            self._start()
        elif changed:
            self.settings_changed()

    def _start(self) -> None:
        if not self._ready.is_set():
            self._ready.set()
            for program in self._programs.values():
                self._analyse(program)

    def saved(self) -> None:
        """Something was saved: where the client does not watch files this is the moment to look at settings."""
        if self.settings.changed_on_disk(now=True):
            self.settings_changed()

    def settings_changed(self) -> None:
        """Analyse everything again, and have a client that pulls ask again."""
        if not self._ready.is_set():
            return
        programs = list(self._programs.values())
        for program in programs:
            self._analyse(program)
        self._tell_settings_problems()
        if self.client.refresh and programs:
            self.in_background(self._refresh_after(programs))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that nobody waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def structure(self, value: object, kind: type[_T]) -> _T:
        """A value in the form of the wire as an object of the protocol."""
        structured: _T = self._server.protocol._converter.structure(value, kind)
        return structured

    def stop(self) -> None:
        """End all work."""
        self.analyses.stop()

    def _analyse(self, program: Program) -> None:
        if not self._ready.is_set():
            return
        if self.settings.changed_on_disk():
            self.settings_changed()  # of this program too
            return
        self.analyses.schedule(program, self.settings.for_file(program.filename))
        self._tell_settings_problems()

    async def _refresh_after(self, programs: list[Program]) -> None:
        for program in programs:
            with contextlib.suppress(Unfinished):
                await self.analyses.newest(program)
        self._refresh()

    def _refresh(self) -> None:
        self._server.workspace_diagnostic_refresh(None)

    def _done(self, program: Program, analysed: Analysed, previous: Analysed | None) -> None:
        for problem in analysed.analysis.problems:
            if problem.kind == "rule":
                self._log.once(problem.message)
        if not self._fixes_loaded and any(finding.applicability for finding in analysed.analysis.findings):
            self._fixes_loaded = True
            asyncio.get_running_loop().call_later(_READING_TIME, _in_own_thread, _load_fixes)
        if not self.client.pull:
            self._publish_all(program, analysed)
        elif self.client.refresh and previous and program.is_notebook and _changed_elsewhere(previous, analysed):
            self._refresh()

    def _failed(self, program: Program, error: BaseException) -> None:
        self._log.error_once(f"{program.filename} could not be analysed", error)
        for published in self._published.pop(program.uri, ()):
            self._publish(published, Report())

    # Pushed findings

    def _publish_all(self, program: Program, analysed: Analysed) -> None:
        before = self._published.get(program.uri, set())
        self._published[program.uri] = set(analysed.reports)
        for uri in before - set(analysed.reports):
            self._publish(uri, Report())
        for part in analysed.snapshot.parts:
            self._publish(part.uri, analysed.reports[part.uri], part.version)

    def _publish(self, uri: str, report: Report, version: int | None = None) -> None:
        number = "" if version is None else f'"version":{version},'
        params = Json(f'{{"uri":{json.dumps(uri)},{number}"diagnostics":{report.items}}}')
        self._server.protocol.notify_json(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def _tell_settings_problems(self) -> None:
        """Show broken settings in the file that holds them: no client asks about that file, so they are pushed."""
        problems = self.settings.problems()
        if problems == self._told:
            return
        for path in self._told.keys() - problems.keys():
            self._publish(path.as_uri(), Report())
        for path, error in problems.items():
            self._publish(path.as_uri(), settings_report(error, self.client.encoding))
        self._told = problems


def filename_of(uri: str) -> str:
    """The path that a URI names; for one that names no file (an unsaved document) what stands for its name."""
    return to_fs_path(uri) or unquote(uri.partition(":")[2].partition("?")[0]) or uri


def _in_own_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=work.__name__, daemon=True).start()


def _load_fixes() -> None:
    """Not in the analysis thread, which a keystroke would have to wait for."""
    from torchlint.fixes import arguments

    arguments.load()
    memory.keep()


def _changed_elsewhere(before: Analysed, after: Analysed) -> bool:
    """Whether findings changed in a document that was not edited itself, which a client does not ask for again."""
    versions = {part.uri: part.version for part in before.snapshot.parts}
    for part in after.snapshot.parts:
        old, new = before.reports.get(part.uri, Report()), after.reports[part.uri]
        if old.result_id != new.result_id and versions.get(part.uri, part.version) == part.version:
            return True
    return any(before.reports[uri].result_id for uri in versions.keys() - after.reports.keys())
