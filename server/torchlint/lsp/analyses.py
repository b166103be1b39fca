"""When programs are analysed: in one thread, each at most once at a time, and its newest state always.

The event loop owns the programs and calls everything here but the work itself. A change makes a running analysis of
the same program worthless: it stops between two units of its work. A running analysis of another program steps back
too and goes on later from what its linter kept, so that a keystroke never waits for a file that was opened before.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torchlint.frozen import dataclass
from torchlint.lsp.memory import Memory
from torchlint.lsp.reports import Report, reports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchlint.finding import Applicability, Finding, Fix, Problem
    from torchlint.lsp.capabilities import Client
    from torchlint.lsp.documents import Program, Snapshot
    from torchlint.settings import Settings
    from torchlint.text import Document


_T = TypeVar("_T")


class AnalysisLike(Protocol):
    """What the server needs of `torchlint.linter.Analysis`."""

    @property
    def document(self) -> Document: ...
    @property
    def findings(self) -> tuple[Finding, ...]: ...
    @property
    def problems(self) -> tuple[Problem, ...]: ...
    def fixes(self, finding: Finding) -> tuple[Fix, ...]: ...
    def fix_titles(self, finding: Finding) -> tuple[tuple[str, Applicability], ...]: ...
    def released(self) -> AnalysisLike: ...


class LinterLike(Protocol):
    """What the server needs of `torchlint.linter.Linter`: it lints the versions of one document."""

    def analyze(
        self, document: Document, settings: Settings | None = None, *, cancelled: Callable[[], bool]
    ) -> AnalysisLike: ...


#: The trees of so many programs are kept, those that were analysed last; another costs a cold lint when it is edited.
PROGRAMS_KEPT = 10
#: After so many programs that were let go their trees are collected.
_COLLECT_AFTER = 5

MakeLinter = Callable[[], LinterLike]


class Unfinished(Exception):
    """There is no analysis: the program was closed, the server leaves, or the linter raised (which is logged)."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """The result for one state of a program."""

    snapshot: Snapshot
    settings: Settings
    analysis: AnalysisLike
    reports: Mapping[str, Report]


@dataclass(slots=True, eq=False)
class _Job:
    """A program's place in the queue; read by the analysis thread, written by the event loop."""

    program: Program
    settings: Settings
    wanted: Snapshot
    result: asyncio.Future[Analysed]
    #: Made in the analysis thread, for the first analysis.
    linter: LinterLike | None = None
    #: Whether its linter has not yet finished an analysis.
    is_cold: bool = True
    last: Analysed | None = None
    closed: bool = False


