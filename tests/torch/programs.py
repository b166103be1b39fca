"""Small programs whose fix is checked by running them: read from Markdown, mended by the linter. Needs no torch.

Each rule has one Markdown file here, named after it. A block is a program that leaves what it computes in ``result``;
its info string says how the fix is judged:

    python equal     the mended program leaves exactly the same result (values, shapes, dtypes, gradient flags)
    python close     the same up to rounding
    python mended    the program raises (an ``assert`` may say what is wrong); the mended one runs to its end

``quiet`` adds that the program warns and the mended one does not, ``fix="words"`` chooses a fix by its title, and
``raises="TypeError"`` says what a program raises. A block ``python by-hand`` behind a program takes the place of the
mended text, where the rule reports without a fix and its message says what to write. A ``toml`` block holds settings
for its section.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.harness.analysis import Program, fix_until_done, program_of
from tests.harness.markdown import Block, MarkdownTestError, Section, read_sections
from torchlint.linter import fix_all
from torchlint.rules import find_rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
_JUDGEMENTS = ("equal", "close", "mended")


@dataclass(frozen=True)
class Mended:
    """A program after its fixes: the text, how many fixes were applied, whether all of them are called safe, and
    how many findings are left that no fix mends."""

    text: str
    applied: int
    safe: bool
    left: int = 0


@dataclass(frozen=True)
class Pair:
    """A program and how its fix is judged; ``by_hand`` is the text that a reader writes where there is no fix."""

    rule: str
    id: str
    row: int
    text: str
    judgement: str
    quiet: bool = False
    fix: str | None = None
    raises: str | None = None
    by_hand: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def program(self) -> Program:
        return program_of(self.text, "program.py", {**self.settings, "select": [self.rule]})

    @cached_property
    def mended(self) -> Mended:
        """The program after the fixes of the rule; safe ones alone, where that leaves nothing to be said."""
        if self.by_hand is not None:
            return Mended(self.by_hand, len(self.program.analysis.findings), False)
        if self.fix is not None:
            after, failures = fix_until_done(self.program, unsafe=True, title=self.fix)
            assert failures == []
            left = len(after.analysis.findings)
            return Mended(after.document.text, int(after.document.text != self.text), False, left)
        rule = find_rule(self.rule)
        assert rule is not None
        safe, every = (
            fix_all(self.program.document, self.program.settings, unsafe=unsafe, only=rule.code)
            for unsafe in (False, True)
        )
        left = len(every.analysis.findings)
        return Mended(every.document.text, every.applied, 0 < every.applied == safe.applied, left)


def pairs_of(path: Path) -> list[Pair]:
    """The programs of a Markdown file, in order."""
    return [pair for section in read_sections(path) for pair in _pairs(path.stem, section)]


def all_pairs() -> list[Pair]:
    """The programs of all Markdown files beside this module."""
    return [pair for path in sorted(FOLDER.glob("*.md")) for pair in pairs_of(path)]


def _pairs(rule: str, section: Section) -> Iterator[Pair]:
    settings: Mapping[str, Any] = {}
    programs = [block for block in section.blocks if block.language == "python" and "by-hand" not in block.words]
    for block, following in zip_longest(section.blocks, section.blocks[1:]):
        if block.language == "toml":
            settings = tomllib.loads(block.text)
        if block not in programs:
            continue
        number = f" ({programs.index(block) + 1})" if len(programs) > 1 else ""
        by_hand = following.text if following is not None and "by-hand" in following.words else None
        yield Pair(
            rule,
            section.title + number,
            block.row,
            block.text,
            _judgement(block),
            quiet="quiet" in block.words,
            fix=block.options.get("fix"),
            raises=block.options.get("raises"),
            by_hand=by_hand,
            settings=settings,
        )


def _judgement(block: Block) -> str:
    found = block.words - {"quiet"}
    if len(found) != 1 or not found <= set(_JUDGEMENTS) or block.options.keys() - {"fix", "raises"}:
        raise MarkdownTestError(f"row {block.row - 1}: {' or '.join(_JUDGEMENTS)}?")
    return next(iter(found))
