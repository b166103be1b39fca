"""A language client with nothing between it and the pipe, so that what it times is the server."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

#: What an editor with pull diagnostics says of itself (VS Code 1.100's values where it matters to a linter).
CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {"configuration": True, "workspaceFolders": True, "diagnostics": {"refreshSupport": True}},
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source.fixAll"]}},
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
    },
}


class LanguageServer:
    """A server over stdio. Use it as a context manager; all times are in seconds."""

    def __init__(self, command: list[str], folder: Path) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input: IO[bytes] = self.process.stdin
        self._output: IO[bytes] = open(self.process.stdout.fileno(), "rb", closefd=False)  # noqa: SIM115
        self._next_id = 0
        folder_uri = folder.as_uri()
        self.info: dict[str, Any] = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": folder_uri,
                "workspaceFolders": [{"uri": folder_uri, "name": folder.name}],
                "capabilities": CAPABILITIES,
            },
        )
        self.initialize_time = time.perf_counter() - started
        self.notify("initialized", {})

    def __enter__(self) -> LanguageServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.request("shutdown", None)
            self.notify("exit", None)
            self.process.wait(timeout=10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()

    @property
    def version(self) -> str:
        return str(self.info.get("serverInfo", {}).get("version", "unknown"))

    def open(self, uri: str, text: str) -> None:
        self.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": "python", "version": 0, "text": text}},
        )

    def notify(self, method: str, params: Any) -> None:
        self._input.write(_frame({"jsonrpc": "2.0", "method": method, "params": params}))

    def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its answer; what the server asks meanwhile is answered."""
        return self.answer(self.send(method, params))

    def send(self, method: str, params: Any) -> int:
        """Send a request; ``answer`` waits for what comes back."""
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._input.write(
            _frame(message if params is not None else {k: v for k, v in message.items() if k != "params"})
        )
        return self._next_id

    def answer(self, request: int) -> Any:
        """The result of a request. Raises RuntimeError for an error answer, EOFError when the server has gone."""
        while True:
            message = self._read()
            if "method" in message and "id" in message:
                self._serve(message)
            elif message.get("id") == request:
                if "error" in message:
                    raise RuntimeError(f"{message['error']}")
                return message.get("result")

    def next_answer(self) -> int:
        """The id of the next answer that comes, whichever request it is for."""
        while True:
            message = self._read()
            if "method" in message and "id" in message:
                self._serve(message)
            elif "id" in message:
                return int(message["id"])

    def _serve(self, message: dict[str, Any]) -> None:
        result = None
        if message["method"] == "workspace/configuration":
            result = [None] * len(message["params"]["items"])
        self._input.write(_frame({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    def _read(self) -> dict[str, Any]:
        length = -1
        while (line := self._output.readline()) not in {b"\r\n", b"\n"}:
            if not line:
                raise EOFError("the server closed its output")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._output.read(length))
        return message

    def memory(self) -> float:
        """Resident memory in MB."""
        listing = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, check=True)
        return int(listing.stdout) / 1024


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body
