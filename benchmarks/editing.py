"""Keystrokes: from the change of a document to the findings for it, in several servers at once.

Lines are typed one character at a time at several places of a file; after each character the findings are pulled, as
an editor does. The servers take turns at each place, so that a busy moment of the machine hits all of them.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.inputs import Source
from benchmarks.language_server import LanguageServer

#: In seconds: how long somebody looks at a finding before asking what to do about it.
_READING_TIME = 3.0


@dataclass(frozen=True)
class Place:
    """A new line to type before row ``row`` (from 0) with ``line`` as its text, indentation included."""

    kind: str
    row: int
    line: str


def places(source: Source, per_kind: int = 3) -> list[Place]:
    """Places spread over the file: at the top level, in functions and methods, and in ``__init__`` of classes."""
    tree = ast.parse(source.text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _has_room(node)]
    inits = [node for node in functions if node.name == "__init__"]
    others = [node for node in functions if node.name != "__init__"]
    tops = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    found = [Place("top level", _first_row(node), "SCALE = 0.5") for node in _spread(tops, per_kind)]
    for kind, nodes, code in (
        ("function", others, "scaled = torch.ones(3) * 0.5"),
        ("__init__", inits, "self.extra = nn.Linear(4, 4)"),
    ):
        for node in _spread(nodes, per_kind):
            last = node.body[-1]
            found.append(Place(kind, last.lineno - 1, " " * last.col_offset + code))
    return found


def _has_room(node: ast.FunctionDef) -> bool:
    return len(node.body) > 1 and node.body[-1].lineno > node.lineno


def _first_row(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1


def _spread(nodes: list[Any], count: int) -> list[Any]:
    """``count`` of the nodes at even distances, the first and the last among them."""
    nodes = sorted(nodes, key=lambda node: node.lineno)
    if len(nodes) <= count:
        return nodes
    return [nodes[round(index * (len(nodes) - 1) / (count - 1))] for index in range(count)]


class Typist:
    """An open document in one server; ``type`` yields the seconds of each keystroke."""

    def __init__(self, server: LanguageServer, source: Source) -> None:
        self.server = server
        self.uri = source.path.as_uri()
        self.version = 0
        server.open(self.uri, source.text)
        self.findings: list[Any] = self.pull()["items"]

    def pull(self) -> Any:
        return self.server.request("textDocument/diagnostic", {"textDocument": {"uri": self.uri}})

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        self.version += 1
        edit = {
            "range": {
                "start": {"line": start[0], "character": start[1]},
                "end": {"line": end[0], "character": end[1]},
            },
            "text": text,
        }
        self.server.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": [edit]},
        )

    def type(self, place: Place) -> Iterator[float]:
        indent = len(place.line) - len(place.line.lstrip())
        self.change((place.row, 0), (place.row, 0), place.line[:indent] + "\n")
        self.pull()
        for column in range(indent, len(place.line)):
            started = time.perf_counter()
            self.change((place.row, column), (place.row, column), place.line[column])
            self.pull()
            yield time.perf_counter() - started
        self.change((place.row, 0), (place.row + 1, 0), "")
        self.pull()


def keystrokes(servers: dict[str, LanguageServer], source: Source) -> dict[str, list[float]]:
    """The seconds of every keystroke in every server."""
    typists = {name: Typist(server, source) for name, server in servers.items()}
    times: dict[str, list[float]] = {name: [] for name in servers}
    for place in places(source):
        for name, typist in typists.items():
            times[name] += typist.type(place)
    return times


def lookups(server: LanguageServer, source: Source, rounds: int = 20) -> dict[str, list[float]]:
    """Seconds of a hover and of code actions at a finding, at rest and right after a change that is still linted.

    The files have few findings of their own, so one is written into the document first.
    """
    typist = Typist(server, source)
    row = places(source)[-1].row
    wrong = "def _measured(path):\n    import torch\n\n    return torch.load(path, weights_only=False)\n\n\n"
    typist.change((0, 0), (0, 0), wrong)
    items = typist.pull()["items"]
    finding = next(item for item in items if item["range"]["start"]["line"] < wrong.count("\n"))
    document = {"uri": typist.uri}
    at = {"textDocument": document, "position": finding["range"]["start"]}
    around = {"textDocument": document, "range": finding["range"], "context": {"diagnostics": [finding]}}
    time.sleep(_READING_TIME)
    started = time.perf_counter()
    server.request("textDocument/codeAction", around)
    times = {"first code actions of a session": [time.perf_counter() - started]}
    for name, method, params in (
        ("hover", "textDocument/hover", at),
        ("code actions", "textDocument/codeAction", around),
    ):
        for suffix, busy in (("", False), (" while linting", True)):
            seconds = times.setdefault(name + suffix, [])
            for number in range(rounds):
                place = row + wrong.count("\n")
                pending = None
                if busy:
                    typist.change((place, 0), (place, 0), f"# {number}\n")
                    pending = server.send("textDocument/diagnostic", {"textDocument": document})
                started = time.perf_counter()
                request = server.send(method, params)
                answers = _answers(server, [request] if pending is None else [request, pending])
                seconds.append(answers[request] - started)
    return times


def _answers(server: LanguageServer, requests: list[int]) -> dict[int, float]:
    """When each of the requests was answered."""
    times: dict[int, float] = {}
    while len(times) < len(requests):
        number = server.next_answer()
        if number in requests:
            times[number] = time.perf_counter()
    return times
