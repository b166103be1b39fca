"""Messages from a stream of bytes, and the end of the process that sent them."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING

from torchlint.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

#: In seconds. The promise is to be gone 10 seconds after the editor.
_WATCH_INTERVAL = 3.0
_LENGTH = regex(rb"content-length:\s*(\d+)\s*$", re.IGNORECASE)


def messages(stream: BinaryIO) -> Iterator[bytes]:
    """The bodies of the messages in a stream, until it ends.

    Header lines other than `Content-Length` and stray bytes between messages are skipped, so that one bad message
    costs only itself.
    """
    length: int | None = None
    while line := stream.readline():
        if header := _LENGTH.search(line):
            length = int(header[1])
        elif not line.strip() and length is not None:
            body = stream.read(length)
            if len(body) < length:
                return
            yield body
            length = None


def on_end_of_process(process: int, call: Callable[[], None]) -> None:
    """Call once, from a thread, when a process is gone. A process that does not exist now is not watched.

    (A client in another container sends an id that means nothing here.)
    """
    if not _is_alive(process):
        return

    def watch() -> None:
        while _is_alive(process):
            time.sleep(_WATCH_INTERVAL)
        call()

    threading.Thread(target=watch, name="watch client", daemon=True).start()


if sys.platform == "win32":

    def _is_alive(process: int) -> bool:
        import ctypes

        synchronize, still_waiting = 0x00100000, 0x00000102
        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(synchronize, False, process)
        if not handle:
            return False
        try:
            return bool(kernel.WaitForSingleObject(handle, 0) == still_waiting)
        finally:
            kernel.CloseHandle(handle)

else:

    def _is_alive(process: int) -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError, ValueError):
            return True
        return True
