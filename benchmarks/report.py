"""Measurements as Markdown tables."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence

from benchmarks.cold import ColdTimes
from benchmarks.inputs import Source


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, numbers flush right, padded so that it reads as text too."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def text(cells: Sequence[str]) -> str:
        padded = [cell.ljust(width) if column == 0 else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(cells, widths, strict=True))]  # fmt: skip
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join([text(lines[0]), f"| {' | '.join(rule)} |", *(text(line) for line in lines[1:])])


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def times(ratio: float) -> str:
    return f"{ratio:,.2f} x" if ratio < 10 else f"{ratio:,.0f} x"


def p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def cold_table(sources: Sequence[Source], measured: Sequence[ColdTimes]) -> str:
    """Seconds of each tool and how they compare: to ``ast.parse`` in the same process, and that to torchlint's."""
    ours = measured[0]
    rows = [
        ["ast.parse"],
        *([f"{result.tool} {result.version}"] for result in measured),
        ["torchlint, first call of the process"],
    ]
    header = ["cold lint, all rules"]
    for source in sources:
        name = source.name
        header += [f"{name} ({source.rows:,} lines)", "/ ast.parse", "/ torchlint"]
        rows[0] += [milliseconds(ours.parse[name]), "", ""]
        for row, result in zip(rows[1:], measured, strict=False):
            ratio = result.ratio(name)
            row += [milliseconds(result.fastest[name]), times(ratio), times(ratio / ours.ratio(name))]
        first = ours.first if source is sources[0] else None
        rows[-1] += [milliseconds(first), times(first / ours.parse[name]), ""] if first else ["", "", ""]
    return table(header, rows)


def keystroke_table(rows: Iterable[tuple[Source, dict[str, list[float]]]], ours: str, peer: str) -> str:
    """Median and 95th percentile of each server and the ratio of the medians."""
    lines = []
    for source, measured in rows:
        cells = [f"{source.name} ({source.rows:,} lines)"]
        for name in (ours, peer):
            cells += [milliseconds(statistics.median(measured[name])), milliseconds(p95(measured[name]))]
        ratios = [statistics.median(measured[ours]) / statistics.median(measured[peer]),
                  p95(measured[ours]) / p95(measured[peer])]  # fmt: skip
        lines.append([*cells, times(ratios[0]), times(ratios[1]), str(len(measured[ours]))])
    header = [
        "edit to findings",
        f"{ours} median",
        "p95",
        f"{peer} median",
        "p95",
        "ratio of medians",
        "of p95",
        "keystrokes",
    ]
    return table(header, lines)
