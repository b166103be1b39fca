"""Actions that fix many findings: offered cheaply, computed when they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from torchlint.finding import TextEdit
from torchlint.fixes import minimal_edits
from torchlint.linter import fix_all
from torchlint.lsp.edits import workspace_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.lsp.analyses import Analysed
    from torchlint.lsp.session import Session
    from torchlint.text import Cell, Document


def fix_all_action(
    session: Session, analysed: Analysed, uri: str, title: str, kind: str, *, only: str | None = None
) -> types.CodeAction | None:
    """The action without its edit for a client that asks for it later, else with it; None if it would do nothing.

    ``uri`` is the document (the cell) that was asked about, ``only`` the code of the one rule to fix.
    """
    action = types.CodeAction(title=title, kind=kind)
    if session.client.resolve_edits:
        action.data = {"uri": uri, "only": only}
        return action
    action.edit = fix_all_edit(session, analysed, only)
    return action if action.edit else None


def fix_all_edit(session: Session, analysed: Analysed, only: str | None) -> types.WorkspaceEdit | None:
    """All safe fixes of the analysed text as one edit; None if there is nothing to do."""
    document = analysed.snapshot.document
    result = fix_all(document, analysed.settings, only=only)
    edits = list(_cell_edits(document, result.document)) if document.cells else result.edits
    return workspace_edit(analysed.snapshot, edits, session.client) if edits else None


def _cell_edits(before: Document, after: Document) -> Iterator[TextEdit]:
    """The edits that lead from one state of a notebook to another, each inside one cell."""
    for old, new in zip(before.cells, after.cells, strict=True):
        start, end = _extent(before, old)
        new_start, new_end = _extent(after, new)
        for edit in minimal_edits(before.text[start:end], after.text[new_start:new_end]):
            yield TextEdit(start + edit.start, start + edit.end, edit.content)


def _extent(document: Document, cell: Cell) -> tuple[int, int]:
    """Where a cell's text starts and ends in the joined text."""
    lines = document.lines
    return lines.line_start(cell.first_row), lines.line_end(cell.first_row + cell.row_count - 1)


def asked_for(data: Any) -> tuple[str, str | None] | None:
    """The document and the rule of an action that comes back; None for an action that is not ours."""
    fields = data if isinstance(data, dict) else getattr(data, "__dict__", None) or getattr(data, "_asdict", dict)()
    uri, only = fields.get("uri"), fields.get("only")
    if not isinstance(uri, str) or not isinstance(only, str | None):
        return None
    return uri, only
