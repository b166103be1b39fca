"""One linted file as a report receives it, and where its findings stand in the words of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchlint.finding import Finding, Fix
    from torchlint.text import Cell, Document


@dataclass(frozen=True, slots=True)
class LintedFile:
    """A file's findings, with the text that they were found in."""

    #: The name as people are shown it: relative to the working directory where the file lies in it.
    display: str
    #: The absolute path, for programs.
    filename: str
    document: Document
    findings: tuple[Finding, ...]
    #: Computes the fixes of one finding; costs nothing until it is called.
    fixes: Callable[[Finding], tuple[Fix, ...]]
    #: One line about the rule of a finding.
    summary: Callable[[Finding], str]
    #: Are unsafe fixes among those that ``--fix`` would apply?
    unsafe_fixes: bool = False

    def fixable(self, finding: Finding) -> bool:
        """Would ``--fix`` with the user's options apply this finding's fix?"""
        return finding.applicability == "safe" or (finding.applicability == "unsafe" and self.unsafe_fixes)


def summary_of(finding: Finding) -> str:
    """What the rule of a finding says of itself; empty if there is no such rule."""
    # Loads all rules: not for who has the summary already.
    from torchlint.rules import find_rule

    rule = find_rule(finding.code)
    return rule.summary if rule is not None else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A position as a user counts it: in a notebook, inside its cell. Row, column and cell count from 1."""

    cell: int | None
    row: int
    column: int

    def __str__(self) -> str:
        position = f"{self.row}:{self.column}"
        return position if self.cell is None else f"cell {self.cell}:{position}"


def place(document: Document, row: int, column: int) -> Place:
    """The place of a position of the whole document (row and column from 1, column in characters)."""
    return place_in(document.cell_at(row - 1), row, column)


def place_in(cell: Cell | None, row: int, column: int) -> Place:
    """As ``place``, with the cell given: the end of a range belongs to the cell in which the range begins."""
    return Place(None, row, column) if cell is None else Place(cell.index, row - cell.first_row, column)
