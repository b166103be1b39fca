"""Actions that fix many findings: offered cheaply, computed when they are applied."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from torchlint.finding import TextEdit
from torchlint.fixes import minimal_edits
from torchlint.linter import fix_all
from torchlint.lsp.action_kinds import QUICK_FIX
from torchlint.lsp.edits import workspace_edit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.finding import Finding
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


def fix_all_of_rules(
    session: Session, analysed: Analysed, uri: str, diagnostics: Mapping[Finding, types.Diagnostic]
) -> Iterator[types.CodeAction]:
    """For each rule of some findings, which a client has as ``diagnostics``: an action for all findings of the rule."""
    fixable = Counter(finding.code for finding in analysed.analysis.findings if finding.applicability == "safe")
    for code, name in dict.fromkeys((finding.code, finding.name) for finding in diagnostics):
        if fixable[code] > 1:
            title = f"Fix all {fixable[code]} findings of {name} ({code})"
            if action := fix_all_action(session, analysed, uri, title, QUICK_FIX, only=code):
                action.diagnostics = [item for finding, item in diagnostics.items() if finding.code == code]
                yield action


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


def asked_for(data: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """The document and the rule of an action that comes back; None for an action that is not ours."""
    uri, only = data.get("uri"), data.get("only")
    if not isinstance(uri, str) or not isinstance(only, str | None):
        return None
    return uri, only
