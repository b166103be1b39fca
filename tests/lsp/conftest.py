"""Servers for the tests, each ended with its test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lsp.client import SERVER, Client

FAKE_SERVER = (sys.executable, "-I", str(Path(__file__).with_name("fake_server.py")))

Start = Callable[..., Client]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers: ``start()``, or ``start(fake=True)`` for one whose linter does what the text says."""
    clients: list[Client] = []

    def start_one(*, fake: bool = False, folder: Path | None = None, **environment: str) -> Client:
        client = Client(FAKE_SERVER if fake else SERVER, folder=folder, environment=environment)
        clients.append(client)
        return client

    yield start_one
    for client in clients:
        client.kill()


@pytest.fixture
def fresh(start: Start) -> Client:
    """A server of the test's own, for a client that can do everything."""
    one = start()
    one.initialize()
    return one


@pytest.fixture(scope="session")
def _shared() -> Iterator[list[Client]]:
    """The server that tests take turns with: starting one for each would take most of their time."""
    clients: list[Client] = []
    yield clients
    for one in clients:
        one.kill()


@pytest.fixture
def client(_shared: list[Client]) -> Iterator[Client]:
    """A server for a client that can do everything, with no document open."""
    if not _shared or _shared[-1].process.poll() is not None:
        _shared.append(Client())
        _shared[-1].initialize()
    one = _shared[-1]
    yield one
    if one.process.poll() is None:
        one.close_all()
