"""`textDocument/diagnostic`: findings for a client that asks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lsprotocol import types

from torchlint.lsp.protocol import Json
from torchlint.lsp.reports import SOURCE, Report

if TYPE_CHECKING:
    from torchlint.lsp.server import Server

OPTIONS = types.DiagnosticOptions(identifier=SOURCE, inter_file_dependencies=False, workspace_diagnostics=False)


async def document_diagnostic(ls: Server, params: types.DocumentDiagnosticParams) -> Json:
    """The findings of the present text, or "unchanged" if the client has exactly these.

    The answer waits for the analysis of the newest text, so that it is never of an older one. An empty report has no
    result id, so that the client stops sending one.
    """
    uri = params.text_document.uri
    found = await ls.session.newest(uri)
    report = found[0].reports[uri] if found else Report()
    if report.result_id is None:
        return Json('{"kind":"full","items":[]}')
    result_id = json.dumps(report.result_id)
    if report.result_id == params.previous_result_id:
        return Json(f'{{"kind":"unchanged","resultId":{result_id}}}')
    return Json(f'{{"kind":"full","resultId":{result_id},"items":{report.items}}}')
