"""A folder to work in, and the command line as a user calls it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from torchlint.cli import run_command


@dataclass(frozen=True)
class Result:
    """What a run left behind."""

    status: int
    out: str
    err: str


Torchlint = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; nothing above it holds settings."""
    monkeypatch.chdir(tmp_path)
    # A program that is run twice is linted twice: what the cache does is told in test_cache.py.
    monkeypatch.setenv("TORCHLINT_NO_CACHE", "1")
    monkeypatch.delenv("TORCHLINT_CACHE_DIR", raising=False)
    return tmp_path


@pytest.fixture
def torchlint(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Torchlint:
    """``torchlint(*arguments, stdin=b"...")`` runs the command in this process."""

    def run(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["torchlint", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfdbinary.readouterr()
        status = run_command()
        sys.stdout.flush()
        sys.stderr.flush()
        captured = capfdbinary.readouterr()
        return Result(status, captured.out.decode("utf-8"), captured.err.decode("utf-8"))

    return run
