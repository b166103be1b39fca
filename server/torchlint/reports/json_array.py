"""The report for programs: one JSON array, with the field names of ruff's so that readers of those read ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchlint.reports.linted import place_in

if TYPE_CHECKING:
    from torchlint.finding import Finding, Fix, Related, TextEdit
    from torchlint.reports.linted import LintedFile
    from torchlint.reports.look import Look
    from torchlint.text import Cell


def json_objects(file: LintedFile, _look: Look) -> list[str]:
    """One JSON object for each finding, as text in ASCII: it survives any terminal and pipe.

    Rows and columns count from 1, columns in characters. In a notebook they count inside a cell; related places and
    edits then carry a ``cell`` too, because they may stand in another one.
    """
    return [_indented(_finding(file, finding)) for finding in file.findings]


def _indented(value: dict[str, Any]) -> str:
    return "".join(f"\n  {line}" for line in json.dumps(value, indent=2).split("\n"))


def _finding(file: LintedFile, finding: Finding) -> dict[str, Any]:
    cell = file.document.cell_at(finding.row - 1)
    fixes = file.fixes(finding) if finding.applicability is not None else ()
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "filename": file.filename,
        **_range(cell, finding.row, finding.column, finding.end_row, finding.end_column),
        "url": finding.url,
        "cell": None if cell is None else cell.index,
        "related": [_related(file, related) for related in finding.related],
        "fix": _fix(file, fixes[0]) if fixes else None,
    }


def _related(file: LintedFile, related: Related) -> dict[str, Any]:
    cell = file.document.cell_at(related.row - 1)
    return {
        "message": related.message,
        "filename": file.filename,
        **_range(cell, related.row, related.column, related.end_row, related.end_column),
        **_cell(cell),
    }


def _fix(file: LintedFile, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "message": fix.title,
        "edits": [_edit(file, edit) for edit in fix.edits],
    }


def _edit(file: LintedFile, edit: TextEdit) -> dict[str, Any]:
    start_row, start_column = file.document.lines.position(edit.start)
    end_row, end_column = file.document.lines.position(edit.end)
    cell = file.document.cell_at(start_row)
    return {
        "content": edit.content,
        **_range(cell, start_row + 1, start_column + 1, end_row + 1, end_column + 1),
        **_cell(cell),
    }


def _range(cell: Cell | None, row: int, column: int, end_row: int, end_column: int) -> dict[str, Any]:
    start, end = place_in(cell, row, column), place_in(cell, end_row, end_column)
    return {
        "location": {"row": start.row, "column": start.column},
        "end_location": {"row": end.row, "column": end.column},
    }


def _cell(cell: Cell | None) -> dict[str, Any]:
    return {} if cell is None else {"cell": cell.index}
