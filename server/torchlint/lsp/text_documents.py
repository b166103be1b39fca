"""`textDocument/didOpen`, `didChange`, `didSave`, `didClose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsprotocol import types

    from torchlint.lsp.server import Server


def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Hold the text and analyse it."""
    ls.session.open_file(params.text_document)


def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Apply the changes and analyse the new text at once."""
    if file := ls.session.file(params.text_document.uri):
        file.buffer.apply(params.content_changes, params.text_document.version, ls.session.client.encoding)
        ls.session.changed(file)


def did_save(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """A moment at which settings on disk may have changed."""
    ls.session.saved()


def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Forget the text; what was pushed for it is cleared."""
    ls.session.close(params.text_document.uri)
