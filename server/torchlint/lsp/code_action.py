"""`textDocument/codeAction`: fixes, computed now from the text as it is now.

A client that has actions resolved does not wait for a long analysis: what was found in the text before is offered
without edits (`torchlint.lsp.offers`), which are computed from the newest text when the user has chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.lsp.action_kinds import FIX_ALL, NOTEBOOK_FIX_ALL, QUICK_FIX, is_requested
from torchlint.lsp.asked_about import Placed, asked_about
from torchlint.lsp.edits import fix_edit
from torchlint.lsp.fix_all import fix_all_action, fix_all_of_rules
from torchlint.lsp.offers import offers
from torchlint.lsp.reports import diagnostic, finding_range
from torchlint.settings import suppression_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.finding import Finding, Fix
    from torchlint.lsp.analyses import Analysed
    from torchlint.lsp.documents import Program
    from torchlint.lsp.server import Server
    from torchlint.lsp.session import Session

#: In seconds. The answer is to be there in 20 milliseconds, and computing edits takes some of them.
_PATIENCE = 0.007


async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """All actions of the kinds that were asked for."""
    session, uri = ls.session, params.text_document.uri
    program = session.program(uri)
    if program is None:
        return None
    patience = _PATIENCE if session.client.resolve_edits else None
    analysed = await session.soon(program, patience)
    if analysed is None:
        return None
    now = session.analyses.wanted(program)
    if patience is not None and now is not None and now is not analysed.snapshot:
        quick = offers(session, analysed, now, params) if is_requested(QUICK_FIX, params.context.only) else ()
        return [*quick, *_source_actions(session, analysed, params, program)]
    if analysed.snapshot.part(uri) is None:
        return None
    return await session.analyses.call(
        lambda: [*_quick_fixes(session, analysed, params), *_source_actions(session, analysed, params, program)]
    )


def _source_actions(
    session: Session, analysed: Analysed, params: types.CodeActionParams, program: Program
) -> Iterator[types.CodeAction]:
    kind = NOTEBOOK_FIX_ALL if program.is_notebook else FIX_ALL
    if is_requested(kind, params.context.only) and any(_is_safe(finding) for finding in analysed.analysis.findings):
        title = "Fix all safely fixable torchlint findings"
        if action := fix_all_action(session, analysed, params.text_document.uri, title, kind):
            yield action


def _quick_fixes(session: Session, analysed: Analysed, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    if not is_requested(QUICK_FIX, params.context.only):
        return
    uri = params.text_document.uri
    findings = [finding for finding, _ in asked_about(_placed(analysed, uri), params)]
    diagnostics = {finding: _diagnostic(session, analysed, finding) for finding in findings}
    for finding in findings:
        fixes = analysed.analysis.fixes(finding)
        for fix in fixes:
            preferred = len(fixes) == 1 and fix.applicability == "safe"
            yield from _fix(session, analysed, fix, diagnostics[finding], preferred=preferred)
    yield from fix_all_of_rules(session, analysed, uri, diagnostics)
    for finding in {finding.code: finding for finding in reversed(findings)}.values():
        fix = suppression_edit(analysed.snapshot.document, finding)
        yield from _fix(session, analysed, fix, diagnostics[finding], preferred=False)


def _placed(analysed: Analysed, uri: str) -> Iterator[Placed]:
    """The findings in a document."""
    for finding in analysed.analysis.findings:
        place_uri, place = finding_range(analysed.snapshot, finding)
        if place_uri == uri:
            yield finding, place


def _fix(
    session: Session, analysed: Analysed, fix: Fix, diagnostic: types.Diagnostic, *, preferred: bool
) -> Iterator[types.CodeAction]:
    if edit := fix_edit(analysed.snapshot, fix, session.client):
        yield types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            edit=edit,
            is_preferred=True if preferred else None,
        )


def _diagnostic(session: Session, analysed: Analysed, finding: Finding) -> types.Diagnostic:
    _, item = diagnostic(analysed.snapshot, finding, session.client)
    return session.structure(item, types.Diagnostic)


def _is_safe(finding: Finding) -> bool:
    return finding.applicability == "safe"
