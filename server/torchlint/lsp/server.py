"""The server object, and which module handles which method."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from torchlint._version import __version__
from torchlint.lsp import action_kinds, document_diagnostic, notebook_documents, text_documents
from torchlint.lsp.configuration import (
    did_change_configuration,
    did_change_watched_files,
    did_change_workspace_folders,
)
from torchlint.lsp.initialize import initialize, initialized
from torchlint.lsp.log import Log
from torchlint.lsp.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from torchlint.lsp.analyses import MakeLinter
    from torchlint.lsp.session import Session

#: A request of our own, see `torchlint.lsp.rule_documentation`.
RULE_DOCUMENTATION = "torchlint/ruleDocumentation"

_HANDLERS: dict[str, Callable[..., Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.TEXT_DOCUMENT_DID_OPEN: text_documents.did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: text_documents.did_change,
    types.TEXT_DOCUMENT_DID_SAVE: text_documents.did_save,
    types.TEXT_DOCUMENT_DID_CLOSE: text_documents.did_close,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: notebook_documents.did_open,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: notebook_documents.did_change,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: notebook_documents.did_save,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: notebook_documents.did_close,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: did_change_watched_files,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: did_change_workspace_folders,
}

#: Requests that need the rules; loading those must not delay the answer to `initialize`.
_LATE_HANDLERS: dict[str, tuple[str, str]] = {
    types.TEXT_DOCUMENT_HOVER: ("torchlint.lsp.hover", "hover"),
    types.TEXT_DOCUMENT_CODE_ACTION: ("torchlint.lsp.code_action", "code_action"),
    types.CODE_ACTION_RESOLVE: ("torchlint.lsp.code_action_resolve", "resolve"),
    RULE_DOCUMENTATION: ("torchlint.lsp.rule_documentation", "rule_documentation"),
}
_OPTIONS: dict[str, Any] = {types.TEXT_DOCUMENT_CODE_ACTION: action_kinds.OPTIONS}

_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    # Each filter names a notebook type: lsprotocol 2025 cannot decode one that names only the language of cells.
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(notebook=kind, cells=[types.NotebookCellLanguage(language="python")])
        for kind in ("jupyter-notebook", "interactive")
    ],
    save=True,
)


class Server(LanguageServer):
    """One client's server."""

    protocol: Protocol
    session: Session

    def __init__(self, make_linter: MakeLinter | None = None) -> None:
        """``make_linter`` makes the linter of one document; None for the real one."""
        super().__init__("torchlint", __version__, notebook_document_sync=_NOTEBOOKS, protocol_cls=Protocol)
        self.log = Log()
        self.make_linter = make_linter
        self._on_stop: Callable[[int], None] | None = None
        for method, handler in _HANDLERS.items():
            self.feature(method)(handler)
        for method, (module, name) in _LATE_HANDLERS.items():
            self.feature(method, _OPTIONS.get(method))(_late(module, name))

    def offer_pull(self) -> None:
        """Announce pull diagnostics; only clients that pull are told."""
        self.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, document_diagnostic.OPTIONS)(
            document_diagnostic.document_diagnostic
        )

    def on_stop(self, call: Callable[[int], None]) -> None:
        """Call this with the exit status when the server is to end."""
        self._on_stop = call

    def stop(self, status: int) -> None:
        """End the server. To be called in the event loop."""
        if self._on_stop is not None:
            self._on_stop(status)

    def leave(self) -> None:
        """Stop all work; nothing more will be asked."""
        if session := getattr(self, "session", None):
            session.stop()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log what a handler raised; pygls would show a message to the user."""
        if not isinstance(error, JsonRpcException) or error.code == types.ErrorCodes.InternalError.value:
            self.log.error("a request or notification failed", error)


def _late(module: str, name: str) -> Callable[[Server, Any], Awaitable[Any]]:
    """The handler of that name, loaded when the first request for it comes."""

    async def handle(ls: Server, params: Any) -> Any:
        return await getattr(import_module(module), name)(ls, params)

    return handle
