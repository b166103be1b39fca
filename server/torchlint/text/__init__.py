"""Document text: decoding, rows and columns in every unit, notebook cells, comments."""

from torchlint.text.decoding import decode_document, encode_document, read_document
from torchlint.text.document import Cell, Document, DocumentError, Mask
from torchlint.text.lines import Encoding, LineIndex

__all__ = [
    "Cell",
    "Document",
    "DocumentError",
    "Encoding",
    "LineIndex",
    "Mask",
    "decode_document",
    "encode_document",
    "read_document",
]
