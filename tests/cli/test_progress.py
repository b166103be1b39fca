"""Progress is for a person who waits: on a terminal, on stderr, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from torchlint.cli import progress
from torchlint.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is what its only item says."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_long_run_on_a_terminal(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown = Progress(total=300)
    shown.advance()
    assert terminal.getvalue() == ""
    clock[0] += 1.5
    shown.advance()
    assert terminal.getvalue() == "\r\x1b[2KLinting: 2 of 300 files"
    shown.advance()
    assert "3 of 300" not in terminal.getvalue()
    clock[0] += 0.2
    shown.advance()
    assert terminal.getvalue().endswith("\r\x1b[2KLinting: 4 of 300 files")
    shown.clear()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_nothing_to_clear_is_not_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    Progress(total=3).clear()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("stream", "enabled"), [(io.StringIO, True), (Terminal, False)])
def test_nothing_in_a_pipe_or_when_quiet(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], stream: type[io.StringIO], enabled: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", written := stream())
    shown = Progress(total=3, enabled=enabled)
    clock[0] += 5
    shown.advance()
    shown.clear()
    assert written.getvalue() == ""
