"""Findings follow what the editor shows, for clients that ask for them and clients that get them."""

from __future__ import annotations

import random

import pytest

from tests.lsp.client import FULL, PUSH, Client, insertion, position, span, whole, without
from tests.lsp.conftest import Start
from tests.lsp.examples import BACKWARD_LINE, DEPRECATED, FIXED, NO_ZERO_GRAD, TYPO, TYPO_END, TYPO_LINE, TYPO_START

URI = "file:///project/net.py"


def test_a_finding_has_all_that_an_editor_shows(client: Client) -> None:
    client.open(URI, TYPO)
    (found,) = client.findings(URI)
    assert found["range"] == span(TYPO_LINE, TYPO_START, TYPO_END)
    assert found["code"] == "TL107"
    assert found["severity"] == 1
    assert found["source"] == "torchlint"
    assert "require_grad" in found["message"]
    assert found["codeDescription"]["href"].endswith("/docs/rules/requires-grad-typo.md")


def test_the_data_of_a_finding_holds_no_edit(client: Client) -> None:
    client.open(URI, TYPO)
    (found,) = client.findings(URI)
    assert set(found["data"]) == {"fingerprint"}
    assert len(found["data"]["fingerprint"]) < 20


def test_related_places_come_along(client: Client) -> None:
    client.open(URI, NO_ZERO_GRAD)
    found = next(item for item in client.findings(URI) if item["code"] == "TL201")
    places = found["relatedInformation"]
    assert {place["location"]["uri"] for place in places} == {URI}
    assert any(place["location"]["range"]["start"]["line"] == BACKWARD_LINE for place in places)


def test_a_deprecated_name_is_tagged(client: Client) -> None:
    client.open(URI, DEPRECATED)
    found = next(item for item in client.findings(URI) if item["code"] == "TL013")
    assert found["tags"] == [2]


def test_what_a_client_does_not_know_is_left_out(start: Start) -> None:
    client = start()
    client.initialize({"textDocument": {"diagnostic": {}}})
    client.open(URI, NO_ZERO_GRAD)
    for item in client.findings(URI):
        assert set(item) == {"range", "severity", "code", "source", "message"}


def test_nothing_is_pushed_to_a_client_that_asks(client: Client) -> None:
    client.open(URI, TYPO)
    client.change(URI, 2, insertion(0, 0, "# one\n"))
    assert client.findings(URI)
    client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    client.open(URI, TYPO)
    assert client.findings(URI)
    assert client.said("textDocument/publishDiagnostics") == []


def test_a_client_that_does_not_ask_gets_them_with_the_version(start: Start) -> None:
    client = start()
    capabilities = client.initialize(PUSH)["capabilities"]
    assert "diagnosticProvider" not in capabilities
    client.open(URI, TYPO, version=3)
    assert [item["code"] for item in client.published(URI, 3)] == ["TL107"]
    client.change(URI, 4, whole(FIXED))
    assert client.published(URI, 4) == []


def test_closing_clears_what_was_pushed(start: Start) -> None:
    client = start()
    client.initialize(PUSH)
    client.open(URI, TYPO)
    assert client.published(URI, 1)
    seen = len(client.messages)
    client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    cleared = client.wait(lambda message: message.get("method") == "textDocument/publishDiagnostics", seen)
    assert cleared["params"] == {"uri": URI, "diagnostics": []}


def test_the_same_findings_have_the_same_id_after_an_edit(client: Client) -> None:
    client.open(URI, TYPO)
    first = client.pull(URI)
    assert first["kind"] == "full"
    client.change(URI, 2, insertion(2, len(TYPO.splitlines()[2]), "  # a remark"))
    again = client.pull(URI, first["resultId"])
    assert again == {"kind": "unchanged", "resultId": first["resultId"]}


def test_moved_findings_have_another_id(client: Client) -> None:
    client.open(URI, TYPO)
    first = client.pull(URI)
    client.change(URI, 2, insertion(0, 0, "\n"))
    again = client.pull(URI, first["resultId"])
    assert again["kind"] == "full"
    assert again["resultId"] != first["resultId"]
    assert again["items"][0]["range"] == span(TYPO_LINE + 1, TYPO_START, TYPO_END)


