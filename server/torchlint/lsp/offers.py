"""Fixes that are offered while the newest text is still analysed: from what was found in the text before.

They have no edits. Those are computed when the user has chosen one, from the newest text and what is found there; where
the finding is gone by then nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from torchlint.lsp.asked_about import asked_about
from torchlint.lsp.edits import fix_edit
from torchlint.lsp.fix_all import fix_all_of_rules
from torchlint.lsp.moved import moved_findings
from torchlint.lsp.reports import diagnostic, fingerprint
from torchlint.settings import suppression_edit, suppression_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.finding import Finding
    from torchlint.lsp.analyses import Analysed
    from torchlint.lsp.documents import Snapshot
    from torchlint.lsp.session import Session


def offers(
    session: Session, analysed: Analysed, now: Snapshot, params: types.CodeActionParams
) -> Iterator[types.CodeAction]:
    """The quick fixes for findings of an older text, where they are ``now``."""
    uri = params.text_document.uri
    places = ((finding, now.offset_range(*place)) for finding, place in moved_findings(analysed, now))
    findings = asked_about(((finding, place) for finding, (part, place) in places if part.uri == uri), params)
    diagnostics = {finding: _diagnostic(session, analysed, finding, place) for finding, place in findings}

    def offer(finding: Finding, title: str, *, preferred: bool) -> types.CodeAction:
        return types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostics[finding]],
            is_preferred=True if preferred else None,
            data={"uri": uri, "fix": _name(analysed, finding)},
        )

    for finding in diagnostics:
        titles = analysed.analysis.fix_titles(finding)
        for title, applicability in titles:
            yield offer(finding, title, preferred=len(titles) == 1 and applicability == "safe")
    yield from fix_all_of_rules(session, analysed, uri, diagnostics)
    for finding in {finding.code: finding for finding in reversed(diagnostics)}.values():
        yield offer(finding, suppression_title((finding.code,)), preferred=False)


async def offered_edit(session: Session, uri: str, name: Any, title: str) -> types.WorkspaceEdit:
    """The edit of an offer, of the text as it is now. Raises JsonRpcException where there is none any more."""
    if found := await session.newest(uri):
        analysed = found[0]
        if finding := _named(analysed, name):
            fixes = await session.analyses.call(
                lambda: (*analysed.analysis.fixes(finding), suppression_edit(analysed.snapshot.document, finding))
            )
            fix = next((fix for fix in fixes if fix.title == title), None)
            if fix and (edit := fix_edit(analysed.snapshot, fix, session.client)):
                return edit
    # An error that clients know: they do nothing, for the user has gone on typing.
    raise JsonRpcException("the code has changed: there is nothing to fix", types.LSPErrorCodes.ContentModified.value)


def _name(analysed: Analysed, finding: Finding) -> list[Any]:
    """What tells a finding from others while none like it comes or goes: code, fingerprint, which of how many."""
    alike = _alike(analysed, finding.code, fingerprint(finding))
    return [finding.code, fingerprint(finding), alike.index(finding), len(alike)]


def _named(analysed: Analysed, name: Any) -> Finding | None:
    """The finding that has a name now."""
    match name:
        case [str(code), str(print_), int(number), int(count)]:
            alike = _alike(analysed, code, print_)
            return alike[number] if len(alike) == count and 0 <= number < count else None
    return None


def _alike(analysed: Analysed, code: str, print_: str) -> list[Finding]:
    return [
        finding for finding in analysed.analysis.findings if finding.code == code and fingerprint(finding) == print_
    ]


def _diagnostic(session: Session, analysed: Analysed, finding: Finding, place: types.Range) -> types.Diagnostic:
    _, item = diagnostic(analysed.snapshot, finding, session.client)
    item.pop("relatedInformation", None)  # its places are those of the older text
    found = session.structure(item, types.Diagnostic)
    found.range = place
    return found
