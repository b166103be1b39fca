"""Findings on small texts, as the reports receive them."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

from torchlint.finding import Finding, Fix, Related, Severity, TextEdit
from torchlint.reports import FORMATS, LintedFile, Look, summary_of
from torchlint.text import Document, decode_document

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = Look(color=False, width=100)


def found(
    text: str, piece: str, *, end: str | None = None, severity: Severity = Severity.ERROR, **more: object
) -> Finding:
    """A finding of missing-zero-grad at the first place of ``piece`` in ``text`` (to the first place of ``end``)."""
    row, column, end_row, end_column = span(text, piece, end)
    return Finding(
        "TL201",
        "missing-zero-grad",
        severity,
        "nothing clears the gradients of `model`",
        row,
        column,
        end_row,
        end_column,
        **more,  # type: ignore[arg-type]
    )


def related(text: str, piece: str, message: str) -> Related:
    return Related(message, *span(text, piece))


def span(text: str, piece: str, end: str | None = None) -> tuple[int, int, int, int]:
    start = text.index(piece)
    stop = start + len(piece) if end is None else text.index(end, start) + len(end)
    return *_place(text, start), *_place(text, stop)


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].split("\n")
    return len(before), len(before[-1]) + 1


def linted(
    document: Document | str,
    *findings: Finding,
    display: str = "train.py",
    fixes: Callable[[Finding], tuple[Fix, ...]] = lambda finding: (),
    unsafe_fixes: bool = False,
) -> LintedFile:
    document = Document(document, display) if isinstance(document, str) else document
    return LintedFile(display, f"/project/{display}", document, findings, fixes, summary_of, unsafe_fixes)


def shown(output_format: str, file: LintedFile, look: Look = PLAIN) -> str:
    """What the report says, without the space at the ends of its lines."""
    written = FORMATS[output_format]
    text = written.head + written.between.join(written.pieces(file, look)) + written.tail
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def picture(text: str) -> str:
    """The expected text of a test, without its indentation and its first empty line."""
    return dedent(text).removeprefix("\n")


def insertion(offset: int, content: str, *, title: str = "Insert `optimizer.zero_grad()`") -> Fix:
    return Fix(title, "unsafe", (TextEdit(offset, offset, content),))


NOTEBOOK = decode_document(
    b"""{
 "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": ["# Training"]},
  {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
   "source": ["%pip install torch\\n", "import torch"]},
  {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
   "source": ["for x in loader:\\n", "    model(x).backward()\\n", "    optimizer.step()"]}
 ],
 "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5
}
""",
    "train.ipynb",
)
