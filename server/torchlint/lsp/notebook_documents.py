"""`notebookDocument/didOpen`, `didChange`, `didSave`, `didClose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsprotocol import types

    from torchlint.lsp.server import Server


def did_open(ls: Server, params: types.DidOpenNotebookDocumentParams) -> None:
    """Hold the cells and analyse the program that they make."""
    ls.session.open_notebook(params.notebook_document, params.cell_text_documents)


def did_change(ls: Server, params: types.DidChangeNotebookDocumentParams) -> None:
    """Apply changes of structure, of kinds of cells and of texts, and analyse the whole notebook."""
    notebook = ls.session.notebook(params.notebook_document.uri)
    if notebook and params.change.cells:
        notebook.change(params.change.cells, ls.session.client.encoding)
        ls.session.changed(notebook)


def did_save(ls: Server, params: types.DidSaveNotebookDocumentParams) -> None:
    """A moment at which settings on disk may have changed."""
    ls.session.saved()


def did_close(ls: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    """Forget the notebook; what was pushed for its cells is cleared."""
    ls.session.close(params.notebook_document.uri)
