"""What is shown under the mouse."""

from __future__ import annotations

import pytest

from tests.lsp.client import FULL, Client, Message, insertion, position, span, without
from tests.lsp.conftest import Start
from tests.lsp.examples import TYPO, TYPO_END, TYPO_LINE, TYPO_START

URI = "file:///project/net.py"


def hover(client: Client, line: int, character: int, uri: str = URI) -> Message | None:
    """What is said about a position."""
    found: Message | None = client.request(
        "textDocument/hover", {"textDocument": {"uri": uri}, "position": position(line, character)}
    )
    return found


def test_flagged_code_shows_the_message_and_the_page_of_the_rule(client: Client) -> None:
    client.open(URI, TYPO)
    (finding,) = client.findings(URI)
    for character in (TYPO_START, TYPO_END - 1):
        found = hover(client, TYPO_LINE, character)
        assert found is not None
        assert found["range"] == span(TYPO_LINE, TYPO_START, TYPO_END)
        assert found["contents"]["kind"] == "markdown"
        page = found["contents"]["value"]
        assert page.startswith(finding["message"])
        assert "requires-grad-typo" in page
        assert "## What it does" in page
        assert "```python" in page


@pytest.mark.parametrize("character", [0, TYPO_START - 1, TYPO_END])
def test_other_code_shows_nothing(client: Client, character: int) -> None:
    client.open(URI, TYPO)
    assert hover(client, TYPO_LINE, character) is None


def test_plain_text_for_a_client_that_wants_it(start: Start) -> None:
    client = start()
    capabilities = without(FULL, "textDocument.hover")
    capabilities["textDocument"]["hover"] = {"contentFormat": ["plaintext", "markdown"]}
    client.initialize(capabilities)
    client.open(URI, TYPO)
    found = hover(client, TYPO_LINE, TYPO_START)
    assert found is not None
    assert found["contents"]["kind"] == "plaintext"
    for mark in ("```", "## ", "**", "]("):
        assert mark not in found["contents"]["value"]


@pytest.mark.parametrize(
    ("comment", "selector"),
    [
        ("# torchlint: ignore[TL201, requires-grad-typo]", "requires-grad-typo"),
        ("# torchlint: ignore[TL201, TL107]", "TL107"),
        ("# noqa: E501, TL107", "TL107"),
        ("# torchlint: ignore-file[TL107]", "TL107"),
    ],
)
def test_a_suppression_comment_says_what_it_suppresses(client: Client, comment: str, selector: str) -> None:
    line = f"x = 1  {comment}"
    client.open(URI, f"{line}\n")
    column = line.index(selector)
    found = hover(client, 0, column + 2)
    assert found is not None
    assert found["range"] == span(0, column, column + len(selector))
    assert "requires-grad-typo" in found["contents"]["value"]
    assert "TL107" in found["contents"]["value"]
    assert hover(client, 0, line.index("#")) is None


def test_a_code_that_is_no_rule_says_nothing(client: Client) -> None:
    client.open(URI, "x = 1  # noqa: E501\n")
    assert hover(client, 0, 16) is None


def test_a_file_that_is_not_open_says_nothing(client: Client) -> None:
    assert hover(client, 0, 0, "file:///library/site.py") is None
    assert client.said("window/showMessage") == []


def test_hover_while_a_long_analysis_runs_is_of_the_text_as_it_is_now(start: Start) -> None:
    """The place was found in the text before; above it a row was inserted, which is still being analysed."""
    client = start(fake=True)
    client.initialize()
    client.open(URI, "good\nx = bad\n")
    assert client.findings(URI)
    client.change(URI, 2, insertion(0, 0, "# slow 100000\n"))
    asked = client.start_request("textDocument/diagnostic", {"textDocument": {"uri": URI}})
    found = hover(client, 2, 4)
    assert found is not None
    assert found["range"] == span(2, 4, 7)
    assert hover(client, 1, 4) is None
    assert not any(message.get("id") == asked for message in client.messages), "it is still being analysed"