def test_no_findings_have_no_id(client: Client) -> None:
    client.open(URI, TYPO)
    first = client.pull(URI)
    client.change(URI, 2, whole(FIXED))
    assert client.pull(URI, first["resultId"]) == {"kind": "full", "items": []}


def test_a_document_that_is_not_open_has_no_findings(client: Client) -> None:
    assert client.findings("file:///project/other.py") == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_are_in_the_encoding_of_the_client(start: Start, encoding: str) -> None:
    client = start()
    capabilities = without(FULL, "general")
    capabilities["general"] = {"positionEncodings": [encoding]}
    assert client.initialize(capabilities)["capabilities"]["positionEncoding"] == encoding
    before = 'weight = "😀é\f", torch.ones(2, '
    lines = ["import torch", "# \u2028 and \x85 and \v end no line", f"{before}require_grad=True)", ""]
    codec, size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[encoding]
    column = len(before.encode(codec)) // size
    for newline in ("\n", "\r\n", "\r"):
        for uri in (URI, "untitled:Untitled-1"):
            client.open(uri, newline.join(lines))
            (found,) = client.findings(uri)
            assert found["range"]["start"] == position(2, column)
            # An edit behind the emoji lands where the client meant it: the typo is mended.
            end = position(2, column + len("require_grad"))
            client.change(uri, 2, {"range": {"start": position(2, column), "end": end}, "text": "requires_grad"})
            assert client.findings(uri) == []


def test_the_first_encoding_of_the_client_is_taken(start: Start) -> None:
    client = start()
    capabilities = without(FULL, "general")
    capabilities["general"] = {"positionEncodings": ["utf-32", "utf-8", "utf-16"]}
    assert client.initialize(capabilities)["capabilities"]["positionEncoding"] == "utf-32"


def test_a_file_that_is_not_python_is_left_alone(start: Start) -> None:
    client = start()
    client.initialize(PUSH)
    client.open("file:///project/notes.md", TYPO, language="markdown")
    client.open(URI, TYPO)
    assert client.published(URI, 1)
    assert {params["uri"] for params in client.said("textDocument/publishDiagnostics")} == {URI}


def test_200_fast_edits_end_like_a_cold_lint(client: Client) -> None:
    """Random insertions and deletions without waiting: no text is lost, no finding is late or left."""
    chance = random.Random(2)
    lines = NO_ZERO_GRAD.splitlines(keepends=True)
    client.open(URI, "".join(lines))
    for version in range(2, 202):
        row = chance.randrange(len(lines))
        if chance.random() < 0.5 and len(lines) > 4:
            del lines[row]
            change = {"range": {"start": position(row, 0), "end": position(row + 1, 0)}, "text": ""}
        else:
            line = chance.choice([*NO_ZERO_GRAD.splitlines(keepends=True), "x = (\n", "if x:\n", "'''\n", TYPO[14:]])
            lines.insert(row, line)
            change = insertion(row, 0, line)
        client.change(URI, version, change)
        if version % 20 == 0:
            client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})
    warm = client.findings(URI)
    cold = "file:///project/copy.py"
    client.open(cold, "".join(lines))
    assert [strip(item) for item in warm] == [strip(item) for item in client.findings(cold)]
    client.change(URI, 202, whole(TYPO))
    assert [item["code"] for item in client.findings(URI)] == ["TL107"]


def strip(item: dict[str, object]) -> dict[str, object]:
    """A finding without the name of its file."""
    return {key: value for key, value in item.items() if key != "relatedInformation"}


@pytest.mark.parametrize("line", ["x = model.", "foo(", "text = '''", "if True:", "def f(:", "print 'x'"])
def test_a_half_typed_line_costs_no_finding_elsewhere_and_says_nothing(client: Client, line: str) -> None:
    client.open(URI, f"{TYPO}\n\n{line}\n")
    assert [item["code"] for item in client.findings(URI)] == ["TL107"]
    assert client.said("window/showMessage") == []
