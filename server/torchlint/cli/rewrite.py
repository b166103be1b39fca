"""Changed documents: written back to their files, or shown as a difference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.reports import one_line
from torchlint.text import DocumentError, LineIndex, encode_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.reports import Look
    from torchlint.text import Document

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def write_document(path: Path, before: Document, after: Document) -> None:
    """Replace a file by a changed version of it, as a whole or not at all.

    ``before`` is the document as it was read: if the file says something else by now, nothing is written. A link is
    followed, the file's mode is kept. Raises DocumentError.
    """
    import tempfile

    target = path.resolve()
    try:
        if target.read_bytes() != encode_document(before):
            raise DocumentError(str(path), "has changed while it was being fixed; it is left as it is")
        data = encode_document(after)
        # Beside the file: a replacement is atomic only inside one file system.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".torchlint", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(target.stat().st_mode & 0o7777)
            os.replace(temporary, target)  # noqa: PTH105 - Path.replace does not say that it overwrites on Windows
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DocumentError(str(path), f"cannot be written: {error.strerror or error}") from error


def difference(display: str, before: Document, after: Document, look: Look) -> str:
    """A unified diff with three rows of context, one for each changed cell of a notebook; empty if nothing changed."""
    if not before.cells:
        return "".join(_unified(display, before.text, after.text, look))
    pieces: list[str] = []
    for old, new in zip(before.cells, after.cells, strict=True):
        texts = before.cell_text(old), after.cell_text(new)
        pieces.extend(_unified(f"{display}:cell {old.index}", *texts, look))
    return "".join(pieces)


def _unified(name: str, before: str, after: str, look: Look) -> Iterator[str]:
    import difflib

    name = one_line(name)
    for number, line in enumerate(difflib.unified_diff(_rows(before), _rows(after), name, name)):
        body = line.rstrip("\r\n")
        shown = look.paint(body, bold=True) if number < 2 else look.paint(body, _COLOURS.get(body[:1]))
        # A row keeps its own CRLF, so that the output can be applied as a patch.
        yield shown + ("\r\n" if line.endswith("\r\n") else "\n")
        if body == line:
            yield "\\ No newline at end of file\n"


def _rows(text: str) -> list[str]:
    """The rows with their terminators. ``str.splitlines`` would also cut at form feeds and the like."""
    index = LineIndex(text)
    rows = [text[index.line_start(row) : index.line_start(row + 1)] for row in range(index.row_count)]
    return rows if rows[-1] else rows[:-1]
