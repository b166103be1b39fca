"""Markdown for clients that show plain text only."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^ *```.*\n?", re.MULTILINE)
_HEADING = re.compile(r"^#+ +", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]+)\]\((https?://[^)\s]+)\)")
_EMPHASIS = re.compile(r"\*\*([^*\n]+)\*\*")
_CODE = re.compile(r"`([^`\n]+)`")


def plain(markdown: str) -> str:
    """The words of a page without its marks; code blocks keep their layout."""
    text = _FENCE.sub("", markdown)
    text = _HEADING.sub("", text)
    text = _LINK.sub(r"\1 <\2>", text)
    text = _EMPHASIS.sub(r"\1", text)
    return _CODE.sub(r"\1", text)
