"""A notebook as one program, and its file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.text.document import Cell, Document, DocumentError, Mask
from torchlint.text.json_spans import elements, members
from torchlint.text.lines import LineIndex
from torchlint.text.magics import replacements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FIRST_TERMINATOR = regex(r"\r\n|\r|\n")
_ESCAPED_LETTER = regex(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
_FIRST_ELEMENT = regex(r"\[(\s*)")
_LAST_SPACE = regex(r"(\s*)\]\Z")
_ROWS = regex(r"[^\n]*\n|[^\n]+")


def document_from_cells(
    cells: Iterable[tuple[int, str]], filename: str, notebook: NotebookFile | None = None
) -> Document:
    """The program that the Python cells of a notebook make, in order, with magics masked.

    ``cells``: for each its place among all cells of the notebook, from 1, and its text. Each takes exactly its own
    rows of the joined text: the position (row, column) of a cell is (``first_row`` + row, column) there.
    """
    pieces: list[str] = []
    placed: list[Cell] = []
    masks: list[Mask] = []
    first_row = start = 0
    for index, text in cells:
        row_count = LineIndex(text).row_count
        placed.append(Cell(index, first_row, row_count))
        position = 0
        for mask in replacements(text):
            masks.append(Mask(start + mask.start, mask.original))
            pieces += [text[position : mask.start], mask.masked]
            position = mask.start + len(mask.masked)
        separator = "\r\n" if text.endswith("\r") else "\n"
        pieces += [text[position:], separator]
        first_row += row_count
        start += len(text) + len(separator)
    joined = "".join(pieces)
    newline = _FIRST_TERMINATOR.search(joined)
    return Document(
        joined,
        filename,
        tuple(placed),
        newline=newline[0] if newline else "\n",
        masks=tuple(masks),
        notebook=notebook,
    )


@dataclass(frozen=True, slots=True)
class NotebookFile:
    """The JSON text of a notebook, kept to write changed cells back into it."""

    text: str

    def with_cells(self, document: Document) -> str:
        """The JSON text with the source of every cell that differs from the document's put in place, and all else -
        order of keys, indentation, the way letters are escaped, the end of the file - left as it is."""
        sources = list(self._source_spans())
        escape = self.text.isascii() and _ESCAPED_LETTER.search(self.text) is not None
        pieces, position = [], 0
        for cell in document.cells:
            start, end = sources[cell.index - 1]
            written = self.text[start:end]
            source = document.cell_text(cell)
            if source != _joined(json.loads(written)):
                pieces += [self.text[position:start], self._written(source, written, start, escape)]
                position = end
        return "".join([*pieces, self.text[position:]])

    def _source_spans(self) -> Iterator[tuple[int, int]]:
        """Where the value of `source` stands, for each cell of the notebook (an empty span where there is none)."""
        cells = dict(members(self.text, 0))["cells"]
        for start, _ in elements(self.text, cells[0]):
            yield dict(members(self.text, start)).get("source", (start, start))

    def _written(self, source: str, before: str, start: int, escape: bool) -> str:
        """A cell's source as JSON, laid out like the value ``before`` that it replaces at offset ``start``."""
        if not before.startswith("["):
            return _dumps(source, escape)
        if not source:
            return "[]"
        first, last = _FIRST_ELEMENT.match(before), _LAST_SPACE.search(before)
        opening, closing = first[1] if first else "", last[1] if last else ""
        if before[1:-1].strip() == "":
            opening, closing = self._list_space(start)
        separator = "," + opening if opening else ", " if '", "' in before else ","
        return f"[{opening}{separator.join(_dumps(row, escape) for row in _ROWS.findall(source))}{closing}]"

    def _list_space(self, start: int) -> tuple[str, str]:
        """The space before the elements and before the end of a list whose `[` is at ``start``."""
        row_start = max(self.text.rfind("\n", 0, start), self.text.rfind("\r", 0, start)) + 1
        space = re.match(r"[ \t]*", self.text[row_start:start])
        unit = re.match(r"\{(\r?\n)([ \t]*)", self.text)
        if not unit or not space:
            return "", ""
        return unit[1] + space[0] + unit[2], unit[1] + space[0]


def decode_notebook(text: str, filename: str) -> Document:
    """The program in the JSON text of a notebook of format 4; empty when its kernel does not run Python.

    Raises DocumentError when the text is no such notebook.
    """
    try:
        notebook = json.loads(text)
    except ValueError as error:
        raise DocumentError(filename, f"is not a notebook: {error}") from None
    except RecursionError:
        raise DocumentError(filename, "is not a notebook: its JSON is nested too deeply") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise DocumentError(filename, "is not a notebook: its JSON has no nbformat")
    if notebook["nbformat"] < 4:
        reason = f"is a notebook of format {notebook['nbformat']}; convert it with `jupyter nbconvert --to notebook`"
        raise DocumentError(filename, reason)
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise DocumentError(filename, "is not a notebook: its JSON has no list of cells")
    numbered = enumerate(cells, 1) if _runs_python(notebook) else ()
    try:
        code = [(index, _joined(cell["source"])) for index, cell in numbered if _is_python(cell)]
    except (KeyError, TypeError):
        raise DocumentError(filename, "is not a notebook: the source of a cell is not text") from None
    return document_from_cells(code, filename, NotebookFile(text))


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _runs_python(notebook: dict[str, Any]) -> bool:
    metadata = _mapping(notebook.get("metadata"))
    kernel = _mapping(metadata.get("kernelspec"))
    language = _mapping(metadata.get("language_info")).get("name") or kernel.get("language")
    if language:
        return str(language).lower() in ("python", "ipython", "python3")
    return "python" in str(kernel.get("name") or "python").lower()


def _is_python(cell: dict[str, Any]) -> bool:
    # VS Code notes the language of a cell that differs from its kernel's.
    language = _mapping(_mapping(cell.get("metadata")).get("vscode")).get("languageId") or "python"
    return cell.get("cell_type") == "code" and language == "python"


def _dumps(text: str, escape: bool) -> str:
    has_lone_surrogate = any("\ud800" <= character <= "\udfff" for character in text)
    return json.dumps(text, ensure_ascii=escape or has_lone_surrogate)
