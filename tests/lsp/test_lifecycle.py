"""The start and the end of a server, and what it makes of messages that are none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lsp.client import FULL, PATIENCE, PUSH, Client, Failed, whole
from tests.lsp.conftest import Start
from tests.lsp.examples import TYPO

URI = "file:///project/net.py"

INVALID_REQUEST, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR = -32600, -32602, -32601, -32700
NOT_INITIALIZED = -32002


def still_works(client: Client) -> bool:
    """Whether findings come."""
    client.open("file:///project/still.py", TYPO)
    return [item["code"] for item in client.findings("file:///project/still.py")] == ["TL107"]


def test_an_orderly_end_has_status_0_and_nothing_on_standard_error(fresh: Client) -> None:
    fresh.open(URI, TYPO)
    assert fresh.findings(URI)
    assert fresh.shut_down() == 0
    assert fresh.errors == []


def test_exit_without_shutdown_has_status_1(fresh: Client) -> None:
    fresh.notify("exit")
    assert fresh.process.wait(PATIENCE) == 1


def test_requests_after_shutdown_are_refused(fresh: Client) -> None:
    fresh.request("shutdown")
    with pytest.raises(Failed) as refused:
        fresh.pull(URI)
    assert refused.value.code == INVALID_REQUEST
    fresh.notify("exit")
    assert fresh.process.wait(PATIENCE) == 0


def test_requests_before_initialize_are_refused(start: Start) -> None:
    client = start()
    with pytest.raises(Failed) as refused:
        client.pull(URI)
    assert refused.value.code == NOT_INITIALIZED
    client.initialize()
    assert still_works(client)


def test_a_second_initialize_is_refused(fresh: Client) -> None:
    with pytest.raises(Failed) as refused:
        fresh.initialize()
    assert refused.value.code == NOT_INITIALIZED or refused.value.code == INVALID_REQUEST
    assert still_works(fresh)


def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(client: Client) -> None:
    client.notify("$/somethingNew", {})
    client.notify("textDocument/somethingNew", {})
    with pytest.raises(Failed) as refused:
        client.request("textDocument/somethingNew", {})
    assert refused.value.code == METHOD_NOT_FOUND
    assert still_works(client)


def test_a_body_that_is_not_json_is_answered_and_costs_nothing_else(fresh: Client) -> None:
    fresh.send_bytes(b'{"jsonrpc": "2.0", ')
    refused = fresh.wait(lambda message: "error" in message)
    assert refused["id"] is None
    assert refused["error"]["code"] == PARSE_ERROR
    assert still_works(fresh)


def test_parameters_that_make_no_sense_are_refused_with_the_reason(client: Client) -> None:
    with pytest.raises(Failed, match="position") as refused:
        client.request("textDocument/hover", {"textDocument": {"uri": URI}})
    assert refused.value.code == INVALID_PARAMS
    assert still_works(client)


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b'{"method": 1, "jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 77, "result": 1}', b"\xff"]
)
def test_messages_that_are_none_cost_nothing(fresh: Client, body: bytes) -> None:
    fresh.send_bytes(body)
    assert still_works(fresh)


def test_stray_bytes_and_other_headers_between_messages_are_skipped(fresh: Client) -> None:
    assert fresh.process.stdin is not None
    fresh.process.stdin.write(b"\r\nnot a header\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n")
    fresh.process.stdin.flush()
    assert still_works(fresh)


def test_a_change_of_a_document_that_was_never_opened_is_ignored(client: Client) -> None:
    client.change("file:///project/never.py", 2, whole("x"))
    client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///project/never.py"}})
    client.notify(
        "notebookDocument/didChange",
        {"notebookDocument": {"uri": "file:///never.ipynb", "version": 2}, "change": {"cells": {}}},
    )
    assert still_works(client)
    assert client.said("window/showMessage") == []


def test_opening_twice_takes_the_newer_text(client: Client) -> None:
    client.open(URI, TYPO)
    client.open(URI, "x = 1\n", version=2)
    assert client.findings(URI) == []


def test_a_cancelled_request_is_answered_as_cancelled(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "bad\n# slow 100000\n")
    asked = client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})
    client.notify("$/cancelRequest", {"id": asked})
    with pytest.raises(Failed) as cancelled:
        client.result(asked)
    assert cancelled.value.code == -32800
    client.change(URI, 2, whole("bad\n"))
    assert len(client.findings(URI)) == 1


def test_a_closed_input_ends_the_server_even_while_it_works(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    client.open(URI, "# slow 100000\n")
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(PATIENCE) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a process that is gone is told differently there")
def test_the_server_leaves_when_the_editor_is_gone_though_its_input_stays_open(start: Start) -> None:
    """Another process may hold the pipe open (a wrapper, a terminal): then only the process id tells."""
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    client = start()
    client.initialize(process=editor.pid)
    assert still_works(client)
    editor.kill()
    editor.wait()
    assert client.process.wait(PATIENCE) == 1


def test_a_process_id_of_another_machine_is_ignored(start: Start) -> None:
    client = start()
    client.initialize(process=2**30)
    assert still_works(client)


def test_a_workspace_with_hostile_names_changes_nothing(start: Start, tmp_path: Path) -> None:
    """Files named like modules of the standard library and of libraries that the server imports."""
    for name in ("types", "attr", "attrs", "cattrs", "lsprotocol", "pygls", "ast", "torch", "torchlint", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the workspace')\n")
    client = start(folder=tmp_path, PYTHONPATH=str(tmp_path))
    client.initialize(folder=tmp_path)
    uri = (tmp_path / "net.py").as_uri()
    client.open(uri, TYPO)
    assert [item["code"] for item in client.findings(uri)] == ["TL107"]
    assert client.shut_down() == 0


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "git:/net.py?ref", "file:///c%3A/Ada%20L/n%C3%A9t.py", "x:"])
def test_documents_with_all_kinds_of_names(client: Client, uri: str) -> None:
    client.open(uri, TYPO)
    assert [item["code"] for item in client.findings(uri)] == ["TL107"]


def test_a_linter_that_raises_costs_one_log_line_and_clears_its_findings(start: Start) -> None:
    client = start(fake=True)
    client.initialize(PUSH)
    client.open(URI, "bad\n")
    assert client.published(URI, 1)
    seen = len(client.messages)
    client.change(URI, 2, whole("bad\n# raise\n"))
    cleared = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics", seen)
    assert cleared["params"]["diagnostics"] == []
    (logged,) = [params["message"] for params in client.said("window/logMessage")]
    assert "net.py could not be analysed" in logged
    assert "the linter is broken" in logged
    client.change(URI, 3, whole("bad\n"))
    assert len(client.published(URI, 3)) == 1
    assert client.said("window/showMessage") == []


def test_a_rule_that_raises_is_logged_once(start: Start) -> None:
    client = start(fake=True)
    client.initialize()
    for version in range(1, 4):
        if version == 1:
            client.open(URI, "bad\n# broken rule\n")
        else:
            client.change(URI, version, whole("bad\n" * version + "# broken rule\n"))
        assert len(client.findings(URI)) == version
    assert [params["message"] for params in client.said("window/logMessage")] == ["rule TL999 raised ZeroDivisionError"]


def test_a_process_watch_costs_nothing_to_others(start: Start) -> None:
    client = start()
    client.initialize(process=os.getpid())
    assert still_works(client)
    assert client.shut_down() == 0


def test_what_the_server_says_it_can_do(start: Start) -> None:
    capabilities = start().initialize(FULL)["capabilities"]
    assert capabilities["diagnosticProvider"]["interFileDependencies"] is False
    assert capabilities["hoverProvider"] is True
    assert capabilities["codeActionProvider"]["resolveProvider"] is True
    assert set(capabilities["codeActionProvider"]["codeActionKinds"]) == {
        "quickfix",
        "source.fixAll.torchlint",
        "notebook.source.fixAll.torchlint",
    }
    assert capabilities["textDocumentSync"]["openClose"] is True
    assert capabilities["textDocumentSync"]["change"] == 2
    types = [selector["notebook"] for selector in capabilities["notebookDocumentSync"]["notebookSelector"]]
    assert types == ["jupyter-notebook", "interactive"]


def test_a_client_that_forgets_to_say_initialized_gets_findings(start: Start) -> None:
    client = start()
    client.request("initialize", {"processId": None, "rootUri": None, "capabilities": FULL})
    assert still_works(client)
