"""The process: standard input to messages, one event loop, and a way out that nothing can block."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO

from pygls.io_ import StdoutWriter

from torchlint.lsp.log import silence_libraries
from torchlint.lsp.server import Server
from torchlint.lsp.transport import messages

if TYPE_CHECKING:
    from torchlint.lsp.analyses import MakeLinter

#: In seconds. A request that comes while an analysis runs takes turns with it a handful of times (waiting for input
#: gives the turn away too): at the default of 5 ms a hover would wait for all of it, at 1 ms for 5 ms of it.
_THREAD_SWITCH_INTERVAL = 0.0002


def run(make_linter: MakeLinter | None = None) -> int:
    """Serve one client over standard input and output; returns the exit status."""
    silence_libraries()
    sys.setswitchinterval(_THREAD_SWITCH_INTERVAL)
    # Not sys.stdin: a thread waits in it to the end, and the interpreter wants its lock when it leaves.
    stdin, stdout = open(sys.stdin.fileno(), "rb", closefd=False), sys.stdout.buffer  # noqa: SIM115
    sys.stdout = sys.stderr  # a stray print must not end up between two messages
    try:
        return asyncio.run(_serve(Server(make_linter), stdin, stdout))
    except KeyboardInterrupt:
        return 1


async def _serve(server: Server, stdin: BinaryIO, stdout: BinaryIO) -> int:
    loop = asyncio.get_running_loop()
    status: asyncio.Future[int] = loop.create_future()

    def stop(code: int) -> None:
        if not status.done():
            status.set_result(code)

    server.on_stop(stop)
    server.protocol.set_writer(StdoutWriter(stdout))

    def receive(body: bytes) -> None:
        try:
            server.protocol.receive(body)
        except BrokenPipeError:
            stop(1)
        except Exception as error:
            server.log.error("a message could not be handled", error)

    def read() -> None:
        # RuntimeError: the loop is closed, the server is leaving.
        with contextlib.suppress(RuntimeError):
            try:
                for body in messages(stdin):
                    loop.call_soon_threadsafe(receive, body)
            finally:
                loop.call_soon_threadsafe(stop, 1)

    threading.Thread(target=read, name="read", daemon=True).start()
    code = await status
    server.leave()
    with contextlib.suppress(OSError, ValueError):
        stdout.flush()
    if code:
        # The client is gone. Threads that work or wait for input must not keep the process.
        os._exit(code)
    return code
