"""The one module of the harness that knows the linter: text and settings in, findings and fixed text out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torchlint.finding import Finding, Fix, TextEdit
from torchlint.linter import Analysis, Linter
from torchlint.rules import all_rules
from torchlint.settings import Settings
from torchlint.settings.schema import Origin, parse_settings
from torchlint.text import Document, decode_document

#: More rounds than any honest rule needs; a fix that brings back its own finding would go on for ever.
MAXIMUM_ROUNDS = 20


@dataclass(frozen=True)
class Program:
    """A document with the settings (a table as in torchlint.toml) that it is linted with."""

    document: Document
    table: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        settings = parse_settings(self.table, Origin(), None)
        settings.validate(all_rules())
        return settings

    @cached_property
    def analysis(self) -> Analysis:
        return Linter().analyze(self.document, self.settings)

    def edited(self, edits: Iterable[TextEdit]) -> Program:
        return Program(self.document.with_edits(edits), self.table)

    def place(self, row: int) -> tuple[int, int]:
        """The cell (from 0; 0 when it is no notebook) and the row in it (from 1) of a finding's row."""
        if not self.document.cells:
            return 0, row
        cell = self.document.cell_at(row - 1)
        assert cell is not None, f"row {row} is in no cell"
        return self.document.cells.index(cell), row - cell.first_row

    def cells(self) -> list[str]:
        """The text of each cell, or the whole text when it is no notebook."""
        if not self.document.cells:
            return [self.document.text]
        return [self.document.cell_text(cell) for cell in self.document.cells]

    def fixes(self, finding: Finding) -> tuple[Fix, ...]:
        return self.analysis.fixes(finding)


def program_of(text: str, filename: str, table: dict[str, Any]) -> Program:
    return Program(Document(text, filename), table)


def notebook_of(cells: Sequence[str], filename: str, table: dict[str, Any]) -> Program:
    """A notebook file with these code cells, read as any other notebook."""
    content = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": str(number),
                "metadata": {},
                "outputs": [],
                "source": cell.rstrip("\n").splitlines(keepends=True),
            }
            for number, cell in enumerate(cells)
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return Program(decode_document(json.dumps(content).encode(), filename), table)


def fix_until_done(program: Program, *, unsafe: bool, title: str | None = None) -> tuple[Program, list[str]]:
    """Apply the fix of every finding, lint again, and so on until no fix is left.

    ``unsafe``: unsafe fixes too. ``title``: only fixes whose title holds it; else the first one of each finding.
    Returns the program after that and what went wrong: a fix that announces itself otherwise than it is, or fixes
    without end. The linter's own fix-all is not used, so that the two check each other.
    """
    failures: list[str] = []
    for _ in range(MAXIMUM_ROUNDS):
        edits: list[TextEdit] = []
        for finding in program.analysis.findings:
            fix = _chosen(program.fixes(finding), title)
            failures += _announced_otherwise(finding, program.fixes(finding))
            if fix is not None and (unsafe or fix.applicability == "safe") and not _overlap(edits, fix.edits):
                edits += fix.edits
        if not edits or failures:
            return program, failures
        program = program.edited(edits)
    return program, [f"still offers fixes after {MAXIMUM_ROUNDS} rounds"]


def _chosen(fixes: Sequence[Fix], title: str | None) -> Fix | None:
    return next((fix for fix in fixes if title is None or title in fix.title), None)


def _announced_otherwise(finding: Finding, fixes: Sequence[Fix]) -> list[str]:
    announced = (finding.applicability, finding.fix_title)
    offered = (fixes[0].applicability, fixes[0].title) if fixes else (None, None)
    if announced == offered:
        return []
    return [f"row {finding.row}: the finding announces the fix {announced}, offered is {offered}"]


def _overlap(edits: Iterable[TextEdit], others: Iterable[TextEdit]) -> bool:
    """Whether two sets of edits meet; two insertions at one place do, unless they are the same import line."""
    known = list(edits)
    return any(a.start <= b.end and b.start <= a.end for a in known for b in others)
