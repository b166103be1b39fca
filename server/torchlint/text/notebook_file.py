"""The JSON of a notebook file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.text.document import Document


@dataclass(frozen=True, slots=True)
class NotebookFile:
    """The JSON text of a notebook."""

    json: str

    def encode(self, document: Document) -> str:
        """The JSON text with the sources of changed cells replaced."""
        raise NotImplementedError


def decode_notebook(json: str, filename: str, *, bom: bool) -> Document:
    """The joined program of a notebook's Python cells."""
    raise NotImplementedError
