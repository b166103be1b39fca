"""The reviewed findings: one TSV file for each package, one line for each finding of level warning or error.

Columns: verdict (``right``, ``wrong`` or ``unreviewed``), rule, place (``file:row``), why (one line), the source line.
A finding is recognised by rule, file and the text of its source line (the first, second, ... of equal ones), not by
its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = Path(__file__).parent / "reviews"
HEADER = "verdict\trule\tplace\twhy\tsource"
VERDICTS = ("right", "wrong", "unreviewed")


@dataclass(frozen=True)
class Review:
    """A finding and what a person said of it. ``row`` counts from 1; ``source`` is the line, stripped."""

    rule: str
    file: str
    row: int
    source: str
    verdict: str = "unreviewed"
    why: str = ""

    def line(self) -> str:
        return "\t".join((self.verdict, self.rule, f"{self.file}:{self.row}", self.why, self.source))


class ReviewError(Exception):
    """A malformed line; the message names file and row."""


def read_reviews(package: str) -> list[Review]:
    """The reviews of a package; none when it has no file yet. Raises ReviewError."""
    path = FOLDER / f"{package}.tsv"
    if not path.exists():
        return []
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    if header != HEADER:
        raise ReviewError(f"{path.name}:1: the header has to be {HEADER!r}")
    return [_parse(line, f"{path.name}:{row}") for row, line in enumerate(lines, start=2) if line]


def _parse(line: str, where: str) -> Review:
    cells = line.split("\t")
    if len(cells) != 5:
        raise ReviewError(f"{where}: {len(cells)} columns instead of 5")
    verdict, rule, place, why, source = cells
    file, _, row = place.rpartition(":")
    if verdict not in VERDICTS:
        raise ReviewError(f"{where}: verdict {verdict!r} is none of {', '.join(VERDICTS)}")
    if not file or not row.isdecimal():
        raise ReviewError(f"{where}: {place!r} is no file:row")
    if verdict != "unreviewed" and not why.strip():
        raise ReviewError(f"{where}: a verdict needs its reason in column 4")
    return Review(rule, file, int(row), source, verdict, why)


def write_reviews(package: str, reviews: Iterable[Review]) -> None:
    """Write a package's file, sorted by file, row and rule."""
    FOLDER.mkdir(exist_ok=True)
    ordered = sorted(reviews, key=lambda review: (review.file, review.row, review.rule))
    text = "".join(f"{line}\n" for line in [HEADER, *(review.line() for review in ordered)])
    (FOLDER / f"{package}.tsv").write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Comparison:
    """``known`` has the verdicts of the reviews at the rows where the findings are now."""

    known: list[Review]
    new: list[Review]
    vanished: list[Review]


def compare(reviews: Iterable[Review], found: Iterable[Review]) -> Comparison:
    """Match what was found with what was reviewed."""
    old = _keyed(reviews)
    now = _keyed(found)
    return Comparison(
        known=[
            replace(review, verdict=old[key].verdict, why=old[key].why) for key, review in now.items() if key in old
        ],
        new=[review for key, review in now.items() if key not in old],
        vanished=[review for key, review in old.items() if key not in now],
    )


def _keyed(reviews: Iterable[Review]) -> dict[tuple[str, str, str, int], Review]:
    counts: Counter[tuple[str, str, str]] = Counter()
    keyed = {}
    for review in sorted(reviews, key=lambda one: (one.file, one.row)):
        key = (review.rule, review.file, review.source)
        keyed[review.rule, review.file, review.source, counts[key]] = review
        counts[key] += 1
    return keyed
