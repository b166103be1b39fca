"""Bytes to documents and back, exactly."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.regex import regex
from torchlint.text.document import Document, DocumentError
from torchlint.text.notebooks import decode_notebook

if TYPE_CHECKING:
    from pathlib import Path

#: In bytes. Larger files are generated or data; reading one by accident would stall an editor.
MAXIMUM_SIZE = 10 * 1024 * 1024
#: In bytes. Notebooks hold pictures.
MAXIMUM_NOTEBOOK_SIZE = 100 * 1024 * 1024

_FIRST_ROWS = regex(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)[^\r\n]*")
_FIRST_TERMINATOR = regex(r"\r\n|\r|\n")


def read_document(path: Path) -> Document:
    """Read a Python file, a stub or a notebook. Raises DocumentError when that is not possible."""
    return decode_document(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that ``decode_document`` can be given. Raises DocumentError."""
    filename = str(path)
    try:
        if path.is_dir():
            raise DocumentError(filename, "is a directory, not a file")
        _check_size(path.stat().st_size, filename)
        return path.read_bytes()
    except FileNotFoundError:
        raise DocumentError(filename, "no such file") from None
    except OSError as error:
        raise DocumentError(filename, f"cannot be read: {error.strerror or error}") from error


def decode_document(data: bytes, filename: str) -> Document:
    """The document in the bytes of a file. A name that ends with `.ipynb` is a notebook.

    The encoding is UTF-8 or what a PEP 263 comment in the first two rows says. Raises DocumentError for bytes that
    are no text in that encoding, for an encoding that is unknown and for a notebook that is none.
    """
    _check_size(len(data), filename)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DocumentError(filename, "is encoded in UTF-16, which Python does not read; save it as UTF-8")
    if b"\0" in data:
        raise DocumentError(filename, "is a binary file (it holds NUL bytes)")
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data = data[len(codecs.BOM_UTF8) :]
    if filename.endswith(".ipynb"):
        return replace(decode_notebook(_decode(data, "utf-8", filename), filename), bom=bom)
    encoding = _declared_encoding(data, filename, bom=bom)
    text = _decode(data, encoding, filename)
    # Some encodings write one text in several ways (ISO-2022, UTF-7): such a file must not be rewritten by a fix.
    read_only = encoding != "utf-8" and text.encode(encoding, "replace") != data
    return Document(text, filename, newline=newline_of(text), encoding=encoding, bom=bom, read_only=read_only)


def encode_document(document: Document) -> bytes:
    """The bytes of the file: what `decode_document` read, but for what was changed in the text since.

    Raises DocumentError when the text holds a character that the file's encoding has not.
    """
    if document.read_only:
        raise DocumentError(document.filename, f"cannot be written back exactly in encoding {document.encoding}")
    text = document.text
    if document.notebook is not None:
        text = document.notebook.with_cells(document)
    try:
        data = text.encode(document.encoding)
    except UnicodeEncodeError as error:
        character = text[error.start]
        reason = f"encoding {document.encoding} has no character {character!a} (U+{ord(character):04X})"
        raise DocumentError(document.filename, reason) from None
    return codecs.BOM_UTF8 + data if document.bom else data


def newline_of(text: str) -> str:
    """The line terminator of a text's first row; LF if it has but one row."""
    first = _FIRST_TERMINATOR.search(text)
    return first[0] if first else "\n"


def _declared_encoding(data: bytes, filename: str, *, bom: bool) -> str:
    head = _FIRST_ROWS.match(data)
    if head is None or b"coding" not in head[0]:
        return "utf-8"
    rows = io.BytesIO(head[0].replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    try:
        encoding, _ = tokenize.detect_encoding(rows.readline)
    except SyntaxError as error:
        raise DocumentError(filename, str(error.msg)) from None
    if bom and encoding != "utf-8":
        raise DocumentError(filename, f"has a UTF-8 byte order mark but declares encoding {encoding}")
    if not _contains_ascii(encoding):
        raise DocumentError(filename, f"declares encoding {encoding}, in which the declaration itself cannot be read")
    return encoding


def _contains_ascii(encoding: str) -> bool:
    try:
        return "coding".encode(encoding) == b"coding"
    except (LookupError, ValueError):
        return False


def _decode(data: bytes, encoding: str, filename: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        row = len(_FIRST_TERMINATOR.findall(data[: error.start].decode("latin-1"))) + 1
        raise DocumentError(filename, f"is not valid {encoding}: byte 0x{data[error.start]:02x} in row {row}") from None
    except (LookupError, ValueError) as error:
        raise DocumentError(filename, f"cannot be decoded as {encoding}: {error}") from None


def _check_size(size: int, filename: str) -> None:
    limit = MAXIMUM_NOTEBOOK_SIZE if filename.endswith(".ipynb") else MAXIMUM_SIZE
    if size > limit:
        megabytes = 1024 * 1024
        raise DocumentError(filename, f"is too large ({size / megabytes:.1f} MB; the limit is {limit // megabytes} MB)")
