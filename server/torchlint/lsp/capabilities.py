"""What the client can do, decided once at `initialize`. No handler looks at the raw capabilities."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder, get_capability

from torchlint.frozen import dataclass
from torchlint.text import Encoding


@dataclass(frozen=True, slots=True)
class Client:
    """The capabilities of the client that change what the server says."""

    encoding: Encoding
    #: The client asks for findings: they are never pushed to it.
    pull: bool
    refresh: bool
    related_information: bool
    code_description: bool
    deprecated_tag: bool
    diagnostic_data: bool
    versioned_edits: bool
    change_annotations: bool
    resolve_edits: bool
    markdown: bool
    configuration: bool
    watch_configuration: bool
    watch_files: bool


def resolve(capabilities: types.ClientCapabilities) -> Client:
    """Read the capabilities of an `initialize` request; what is not said is not supported."""

    def has(name: str) -> bool:
        return bool(get_capability(capabilities, name))

    def diagnostics(name: str) -> Any:
        """Protocol 3.17 says how findings may look only with the push model, 3.18 with both."""
        return get_capability(capabilities, f"text_document.diagnostic.{name}") or get_capability(
            capabilities, f"text_document.publish_diagnostics.{name}"
        )

    pull = get_capability(capabilities, "text_document.diagnostic") is not None
    tags = diagnostics("tag_support.value_set") or ()
    formats = get_capability(capabilities, "text_document.hover.content_format") or ()
    annotations = get_capability(capabilities, "workspace.workspace_edit.change_annotation_support")
    resolvable = get_capability(capabilities, "text_document.code_action.resolve_support.properties") or ()
    return Client(
        encoding=Encoding(str(_value(ServerCapabilitiesBuilder.choose_position_encoding(capabilities)))),
        pull=pull,
        refresh=pull and has("workspace.diagnostics.refresh_support"),
        related_information=bool(diagnostics("related_information")),
        code_description=bool(diagnostics("code_description_support")),
        deprecated_tag=types.DiagnosticTag.Deprecated in tags,
        diagnostic_data=bool(diagnostics("data_support")),
        versioned_edits=has("workspace.workspace_edit.document_changes"),
        change_annotations=annotations is not None,
        resolve_edits="edit" in resolvable and has("text_document.code_action.data_support"),
        markdown=next(iter(formats), types.MarkupKind.PlainText) == types.MarkupKind.Markdown,
        configuration=has("workspace.configuration"),
        watch_configuration=has("workspace.did_change_configuration.dynamic_registration"),
        watch_files=has("workspace.did_change_watched_files.dynamic_registration"),
    )


def _value(kind: types.PositionEncodingKind | str) -> str:
    return kind.value if isinstance(kind, types.PositionEncodingKind) else kind
