"""What the server has to say beside findings: to the client's log, never in the user's face."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Callable


class Log:
    """Writes to standard error until there is a client that takes log messages."""

    def __init__(self) -> None:
        self._send: Callable[[types.LogMessageParams], None] | None = None
        self._said: set[str] = set()

    def connect(self, send: Callable[[types.LogMessageParams], None] | None) -> None:
        """Send messages to the client from now on; with None write to standard error again."""
        self._send = send

    def information(self, message: str) -> None:
        self._write(types.MessageType.Info, message)

    def warning(self, message: str) -> None:
        self._write(types.MessageType.Warning, message)

    def error(self, message: str, error: BaseException | None = None) -> None:
        """Say what failed, with the traceback of what was raised."""
        trace = "".join(traceback.format_exception(error)) if error else ""
        self._write(types.MessageType.Error, f"{message}\n{trace}".rstrip())

    def error_once(self, message: str, error: BaseException) -> None:
        """Say what failed, but not again while it fails in the same way."""
        key = f"{message}: {error!r}"
        if key not in self._said:
            self._said.add(key)
            self.error(message, error)

    def once(self, message: str) -> None:
        """Warn, but only once in the server's life."""
        if message not in self._said:
            self._said.add(message)
            self.warning(message)

    def _write(self, kind: types.MessageType, message: str) -> None:
        if self._send is not None:
            self._send(types.LogMessageParams(type=kind, message=message))
        else:
            print(f"torchlint: {message}", file=sys.stderr, flush=True)


def silence_libraries() -> None:
    """pygls logs every message and every refused one with a traceback; what matters of it comes through `Log`."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