class Analyses:
    """The analyses of all open programs."""

    def __init__(
        self,
        make_linter: MakeLinter,
        client: Client,
        *,
        done: Callable[[Program, Analysed, Analysed | None], None],
        failed: Callable[[Program, BaseException], None],
    ) -> None:
        """``done`` gets each finished analysis and the one before it, ``failed`` what a linter raised."""
        self._make_linter = make_linter
        self._client = client
        self._done, self._failed = done, failed
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[str, _Job] = {}
        self._waiting: list[_Job] = []
        self._running: _Job | None = None
        #: The programs whose trees are kept, the last analysed one last.
        self._warm: list[_Job] = []
        self._let_go = 0
        #: Counts the changes of all programs: what runs steps back when it moves.
        self._changes = 0
        self._memory = Memory()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="analysis", daemon=True).start()

    async def call(self, function: Callable[[], _T]) -> _T:
        """What a function returns that uses a linter or an analysis: run in the thread that alone touches them.

        An analysis that is under way steps back for it.
        """
        result: asyncio.Future[_T] = self._loop.create_future()

        def run() -> None:
            try:
                value = function()
            except Exception as error:
                self._loop.call_soon_threadsafe(_settle, result, None, error)
            else:
                self._loop.call_soon_threadsafe(_settle, result, value, None)

        self._changes += 1
        self._calls.put(run)
        return await result

    def schedule(self, program: Program, settings: Settings) -> None:
        """Analyse a program as it is now; results that are under way for an older state are dropped."""
        snapshot = program.snapshot(self._client.encoding)
        job = self._jobs.get(program.uri)
        if job is None:
            job = _Job(program, settings, snapshot, self._loop.create_future())
            self._jobs[program.uri] = job
        job.settings, job.wanted = settings, snapshot
        self._changes += 1
        if job.result.done():
            job.result = self._loop.create_future()
        if job in self._waiting:
            self._waiting.remove(job)
        self._waiting.append(job)
        self._next()

    def close(self, program: Program) -> None:
        """Forget a program and what was kept for it."""
        job = self._jobs.pop(program.uri, None)
        if job is None:
            return
        job.closed = True
        for jobs in (self._waiting, self._warm):
            if job in jobs:
                jobs.remove(job)
        _finish(job.result, Unfinished())

    def stop(self) -> None:
        """Let the thread end after the unit that it works on."""
        for job in list(self._jobs.values()):
            self.close(job.program)
        self._calls.put(None)

    def last(self, program: Program) -> Analysed | None:
        """The last finished analysis, perhaps of an older state."""
        job = self._jobs.get(program.uri)
        return job.last if job else None

    def wanted(self, program: Program) -> Snapshot | None:
        """The newest state of a program that was scheduled."""
        job = self._jobs.get(program.uri)
        return job.wanted if job else None

    async def newest(self, program: Program) -> Analysed:
        """The analysis of the newest state, when it is there. Raises Unfinished if the program is closed meanwhile."""
        job = self._jobs.get(program.uri)
        if job is None:
            raise Unfinished
        while True:
            # A request that is cancelled must not cancel the analysis, which others may wait for too.
            analysed = await asyncio.shield(job.result)
            if analysed.snapshot.generation == program.generation or job.closed:
                return analysed

    def _next(self) -> None:
        """Give the thread the program that changed last; it is told to stop if it works on something else."""
        if self._running is None and self._waiting:
            job = self._running = self._waiting.pop()
            snapshot, settings = job.wanted, job.settings
            changes = self._changes
            self._calls.put(lambda: self._analyse(job, snapshot, settings, changes))

    def _analyse(self, job: _Job, snapshot: Snapshot, settings: Settings, changes: int) -> None:
        """In the analysis thread."""

        def cancelled() -> bool:
            return job.closed or self._changes != changes

        outcome: Analysed | BaseException
        try:
            # The event loop may let the linter go at any time.
            linter = job.linter or self._make_linter()
            job.linter = linter
            analysis = linter.analyze(snapshot.document, settings, cancelled=cancelled)
            outcome = Analysed(snapshot, settings, analysis, reports(snapshot, analysis.findings, self._client))
        except BaseException as error:  # also Cancelled: the thread must outlive everything
            outcome = error
        self._loop.call_soon_threadsafe(self._finished, job, snapshot, outcome)
        if isinstance(outcome, Analysed):
            self._memory.analysed(whole=job.is_cold)
            job.is_cold = False

    def _finished(self, job: _Job, snapshot: Snapshot, outcome: Analysed | BaseException) -> None:
        self._running = None
        try:
            if not job.closed:
                self._take(job, job.wanted is snapshot, outcome)
        finally:
            self._next()

    def _take(self, job: _Job, is_newest: bool, outcome: Analysed | BaseException) -> None:
        if isinstance(outcome, Analysed):
            previous = job.last
            if is_newest or previous is None:
                job.last = outcome
            self._keep_warm(job)
            if is_newest:
                _finish(job.result, outcome)
                self._done(job.program, outcome, previous)
        elif is_newest:
            self._again_or_failed(job, outcome)

    def _keep_warm(self, job: _Job) -> None:
        """Keep the trees of a program, and let go those of the one that was not analysed for the longest time."""
        if job in self._warm:
            self._warm.remove(job)
        self._warm.append(job)
        if len(self._warm) > PROGRAMS_KEPT:
            cold = self._warm.pop(0)
            cold.linter, cold.is_cold = None, True
            self._let_go += 1
            if self._let_go % _COLLECT_AFTER == 0:
                self._calls.put(self._memory.collect_all)
            if cold.last is not None:
                cold.last = replace(cold.last, analysis=cold.last.analysis.released())
                if cold.result.done() and not cold.result.cancelled() and cold.result.exception() is None:
                    cold.result = self._loop.create_future()
                    cold.result.set_result(cold.last)

    def _again_or_failed(self, job: _Job, error: BaseException) -> None:
        from torchlint.linter import Cancelled

        if isinstance(error, Cancelled):
            self._waiting.insert(0, job)  # it stepped back for another program
            return
        _finish(job.result, Unfinished())
        self._failed(job.program, error)

    def _work(self) -> None:
        while call := self._next_call():
            call()

    def _next_call(self) -> Callable[[], None] | None:
        for pause in self._memory.pauses():
            with contextlib.suppress(queue.Empty):
                return self._calls.get(timeout=pause)
        return self._calls.get()


def _settle(future: asyncio.Future[Any], value: object, error: Exception | None) -> None:
    if future.done():
        return  # the request was cancelled
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _finish(future: asyncio.Future[Analysed], outcome: Analysed | Unfinished) -> None:
    if future.done():
        return
    if isinstance(outcome, Analysed):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
        future.exception()  # nobody may be waiting: that is no error
