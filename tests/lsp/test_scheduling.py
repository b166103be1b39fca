"""Which analyses run, and which do not."""

from __future__ import annotations

from tests.lsp.client import FULL, PUSH, Client, whole, without
from tests.lsp.conftest import Start

URI, OTHER = "file:///project/net.py", "file:///project/other.py"


def finished(client: Client) -> list[str]:
    """The texts that were analysed to their end."""
    lines = b"".join(client.errors).decode().splitlines()
    return [line.removeprefix("finished ") for line in lines if line.startswith("finished ")]


def test_edits_during_an_analysis_lead_to_one_more_of_the_newest_text(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "# slow 5\n")
    for version in range(2, 12):
        client.change(URI, version, whole(f"bad {version}\n# slow 5\n"))
    assert len(client.findings(URI)) == 1
    done = finished(client)
    assert done[-1] == repr("bad 11\n# slow 5\n")
    assert len(done) < 6, "the versions between were not all analysed"


def test_an_edit_does_not_wait_for_a_file_that_was_opened_before(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(OTHER, "bad bad\n# slow 100000\n")
    client.open(URI, "bad\n")
    assert len(client.findings(URI)) == 1


def test_many_files_opened_at_once_are_all_analysed(start: Start) -> None:
    client = start(fake=True)
    client.initialize(PUSH)
    uris = [f"file:///project/net{number}.py" for number in range(30)]
    for uri in uris:
        client.open(uri, "bad\n# slow 1\n")
    for uri in uris:
        assert len(client.published(uri, 1)) == 1


def test_an_answer_is_never_of_an_older_text(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "bad\n# slow 3\n")
    asked = []
    for version in range(2, 10):
        client.change(URI, version, whole("bad\n" * version + "# slow 3\n"))
        asked.append((version, client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})))
    for version, identifier in asked:
        assert len(client.result(identifier)["items"]) >= version


def test_closing_a_file_under_analysis_answers_who_waits(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "bad\n# slow 100000\n")
    asked = client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})
    client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert client.result(asked)["items"] == []


def test_a_client_that_never_answers_about_its_settings_gets_findings(start: Start) -> None:
    client = start(fake=True)
    client.answering = False
    client.initialize(without(FULL, "textDocument.diagnostic"))
    client.open(URI, "bad\n")
    assert len(client.published(URI, 1)) == 1
