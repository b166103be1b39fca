"""Whole processes: start of the server, the command line on one small file, memory with many files open."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import package_folder
from benchmarks.language_server import LanguageServer

Start = Callable[[Path], LanguageServer]

SMALL_FILE = '''"""A small training script."""

import torch
from torch import nn


def train(model: nn.Module, loader, epochs: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
'''


def initialize_times(start: Start, rounds: int = 5) -> list[float]:
    """Seconds from starting the process to the answer to ``initialize``."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            with start(Path(folder)) as server:
                times.append(server.initialize_time)
    return times


def memory_with_open_files(start: Start, count: int = 50) -> tuple[float, float]:
    """Resident memory in MB after ``initialize`` and with that many files open and linted."""
    folder = package_folder()
    paths = sorted((folder / "timm" / "models").glob("*.py"))[:count]
    with start(folder) as server:
        before = server.memory()
        for path in paths:
            server.open(path.as_uri(), path.read_text(encoding="utf-8"))
            server.request("textDocument/diagnostic", {"textDocument": {"uri": path.as_uri()}})
        return before, server.memory()


def command_times(programs: dict[str, list[str]], rounds: int = 10) -> dict[str, list[float]]:
    """Seconds of each command with a small file as its last argument, in turns, and of a Python that does nothing."""
    commands = {**programs, "python -c pass": [sys.executable, "-I", "-c", "pass"]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.py")
        file.write_text(SMALL_FILE, encoding="utf-8")
        for number in range(rounds + 1):
            for name, command in commands.items():
                started = time.perf_counter()
                result = subprocess.run([*command, str(file)], cwd=folder, capture_output=True, check=False)
                if result.returncode not in {0, 1}:
                    raise RuntimeError(f"{name}: {result.stderr.decode(errors='replace')}")
                if number > 0:  # The first round fills the disk cache.
                    times[name].append(time.perf_counter() - started)
    return times


@dataclass(frozen=True)
class TreeRuns:
    """Seconds of runs over a whole package, with a cache that is empty at first."""

    lines: int
    first: float
    #: Nothing has changed since.
    second: float
    #: One long file has changed since.
    one_changed: float


def tree_runs(command: list[str], package: Path, rounds: int = 5) -> TreeRuns:
    """Run a command that takes ``--cache-dir`` over a copy of a package; of the later runs the median."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, package.name)
        shutil.copytree(package, tree, ignore=shutil.ignore_patterns("*.so*", "*.a", "*.h", "*.pyc", "bin"))
        paths = [path for suffix in ("*.py", "*.pyi") for path in tree.rglob(suffix)]
        lines = sum(path.read_bytes().count(b"\n") for path in paths)
        longest = max(paths, key=lambda path: path.stat().st_size)
        # What was written a moment ago may change again without a new time, and is read once more.
        long_ago = time.time() - 3600
        for path in paths:
            os.utime(path, (long_ago, long_ago))

        def run() -> float:
            started = time.perf_counter()
            done = subprocess.run([*command, "--cache-dir", f"{folder}/cache", str(tree)], capture_output=True)
            if done.returncode not in {0, 1}:
                raise RuntimeError(done.stderr.decode(errors="replace"))
            return time.perf_counter() - started

        first = run()
        second = statistics.median(run() for _ in range(rounds))
        changed = []
        for _ in range(rounds):
            with longest.open("a", encoding="utf-8") as file:
                file.write("# one more comment\n")
            changed.append(run())
        return TreeRuns(lines, first, second, statistics.median(changed))
