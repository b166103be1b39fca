"""Findings that a comment in the document asks not to report, and such comments."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from torchlint.finding import Fix, TextEdit
from torchlint.settings.directives import Directive, Word, directives, may_suppress
from torchlint.settings.selection import ALL, specificity
from torchlint.text import comments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.finding import Finding
    from torchlint.text import Document


class Suppressions:
    """The suppression comments of one document.

    A comment counts for a finding when it is on the first or the last row of what is underlined, or at the end of the
    statement (the logical line), or of the string of several rows, that those rows belong to.
    """

    __slots__ = ("_document", "_everywhere", "_rows", "_sorted")

    def __init__(self, document: Document, everywhere: tuple[str, ...], rows: dict[int, tuple[str, ...]]) -> None:
        """``everywhere``: selectors for the whole document; ``rows``: selectors by row, from 0."""
        self._document = document
        self._everywhere = everywhere
        self._rows = rows
        self._sorted = sorted(rows)

    @classmethod
    def from_document(cls, document: Document, *, respect_noqa: bool = False) -> Suppressions:
        """Read the comments. ``respect_noqa``: a plain `# noqa`, which names no rule, counts too."""
        everywhere: list[str] = []
        rows: dict[int, tuple[str, ...]] = {}
        for found in directives(document.text) if may_suppress(document.text, plain_noqa=respect_noqa) else ():
            if found.kind == "noqa" and found.words is None and not respect_noqa:
                continue
            selectors = (ALL,) if found.words is None else tuple(_normal(word.selector) for word in found.words)
            if found.kind != "ignore-file":
                rows[found.row] = (*rows.get(found.row, ()), *selectors)
            elif _is_alone(document, found):
                everywhere += selectors
        return cls(document, tuple(everywhere), rows)

    def suppresses(self, finding: Finding) -> bool:
        """Whether a comment asks not to report a finding of this document."""
        if _means(self._everywhere, finding):
            return True
        return any(_means(self._rows[row], finding) for row in self._comment_rows(finding))

    def _comment_rows(self, finding: Finding) -> Iterator[int]:
        """Rows, from 0, of comments that count for a finding."""
        first, last = finding.row - 1, finding.end_row - 1
        # Most comments are on the row itself; the logical lines of a text are read only if that does not decide.
        yield from (row for row in {first, last} if row in self._rows)
        if bisect_left(self._sorted, first) == len(self._sorted):
            return
        lines, logical = self._document.lines, self._document.logical_lines
        for row in {first, last}:
            end = lines.line_end(row)
            spans = [logical.containing(lines.line_start(row)), logical.string_around(end)]
            yield from (at for span in spans if span and (at := lines.row_of(span[1])) in self._rows)


def suppression_edit(document: Document, finding: Finding) -> Fix:
    """The comment that suppresses a finding where it is. See ``suppression_edit_at``."""
    return suppression_edit_at(document, finding.row, (finding.code,))


def suppression_edit_at(document: Document, row: int, codes: Sequence[str]) -> Fix:
    """Suppress rules in the statement that holds a row (from 1).

    A comment of ours in that statement is extended; else one goes behind its last token and behind any other comment
    there. The fix has no edits where all is suppressed already, and where no comment can be: after a backslash or in
    a string that never ends.
    """
    line_start = document.lines.line_start(row - 1)
    start, end = document.logical_lines.containing(line_start)
    edit = _edit(document, start, end, row - 1, codes)
    return Fix(suppression_title(codes), "safe", () if edit is None else (edit,))


def suppression_title(codes: Iterable[str]) -> str:
    """What the fix is called that suppresses rules."""
    return f"Suppress {', '.join(codes)} on this line"


def suppression_at(document: Document, row: int, column: int) -> tuple[Word | None, Directive] | None:
    """What a suppression comment says at a position (row and column from 0, in characters).

    The selector there, or None on the comment's other words; and the whole request, whose place can be shown. None
    outside of every suppression comment.
    """
    offset = document.lines.offset(row, column)
    for found in directives(document.text):
        if found.start <= offset <= found.end:
            words = (word for word in found.words or () if word.start <= offset <= word.end)
            return next(words, None), found
    return None


def _edit(document: Document, start: int, end: int, row: int, codes: Sequence[str]) -> TextEdit | None:
    line = document.text[start:end]
    shift = document.lines.row_of(start)
    here = [found for found in directives(line) if found.kind == "ignore"]
    last = document.lines.row_of(end) - shift
    for found in sorted(here, key=lambda found: found.row != row - shift):
        if found.row not in (row - shift, last):
            continue
        if found.words is None:
            return None
        return _extended(document.text, found, start, codes)
    kept = line.rstrip(" \t\f")
    space = "" if not kept or kept.endswith(("\n", "\r")) else "  "
    content = f"{space}# torchlint: ignore[{', '.join(codes)}]"
    # The new comment is one only if the line, with it, ends in a comment: not after a backslash, not in a string.
    if kept.endswith("\\") and not _ends_in_comment(kept):
        return None
    if not _ends_in_comment(kept + content):
        return None
    return TextEdit(start + len(kept), end, content)


def _ends_in_comment(line: str) -> bool:
    found = comments(line)
    return bool(found) and found[-1].end == len(line)


def _extended(text: str, found: Directive, shift: int, codes: Sequence[str]) -> TextEdit | None:
    """Add codes to the brackets of a comment."""
    words = found.words or ()
    new = [code for code in codes if not any(_normal(word.selector) == code for word in words)]
    if not new:
        return None
    end = shift + found.end
    at = shift + words[-1].end if words else end - (1 if text[end - 1] == "]" else 0)
    closing = "" if text[end - 1] == "]" else "]"
    return TextEdit(at, at if not closing else end, (", " if words else "") + ", ".join(new) + closing)


def _normal(selector: str) -> str:
    """A selector with the case of codes: `tl201` is `TL201`, as flake8 reads it."""
    upper = selector.upper()
    return upper if upper == ALL or (upper[:2] == "TL" and upper[2:].isdigit()) else selector.lower()


def _means(selectors: Iterable[str], finding: Finding) -> bool:
    return any(specificity(selector, finding.code, finding.name) for selector in selectors)


def _is_alone(document: Document, found: Directive) -> bool:
    """Whether a comment has its row for itself."""
    start = document.lines.line_start(found.row)
    return document.text[start : found.start].lstrip(" \t\f")[:1] in ("", "#")
