"""A language client for tests: raw JSON over the standard streams of a real server process.

It knows no types of the protocol, so that what is asserted is what stands on the wire.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Message = dict[str, Any]

#: In seconds. A server that has not answered by then never will; nothing here measures time.
PATIENCE = 60.0

SERVER = (sys.executable, "-I", "-m", "torchlint", "server")

#: What a client of today's VS Code says, without what the server does not read.
FULL: Message = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "diagnostic": {"dynamicRegistration": True},
        "publishDiagnostics": {
            "relatedInformation": True,
            "codeDescriptionSupport": True,
            "dataSupport": True,
            "versionSupport": True,
            "tagSupport": {"valueSet": [1, 2]},
        },
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix", "source", "source.fixAll"]}},
            "isPreferredSupport": True,
            "disabledSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
    },
    "notebookDocument": {"synchronization": {"dynamicRegistration": True, "executionSummarySupport": True}},
    "workspace": {
        "workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {"groupsOnLabel": True}},
        "diagnostics": {"refreshSupport": True},
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceFolders": True,
    },
}


def without(capabilities: Message, *paths: str) -> Message:
    """The capabilities without some of them, named by dotted paths."""
    copy: Message = json.loads(json.dumps(capabilities))
    for path in paths:
        *parents, name = path.split(".")
        place = copy
        for parent in parents:
            place = place[parent]
        del place[name]
    return copy


#: An older client: findings are pushed to it.
PUSH = without(FULL, "textDocument.diagnostic", "workspace.diagnostics", "workspace.configuration")


class Failed(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.data = error.get("data")


class Client:
    """One server process and what it has said."""

    def __init__(
        self,
        command: Sequence[str] = SERVER,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a server, with ``folder`` as its working directory."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
        self.messages: list[Message] = []
        self.errors: list[bytes] = []
        #: Answers to requests of the server, by method; those that are not here get null.
        self.answers: dict[str, Callable[[Any], Any]] = {}
        #: Whether requests of the server are answered at all.
        self.answering = True
        self._next_id = 0
        self._open: list[tuple[str, Message]] = []
        self._changed = threading.Condition()
        self._ended = False
        self._write_lock = threading.Lock()
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # Talking

    def send(self, message: Message) -> None:
        """Write one message."""
        self.send_bytes(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    def send_bytes(self, body: bytes) -> None:
        """Write one body, whatever it is."""
        assert self.process.stdin is not None
        with self._write_lock:
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            self.process.stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        if method.endswith("/didOpen"):
            self._open.append((method, params))
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def start_request(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._next_id += 1
        self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    def request(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its result. Raises Failed for an error."""
        return self.result(self.start_request(method, params))

    def result(self, identifier: int) -> Any:
        """Wait for the result of a request. Raises Failed for an error."""
        answer = self.wait(lambda message: message.get("id") == identifier and "method" not in message)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def wait(self, wanted: Callable[[Message], bool], since: int = 0) -> Message:
        """The first message, from index ``since`` on, that is wanted; waits for it."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                for message in self.messages[since:]:
                    if wanted(message):
                        return message
                since = len(self.messages)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    stderr = b"".join(self.errors).decode(errors="replace")
                    raise AssertionError(f"the server never said it; it said {self.messages[-3:]}\n{stderr}")
                self._changed.wait(left)

    def said(self, method: str) -> list[Any]:
        """The parameters of all messages of one method so far."""
        return [message.get("params") for message in list(self.messages) if message.get("method") == method]

    # The life of a session

    def initialize(
        self,
        capabilities: Message = FULL,
        *,
        folder: Path | None = None,
        options: Any = None,
        process: int | None = None,
    ) -> Message:
        """Shake hands; the server's capabilities."""
        folders = [{"uri": folder.as_uri(), "name": folder.name}] if folder else None
        result: Message = self.request(
            "initialize",
            {
                "processId": process,
                "rootUri": folder.as_uri() if folder else None,
                "workspaceFolders": folders,
                "capabilities": capabilities,
                "initializationOptions": options,
            },
        )
        self.notify("initialized", {})
        return result

    def open(self, uri: str, text: str, version: int = 1, language: str = "python") -> None:
        """Open a document."""
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int, *changes: Message) -> None:
        """Change a document; a change without a range is the whole new text."""
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def pull(self, uri: str, previous: str | None = None) -> Message:
        """Ask for the findings of a document."""
        params: Message = {"textDocument": {"uri": uri}}
        if previous is not None:
            params["previousResultId"] = previous
        report: Message = self.request("textDocument/diagnostic", params)
        return report

    def findings(self, uri: str) -> list[Message]:
        """The findings of a document, asked for."""
        items: list[Message] = self.pull(uri)["items"]
        return items

    def published(self, uri: str, version: int | None = None) -> list[Message]:
        """Wait for the findings that are pushed for (a version of) a document."""

        def wanted(message: Message) -> bool:
            if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
                return False
            return version is None or message["params"].get("version") == version

        found: list[Message] = self.wait(wanted)["params"]["diagnostics"]
        return found

    def close_all(self) -> None:
        """Close every document that was opened and forget what was said."""
        for method, params in self._open:
            self.notify(method.replace("didOpen", "didClose"), params | {"cellTextDocuments": []})
        self._open.clear()
        self.pull("file:///nothing.py")
        self.messages.clear()

    def shut_down(self) -> int:
        """Leave in order; the exit status."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while header := stdout.readline():
            length = int(header.partition(b":")[2])
            while stdout.readline().strip():
                pass
            self._receive(json.loads(stdout.read(length)))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _receive(self, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        if self.answering and "method" in message and "id" in message:
            answer = self.answers.get(message["method"], lambda _: None)(message.get("params"))
            with contextlib.suppress(OSError, ValueError):  # the test has hung up
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)


def position(line: int, character: int) -> Message:
    """A position, from 0."""
    return {"line": line, "character": character}


def span(line: int, start: int, end: int) -> Message:
    """A range in one line."""
    return {"start": position(line, start), "end": position(line, end)}


def insertion(line: int, character: int, text: str) -> Message:
    """A change that puts text at a position."""
    return {"range": span(line, character, character), "text": text}


def whole(text: str) -> Message:
    """A change to another text."""
    return {"text": text}
