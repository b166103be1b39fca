"""Document text: decoding, rows and columns in every unit, notebook cells, comments."""

from torchlint.text.decoding import decode_document, encode_document, read_bytes, read_document
from torchlint.text.document import Cell, Document, DocumentError, Mask
from torchlint.text.lines import Encoding, LineIndex
from torchlint.text.logical import Comment, LogicalLines, comments
from torchlint.text.notebooks import document_from_cells

__all__ = [
    "Cell",
    "Comment",
    "Document",
    "DocumentError",
    "Encoding",
    "LineIndex",
    "LogicalLines",
    "Mask",
    "comments",
    "decode_document",
    "document_from_cells",
    "encode_document",
    "read_bytes",
    "read_document",
]
