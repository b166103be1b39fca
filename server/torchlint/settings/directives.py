"""What a comment says to torchlint: `# torchlint: ignore[...]`, `# torchlint: ignore-file[...]`, `# noqa: ...`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from torchlint.frozen import dataclass
from torchlint.regex import regex
from torchlint.text import comments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.text import Comment

Kind = Literal["ignore", "ignore-file", "noqa"]

#: Found in every comment that may say something.
MENTION = regex(r"torchlint|noqa", re.IGNORECASE)
_MAY_SUPPRESS = regex(r"torchlint\s*:|noqa\s*:[^#\r\n]*TL", re.IGNORECASE)
_OURS = regex(r"#\s*torchlint\s*:\s*(ignore-file|ignore)(?![\w-])[ \t]*(\[([^\]]*)\]?)?", re.IGNORECASE)
#: As flake8 and ruff read it; of the codes only ours count.
_NOQA = regex(r"#\s*noqa(?![\w-])(?:[ \t]*:[ \t]*([A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*))?", re.IGNORECASE)
_WORD = regex(r"[^\s,]+")


@dataclass(frozen=True, slots=True)
class Word:
    """A selector in a comment, and its offsets in the text of the document."""

    selector: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Directive:
    """One request in a comment. ``start`` and ``end`` are offsets in characters, ``row`` counts from 0.

    ``words`` is None where no rules are named and all are meant.
    """

    kind: Kind
    row: int
    start: int
    end: int
    words: tuple[Word, ...] | None


def may_suppress(text: str, *, plain_noqa: bool) -> bool:
    """Whether any row could ask for suppression: false for most texts, in a fraction of the time of reading comments.

    With ``plain_noqa`` a `# noqa` that names no rule counts.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose small form is longer: offsets would not fit
        return True
    for word in ("torchlint", "noqa"):
        position = lowered.find(word)
        while position >= 0:
            if (plain_noqa and word == "noqa") or _MAY_SUPPRESS.match(text, position):
                return True
            position = lowered.find(word, position + 1)
    return False


def directives(text: str) -> list[Directive]:
    """The requests in the comments of a text, in order."""
    return [found for comment in comments(text, MENTION) for found in in_comment(comment)]


def in_comment(comment: Comment) -> Iterator[Directive]:
    """The requests in one comment; there may be several, `# noqa: TL201  # torchlint: ignore[TL202]`."""
    for match in _OURS.finditer(comment.text):
        kind: Kind = "ignore-file" if match[1].lower() == "ignore-file" else "ignore"
        words = None if match[2] is None else _words(comment.start + match.start(3), match[3])
        yield Directive(kind, comment.row, comment.start + match.start(), comment.start + match.end(), words)
    for match in _NOQA.finditer(comment.text):
        words = None
        if match[1] is not None:
            found = _words(comment.start + match.start(1), match[1])
            words = tuple(word for word in found if word.selector.upper().startswith("TL"))
        yield Directive("noqa", comment.row, comment.start + match.start(), comment.start + match.end(), words)


def _words(start: int, written: str) -> tuple[Word, ...]:
    return tuple(Word(match[0], start + match.start(), start + match.end()) for match in _WORD.finditer(written))
