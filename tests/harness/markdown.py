"""Markdown files as sections with code blocks; the form of the files is described in ``docs/rule-tests.md``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt


@dataclass(frozen=True)
class Block:
    """A fenced code block.

    ``row`` is the row of its first line of code in the Markdown file, from 1. ``language`` is the first word of the
    info string, ``words`` the others without ``=``, ``options`` those with one.
    """

    text: str
    row: int
    language: str
    words: frozenset[str]
    options: dict[str, str]


@dataclass(frozen=True)
class Section:
    """The blocks directly under one heading; ``path`` holds the headings above it and its own, without the title."""

    path: tuple[str, ...]
    row: int
    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        return " / ".join(self.path) or "(top)"


class MarkdownTestError(Exception):
    """A test file that does not keep to the form; the message has the row, from 1."""


def read_sections(path: Path) -> list[Section]:
    """The sections of a Markdown file, in order, those without a code block included."""
    return parse_sections(path.read_text(encoding="utf-8"))


def parse_sections(text: str) -> list[Section]:
    """The sections of a Markdown text, in order; what stands before the first heading below the title has no path."""
    sections: list[Section] = []
    headings: list[str] = []
    blocks: list[Block] = []
    first_row = 1

    def finish() -> None:
        sections.append(Section(tuple(headings), first_row, tuple(blocks)))
        blocks.clear()

    tokens = MarkdownIt().parse(text)
    for index, token in enumerate(tokens):
        row = token.map[0] + 1 if token.map else 1
        if token.type == "heading_open":
            finish()
            depth = int(token.tag[1:]) - 1
            del headings[max(depth - 1, 0) :]
            if depth > 0:
                headings.append(_plain(tokens[index + 1].content))
            first_row = row
        elif token.type == "fence":
            blocks.append(_block(token.content, row + 1, token.info))
    finish()
    return sections


def _plain(heading: str) -> str:
    return heading.replace("`", "").strip()


def _block(text: str, row: int, info: str) -> Block:
    try:
        words = shlex.split(info)
    except ValueError as error:
        raise MarkdownTestError(f"row {row - 1}: info string {info!r}: {error}") from error
    language, rest = (words[0], words[1:]) if words else ("", [])
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    return Block(text, row, language, frozenset(word for word in rest if "=" not in word), options)


@dataclass(frozen=True)
class Expectation:
    """A finding that a trailing comment announces for a row of the code (from 1, in the code without such comments)."""

    row: int
    severity: str
    rule: str
    message: str | None
    flagged: str | None
    comment: str

    def __str__(self) -> str:
        return self.comment


@dataclass(frozen=True)
class RelatedExpectation:
    """A related place that a ``# related: "message"`` comment announces for a row (from 1)."""

    row: int
    message: str


@dataclass(frozen=True)
class AnnotatedCode:
    """Code without its expectation comments, and what they say.

    ``source_rows[i]`` is the row (from 1, in the block as written) of row ``i + 1`` of ``text``.
    """

    text: str
    expectations: tuple[Expectation, ...]
    related: tuple[RelatedExpectation, ...]
    source_rows: tuple[int, ...]


_FINDING = r'(?:error|warning|information|hint): \[[\w-]+\](?: `[^`]+`)?(?: "(?:[^"\\]|\\.)*")?'
_RELATED = r'related: "(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(
    rf"(?P<indent>^\s*)?\s*#\s*(?P<all>(?:{_FINDING}|{_RELATED})(?:\s*#\s*(?:{_FINDING}|{_RELATED}))*)\s*$"
)
_PART = re.compile(
    r"(?P<severity>error|warning|information|hint): \[(?P<rule>[\w-]+)\](?: `(?P<flagged>[^`]+)`)?"
    r'(?: "(?P<message>(?:[^"\\]|\\.)*)")?|related: "(?P<related>(?:[^"\\]|\\.)*)"'
)
_ALMOST = re.compile(r"#\s*(?:error|warning|information|hint|related)\s*:?\s*[\[\"`]")


def read_annotations(code: str, first_row: int = 1) -> AnnotatedCode:
    """Take the expectation comments off ``code``.

    A comment at the end of a line speaks of that line, one on a line of its own of the next line of code. ``first_row``
    (from 1) is where the code stands in its file, for messages. Raises ``MarkdownTestError`` for a comment that looks
    like an expectation and is none.
    """
    lines: list[str] = []
    rows: list[int] = []
    expectations: list[Expectation] = []
    related: list[RelatedExpectation] = []
    for row, line in enumerate(code.split("\n"), start=1):
        match = _COMMENTS.search(line)
        if match is None:
            if _ALMOST.search(line):
                raise MarkdownTestError(f"row {first_row + row - 1}: not a well-formed expectation: {line.strip()}")
            lines.append(line)
            rows.append(row)
            continue
        kept = line[: match.start()].rstrip()
        target = len(lines) + 1
        if kept:
            lines.append(kept)
            rows.append(row)
        for part in _PART.finditer(match["all"]):
            if part["related"] is not None:
                related.append(RelatedExpectation(target, _unescape(part["related"])))
                continue
            message = None if part["message"] is None else _unescape(part["message"])
            comment = f"# {part[0]}"
            expectations.append(Expectation(target, part["severity"], part["rule"], message, part["flagged"], comment))
    return AnnotatedCode("\n".join(lines), tuple(expectations), tuple(related), tuple(rows))


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def python_blocks(sections: list[Section]) -> Iterator[tuple[Section, Block]]:
    """Every Python block with its section, fixed ones included."""
    for section in sections:
        for block in section.blocks:
            if block.language == "python":
                yield section, block
