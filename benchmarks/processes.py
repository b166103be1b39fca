"""Whole processes: start of the server, the command line on one small file, memory with many files open."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


def tree_speed(command: list[str]) -> tuple[float, int]:
    """Seconds of one run over the whole package and its number of lines."""
    folder = package_folder()
    lines = sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))
    started = time.perf_counter()
    subprocess.run([*command, str(folder)], capture_output=True, check=False)
    return time.perf_counter() - started, lines
