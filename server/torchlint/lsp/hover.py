"""`textDocument/hover`: the rule's page on flagged code, a short page on a suppression comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.lsp.markdown import plain
from torchlint.lsp.moved import moved_findings
from torchlint.rules import find_rule
from torchlint.settings import suppression_at
from torchlint.settings.directives import MENTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.finding import Finding
    from torchlint.lsp.documents import Snapshot
    from torchlint.lsp.server import Server
    from torchlint.lsp.session import Session

#: In seconds. A hover is answered from older findings rather than late.
_PATIENCE = 0.005


async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    """What is known about the place; None where there is no finding and no suppression."""
    session = ls.session
    program = session.program(params.text_document.uri)
    if program is None:
        return None
    analysed = await session.soon(program, _PATIENCE)
    snapshot = session.analyses.wanted(program)
    part = snapshot.part(params.text_document.uri) if snapshot else None
    if snapshot is None or part is None:
        return None
    offset = snapshot.offset(part, params.position)
    if page := _suppression(snapshot, offset):
        return _answer(session, snapshot, *page)
    if analysed is None:
        return None
    found = [(finding, place) for finding, place in moved_findings(analysed, snapshot) if _holds(place, offset)]
    if not found:
        return None
    return _answer(session, snapshot, _findings_page(finding for finding, _ in found), min(found, key=_size)[1])


def _holds(place: tuple[int, int], offset: int) -> bool:
    start, end = place
    return start <= offset < end or start == offset == end


def _size(found: tuple[Finding, tuple[int, int]]) -> int:
    start, end = found[1]
    return end - start


def _findings_page(findings: Iterable[Finding]) -> str:
    pages = []
    for finding in findings:
        rule = find_rule(finding.code)
        pages.append(f"{finding.message}\n\n[{finding.name}]({finding.url}) ({finding.code}), {finding.severity.value}")
        if rule is not None:
            pages.append(rule.documentation())
    return "\n\n---\n\n".join(dict.fromkeys(pages))


def _suppression(snapshot: Snapshot, offset: int) -> tuple[str, tuple[int, int]] | None:
    """The short page of the rule that a suppression comment names at an offset, and where it names it."""
    lines = snapshot.document.lines
    row, column = lines.position(offset)
    if not MENTION.search(lines.line(row)):
        return None
    word, _ = suppression_at(snapshot.document, row, column) or (None, None)
    rule = find_rule(word.selector) if word else None
    if word is None or rule is None:
        return None
    return f"**{rule.name}** ({rule.code}): {rule.summary}", (word.start, word.end)


def _answer(session: Session, snapshot: Snapshot, page: str, place: tuple[int, int]) -> types.Hover:
    _, range_ = snapshot.offset_range(*place)
    markdown = session.client.markdown
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    return types.Hover(contents=types.MarkupContent(kind=kind, value=page if markdown else plain(page)), range=range_)
