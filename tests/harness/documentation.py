"""The documentation of a rule, taken apart: its headings and the code under "Example" and "Use instead"."""

from __future__ import annotations

from dataclasses import dataclass

from tests.harness.markdown import Block, parse_sections

REQUIRED_HEADINGS = ("What it does", "Why is this bad?", "Example", "Use instead")
KNOWN_HEADINGS = (*REQUIRED_HEADINGS, "Exceptions", "Fix", "Options", "References")


@dataclass(frozen=True)
class RuleDocumentation:
    """``headings`` in order; ``example`` and ``use_instead`` are the first Python blocks below these headings."""

    headings: tuple[str, ...]
    prose: dict[str, str]
    example: Block | None
    use_instead: Block | None


def read_documentation(text: str) -> RuleDocumentation:
    """Take a rule's documentation (Markdown whose headings have the second level) apart."""
    sections = {section.path[0]: section for section in parse_sections(text) if section.path}
    return RuleDocumentation(
        tuple(sections),
        _prose(text),
        *(
            next((block for block in sections[heading].blocks if block.language == "python"), None)
            if heading in sections
            else None
            for heading in ("Example", "Use instead")
        ),
    )


def _prose(text: str) -> dict[str, str]:
    """The text below each heading, code included."""
    parts: dict[str, str] = {}
    heading = None
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:].replace("`", "").strip()
            parts[heading] = ""
        elif heading is not None:
            parts[heading] += line + "\n"
    return parts
