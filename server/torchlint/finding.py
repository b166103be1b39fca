"""What torchlint says about a place in a file: the value that every door receives."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from torchlint.frozen import dataclass

Applicability = Literal["safe", "unsafe"]


class Severity(str, Enum):
    """How sure and how grave a finding is, in the words of the Language Server Protocol."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that explains a finding. Rows and columns count from 1, columns in characters."""

    message: str
    row: int
    column: int
    end_row: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in one document.

    Rows and columns count from 1, columns in characters; the end is exclusive. In a notebook the rows are those of
    the joined program (``Document.cell_at`` tells the cell). It holds no edits: ``Analysis.fixes`` computes them from
    the live text.
    """

    code: str
    name: str
    severity: Severity
    message: str
    row: int
    column: int
    end_row: int
    end_column: int
    related: tuple[Related, ...] = ()
    #: The applicability of the first fix, or None where there is none.
    applicability: Applicability | None = None
    #: Title of the first fix ("Insert `optimizer.zero_grad()`"), or None where there is none.
    fix_title: str | None = None
    #: The name is deprecated: editors strike it through.
    deprecated: bool = False

    @property
    def url(self) -> str:
        """The page of the rule, in the repository."""
        return f"https://github.com/torchlint/torchlint/blob/main/docs/rules/{self.name}.md"


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters ``start`` to ``end`` (offsets into ``Document.text``, end exclusive) by ``content``."""

    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A computed change for one finding; its edits do not overlap and are sorted by start."""

    title: str
    applicability: Applicability
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cost part of an analysis: a statement that does not parse, a rule that raised.

    ``row`` counts from 1 (0: the whole file).
    """

    kind: Literal["syntax", "rule"]
    row: int
    message: str
