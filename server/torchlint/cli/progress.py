"""How far a long run is, for a person who watches."""

from __future__ import annotations

import sys
import time

import click

_PATIENCE = 1.0
_INTERVAL = 0.1


class Progress:
    """One line on stderr that is rewritten in place; nothing at all when stderr is no terminal or the run is short."""

    def __init__(self, total: int, *, enabled: bool = True) -> None:
        self.total = total
        self.done = 0
        self._shown = False
        self._enabled = enabled and sys.stderr.isatty()
        self._next = time.monotonic() + _PATIENCE

    def advance(self) -> None:
        """One more file is done."""
        self.done += 1
        now = time.monotonic()
        if self._enabled and now >= self._next:
            self._shown = True
            click.echo(f"\r\x1b[2KLinting: {self.done} of {self.total} files", err=True, nl=False)
            self._next = now + _INTERVAL

    def clear(self) -> None:
        """Take the line away: before other output, and at the end."""
        if self._shown:
            click.echo("\r\x1b[2K", err=True, nl=False)
            self._shown = False
