"""Which findings a request for code actions is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint.lsp.reports import SOURCE, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lsprotocol import types

    from torchlint.finding import Finding

#: A finding, and where it is in the document that is asked about.
Placed = tuple["Finding", "types.Range"]


def asked_about(here: Iterable[Placed], params: types.CodeActionParams) -> list[Placed]:
    """Of the findings in a document those that the client names, by range and code; else those that its range touches.

    Diagnostics of other servers come along and are left out. The client's own copies may be of an older text: what
    counts is what is found now.
    """
    here = list(here)
    named = {
        (_key(item.range), str(item.code)): _fingerprint(item.data)
        for item in params.context.diagnostics
        if item.source == SOURCE
    }
    matched = []
    for finding, place in here:
        key = (_key(place), finding.code)
        if key in named and named[key] in (None, fingerprint(finding)):
            matched.append((finding, place))
    return matched or [(finding, place) for finding, place in here if _touch(place, params.range)]


def _fingerprint(data: Any) -> Any:
    """What a diagnostic of ours carries, whatever the client made of it."""
    return data.get("fingerprint") if isinstance(data, dict) else getattr(data, "fingerprint", None)


def _key(place: types.Range) -> tuple[int, int, int, int]:
    return place.start.line, place.start.character, place.end.line, place.end.character


def _touch(first: types.Range, second: types.Range) -> bool:
    return first.start <= second.end and second.start <= first.end
