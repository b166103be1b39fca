"""What an editor does with a workspace edit, and with a code action before that."""

from __future__ import annotations

from typing import Any

from tests.lsp.client import Client, Message, position
from torchlint.text import Encoding, LineIndex

Edits = list[Message]


def edits_of(edit: Message) -> dict[str, tuple[int | None, Edits]]:
    """The edits of each document with the version they are for (None where no version is sent)."""
    if "documentChanges" in edit:
        return {
            change["textDocument"]["uri"]: (change["textDocument"]["version"], change["edits"])
            for change in edit["documentChanges"]
        }
    return {uri: (None, edits) for uri, edits in edit["changes"].items()}


def apply(text: str, edits: Edits, encoding: Encoding = Encoding.UTF16) -> str:
    """The text after edits that are all of the text before."""
    lines = LineIndex(text)

    def offset(place: Message) -> int:
        return lines.offset(place["line"], place["character"], encoding)

    placed = sorted((offset(edit["range"]["start"]), offset(edit["range"]["end"]), edit["newText"]) for edit in edits)
    for start, end, new in reversed(placed):
        text = text[:start] + new + text[end:]
    return text


def actions(
    client: Client,
    uri: str,
    place: Message,
    diagnostics: list[Message] | None = None,
    only: list[str] | None = None,
) -> list[Message]:
    """The code actions that are offered for a range."""
    context: Message = {"diagnostics": diagnostics or []}
    if only is not None:
        context["only"] = only
    params = {"textDocument": {"uri": uri}, "range": place, "context": context}
    found: list[Message] = client.request("textDocument/codeAction", params)
    return found


def resolved(client: Client, action: Message) -> Message:
    """The edit of an action, asked for if it does not come with it."""
    if "edit" not in action:
        action = client.request("codeAction/resolve", action)
    edit: Message = action["edit"]
    return edit


def everywhere() -> Message:
    """A range that covers any test's text."""
    return {"start": position(0, 0), "end": position(10_000, 0)}


def kinds(found: list[Message]) -> set[Any]:
    """The kinds of some actions."""
    return {action.get("kind") for action in found}
