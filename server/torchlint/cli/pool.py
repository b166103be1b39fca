"""Many files in several processes, the outcomes in the order of the files."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchlint.cli.job import Job, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from torchlint.cli.one_file import FileLinter

#: Below this many bytes of source, starting processes takes longer than they save.
_WORTH_PROCESSES = 300_000
#: Small, so that the processes end together and an interrupt is soon obeyed.
_FILES_A_TASK = 4


def default_jobs() -> int:
    """The processors that this process may use (a container may have fewer than the machine)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def lint_files(files: Sequence[Path], linter: FileLinter, jobs: int) -> Iterator[Outcome]:
    """Lint all files, in at most ``jobs`` processes; an outcome for each file, in order, as soon as it can be given."""
    jobs = min(jobs, len(files))
    if jobs <= 1 or _bytes(files) < _WORTH_PROCESSES:
        with _collecting_between_files():
            for number, file in enumerate(files):
                if number:
                    gc.collect()
                yield linter.lint_file(file)
        return
    done = 0
    for outcome in _pooled(files, linter.job, jobs):
        yield outcome
        done += 1
    # Fewer outcomes than files: a process died and took the pool with it. One by one, the file at fault is found.
    yield from _one_by_one(files[done:], linter.job)


@contextmanager
def _collecting_between_files() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from looking again and again at trees that are all still in use.

    It costs a third of a run otherwise. What is there at the start is never looked at.
    """
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _pooled(files: Sequence[Path], job: Job, jobs: int) -> Iterator[Outcome]:
    from concurrent.futures.process import BrokenProcessPool

    executor = _executor(job, jobs)
    try:
        yield from executor.map(_lint_in_process, files, chunksize=_FILES_A_TASK)
    except BrokenProcessPool:
        return
    finally:
        # Waited for, because Python may end with a traceback when an executor is still closing.
        executor.shutdown(cancel_futures=True)


def _one_by_one(files: Sequence[Path], job: Job) -> Iterator[Outcome]:
    from concurrent.futures.process import BrokenProcessPool

    executor = _executor(job, 1)
    try:
        for file in files:
            error = (future := executor.submit(_lint_in_process, file)).exception()
            if not isinstance(error, BrokenProcessPool):
                yield future.result()
                continue
            yield Outcome(failed=True, messages=(f"{file}: the process that linted this file died",))
            executor.shutdown()
            executor = _executor(job, 1)
    finally:
        executor.shutdown(cancel_futures=True)


def _executor(job: Job, jobs: int) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(jobs, initializer=_start_process, initargs=(job,))


#: Of a worker process, made once, so that the settings that it has read stay read.
_linter: FileLinter | None = None


def _start_process(job: Job) -> None:
    global _linter
    from torchlint.cli.one_file import FileLinter

    _linter = FileLinter(job)
    gc.freeze()
    gc.disable()
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _lint_in_process(file: Path) -> Outcome:
    assert _linter is not None
    gc.collect()
    return _linter.lint_file(file)


def _bytes(files: Sequence[Path]) -> int:
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except OSError:
            continue
        if total >= _WORTH_PROCESSES:
            break
    return total
