"""Markdown for clients that show plain text only."""

from __future__ import annotations

import re

from torchlint.regex import regex

_FENCE = regex(r"^ *```.*\n?", re.MULTILINE)
_HEADING = regex(r"^#+ +", re.MULTILINE)
_LINK = regex(r"\[([^\]\n]+)\]\((https?://[^)\s]+)\)")
_EMPHASIS = regex(r"\*\*([^*\n]+)\*\*")
_CODE = regex(r"`([^`\n]+)`")


def plain(markdown: str) -> str:
    """The words of a page without its marks; code blocks keep their layout."""
    text = _FENCE.sub("", markdown)
    text = _HEADING.sub("", text)
    text = _LINK.sub(r"\1 <\2>", text)
    text = _EMPHASIS.sub(r"\1", text)
    return _CODE.sub(r"\1", text)
