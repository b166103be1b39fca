"""Edits of a program as edits of the editor's documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.finding import Fix, TextEdit
    from torchlint.lsp.capabilities import Client
    from torchlint.lsp.documents import Part, Snapshot

_ANNOTATION = "unsafe"

#: The edits of one document, and of which version of it.
PartEdits = dict["Part", list[types.TextEdit]]


def workspace_edit(
    snapshot: Snapshot, edits: Iterable[TextEdit], client: Client, *, unsafe_because: str | None = None
) -> types.WorkspaceEdit | None:
    """The edits for the documents and versions they were computed from; None if one does not fit into one cell.

    ``unsafe_because``: the user is to confirm the change, for this reason, if the client can ask.
    """
    by_part = _by_part(snapshot, edits)
    if by_part is None:
        return None
    if not client.versioned_edits:
        return types.WorkspaceEdit(changes={part.uri: found for part, found in by_part.items()})
    annotate = unsafe_because is not None and client.change_annotations
    documents = [
        types.TextDocumentEdit(
            text_document=types.OptionalVersionedTextDocumentIdentifier(uri=part.uri, version=part.version),
            edits=[types.AnnotatedTextEdit(_ANNOTATION, edit.range, edit.new_text) for edit in found]
            if annotate
            else found,
        )
        for part, found in by_part.items()
    ]
    if not annotate:
        return types.WorkspaceEdit(document_changes=documents)
    annotation = types.ChangeAnnotation(label=unsafe_because or "", needs_confirmation=True)
    return types.WorkspaceEdit(document_changes=documents, change_annotations={_ANNOTATION: annotation})


def fix_edit(snapshot: Snapshot, fix: Fix, client: Client) -> types.WorkspaceEdit | None:
    """The edit of a fix that was computed from the text of a snapshot; the user is to confirm an unsafe one."""
    reason = f"{fix.title}: this may change what the program does" if fix.applicability == "unsafe" else None
    return workspace_edit(snapshot, fix.edits, client, unsafe_because=reason) if fix.edits else None


def _by_part(snapshot: Snapshot, edits: Iterable[TextEdit]) -> PartEdits | None:
    text, lines = snapshot.document.text, snapshot.document.lines
    found: PartEdits = {}
    for edit in edits:
        part = snapshot.part_of_row(lines.row_of(edit.start))
        end, content = edit.end, edit.content
        if part is not snapshot.part_of_row(lines.row_of(end)):
            # The line end that joins a cell to the next is no part of either; an edit of whole rows may include it.
            end = lines.line_end(part.first_row + part.lines.row_count - 1)
            if text[end : edit.end].strip("\r\n") or edit.start > end:
                return None
            content = content.removesuffix("\n").removesuffix("\r")
        _, place = snapshot.offset_range(edit.start, end)
        found.setdefault(part, []).append(types.TextEdit(place, content))
    return found
