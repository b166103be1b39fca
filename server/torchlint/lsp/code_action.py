"""`textDocument/codeAction`: fixes, computed now from the text as it is now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from torchlint.lsp.action_kinds import FIX_ALL, NOTEBOOK_FIX_ALL, QUICK_FIX, is_requested
from torchlint.lsp.edits import workspace_edit
from torchlint.lsp.fix_all import fix_all_action
from torchlint.lsp.reports import SOURCE, diagnostic, finding_range, fingerprint
from torchlint.settings import suppression_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.finding import Finding, Fix
    from torchlint.lsp.analyses import Analysed
    from torchlint.lsp.server import Server
    from torchlint.lsp.session import Session


async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """All actions of the kinds that were asked for."""
    session = ls.session
    found = await session.newest(params.text_document.uri)
    if found is None:
        return None
    analysed, _ = found
    program = session.program(params.text_document.uri)
    in_notebook = program is not None and program.is_notebook
    return await session.analyses.call(lambda: list(_actions(session, analysed, params, in_notebook)))


def _actions(
    session: Session, analysed: Analysed, params: types.CodeActionParams, in_notebook: bool
) -> Iterator[types.CodeAction]:
    only = params.context.only
    if is_requested(QUICK_FIX, only):
        yield from _quick_fixes(session, analysed, params)
    kind = NOTEBOOK_FIX_ALL if in_notebook else FIX_ALL
    if is_requested(kind, only) and any(_is_safe(finding) for finding in analysed.analysis.findings):
        title = "Fix all safely fixable torchlint findings"
        if action := fix_all_action(session, analysed, params.text_document.uri, title, kind):
            yield action


def _quick_fixes(session: Session, analysed: Analysed, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    uri = params.text_document.uri
    findings = _asked_about(analysed, params)
    diagnostics = {finding: _diagnostic(session, analysed, finding) for finding in findings}
    for finding in findings:
        fixes = analysed.analysis.fixes(finding)
        for fix in fixes:
            sole = len(fixes) == 1
            yield from _fix(
                session, analysed, fix, diagnostics[finding], preferred=sole and fix.applicability == "safe"
            )
    fixable = Counter(finding.code for finding in analysed.analysis.findings if _is_safe(finding))
    for code, name in dict.fromkeys((finding.code, finding.name) for finding in findings):
        if fixable[code] > 1:
            title = f"Fix all {fixable[code]} findings of {name} ({code})"
            action = fix_all_action(session, analysed, uri, title, QUICK_FIX, only=code)
            if action:
                action.diagnostics = [diagnostics[finding] for finding in findings if finding.code == code]
                yield action
    for finding in {finding.code: finding for finding in reversed(findings)}.values():
        fix = suppression_edit(analysed.snapshot.document, finding)
        yield from _fix(session, analysed, fix, diagnostics[finding], preferred=False)


def _fix(
    session: Session, analysed: Analysed, fix: Fix, diagnostic: types.Diagnostic, *, preferred: bool
) -> Iterator[types.CodeAction]:
    if not fix.edits:
        return
    unsafe = fix.applicability == "unsafe"
    reason = f"{fix.title}: this may change what the program does" if unsafe else None
    edit = workspace_edit(analysed.snapshot, fix.edits, session.client, unsafe_because=reason)
    if edit is not None:
        yield types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            edit=edit,
            is_preferred=True if preferred else None,
        )


def _asked_about(analysed: Analysed, params: types.CodeActionParams) -> list[Finding]:
    """The findings that the client names, by range and code; else those that its range touches.

    Diagnostics of other servers come along and are left out. The client's own copies may be of an older text: what
    counts is what is found now.
    """
    uri, asked = params.text_document.uri, params.range
    here = []
    for finding in analysed.analysis.findings:
        place_uri, place = finding_range(analysed.snapshot, finding)
        if place_uri == uri:
            here.append((finding, place))
    named = {
        (_key(item.range), str(item.code)): _fingerprint(item.data)
        for item in params.context.diagnostics
        if item.source == SOURCE
    }
    matched = []
    for finding, place in here:
        key = (_key(place), finding.code)
        if key in named and named[key] in (None, fingerprint(finding)):
            matched.append(finding)
    return matched or [finding for finding, place in here if _touch(place, asked)]


def _fingerprint(data: Any) -> Any:
    """What a diagnostic of ours carries, whatever the client made of it."""
    return data.get("fingerprint") if isinstance(data, dict) else getattr(data, "fingerprint", None)


def _diagnostic(session: Session, analysed: Analysed, finding: Finding) -> types.Diagnostic:
    _, item = diagnostic(analysed.snapshot, finding, session.client)
    return session.structure(item, types.Diagnostic)


def _key(place: types.Range) -> tuple[int, int, int, int]:
    return place.start.line, place.start.character, place.end.line, place.end.character


def _touch(first: types.Range, second: types.Range) -> bool:
    return first.start <= second.end and second.start <= first.end


def _is_safe(finding: Finding) -> bool:
    return finding.applicability == "safe"
