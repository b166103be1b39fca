"""Findings as the diagnostics of the protocol.

The diagnostics of a document are put into JSON once, by the analysis thread: the text is hashed for the result id and
spliced into the message as it is.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from torchlint.finding import Severity
from torchlint.frozen import dataclass
from torchlint.text import LineIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchlint.finding import Finding, Related
    from torchlint.lsp.capabilities import Client
    from torchlint.lsp.documents import Part, Snapshot
    from torchlint.settings import SettingsError
    from torchlint.text import Encoding

SOURCE = "torchlint"
_SEVERITY = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFORMATION: 3, Severity.HINT: 4}
_DEPRECATED = 2
_EMPTY = "[]"


@dataclass(frozen=True, slots=True)
class Report:
    """The diagnostics of one document: a JSON array, and a hash of it (None if it is empty)."""

    items: str = _EMPTY
    result_id: str | None = None


def reports(snapshot: Snapshot, findings: Iterable[Finding], client: Client) -> Mapping[str, Report]:
    """A report for every document of the snapshot, by URI."""
    items: dict[str, list[dict[str, Any]]] = {part.uri: [] for part in snapshot.parts}
    for finding in findings:
        uri, item = diagnostic(snapshot, finding, client)
        items[uri].append(item)
    return {uri: _report(found) for uri, found in items.items()}


def diagnostic(snapshot: Snapshot, finding: Finding, client: Client) -> tuple[str, dict[str, Any]]:
    """A finding as a diagnostic, in the form of the wire, and the URI of the document it belongs to."""
    part, place = _range(snapshot, finding)
    item: dict[str, Any] = {
        "range": _wire(place),
        "severity": _SEVERITY[finding.severity],
        "code": finding.code,
        "source": SOURCE,
        "message": finding.message,
    }
    if client.code_description:
        item["codeDescription"] = {"href": finding.url}
    if client.deprecated_tag and finding.deprecated:
        item["tags"] = [_DEPRECATED]
    if client.related_information and finding.related:
        item["relatedInformation"] = [_related(snapshot, related) for related in finding.related]
    if client.diagnostic_data:
        item["data"] = {"fingerprint": fingerprint(finding)}
    return part.uri, item


def settings_report(error: SettingsError, encoding: Encoding) -> Report:
    """What is wrong with a file of settings, where it says it (from there to the end of the row)."""
    try:
        text = error.path.read_text("utf-8", "replace") if error.path else ""
    except OSError:
        text = ""
    lines = LineIndex(text)
    row = max(error.row - 1, 0)
    start = lines.offset(row, error.column - 1)
    first, last = lines.position(start, encoding), lines.position(lines.line_end(row), encoding)
    place = types.Range(types.Position(*first), types.Position(*last))
    return _report([{"range": _wire(place), "severity": 1, "source": SOURCE, "message": error.reason}])


def fingerprint(finding: Finding) -> str:
    """What tells two findings of one code at one place apart; it does not depend on the place."""
    return _hash(f"{finding.code}\0{finding.message}", size=6)


def finding_range(snapshot: Snapshot, finding: Finding) -> tuple[str, types.Range]:
    """Where a finding is, as the client counts it: URI and range."""
    part, place = _range(snapshot, finding)
    return part.uri, place


def _range(snapshot: Snapshot, place: Finding | Related) -> tuple[Part, types.Range]:
    return snapshot.range(place.row - 1, place.column - 1, place.end_row - 1, place.end_column - 1)


def _related(snapshot: Snapshot, related: Related) -> dict[str, Any]:
    part, place = _range(snapshot, related)
    return {"location": {"uri": part.uri, "range": _wire(place)}, "message": related.message}


def _wire(place: types.Range) -> dict[str, Any]:
    start, end = place.start, place.end
    return {
        "start": {"line": start.line, "character": start.character},
        "end": {"line": end.line, "character": end.character},
    }


def _report(items: list[dict[str, Any]]) -> Report:
    if not items:
        return Report()
    text = json.dumps(items, separators=(",", ":"))
    return Report(text, _hash(text, size=12))


def _hash(text: str, *, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
