"""The reviewed findings that are committed, and how findings are matched with them. No package is downloaded here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.corpus import reviews
from tests.corpus.__main__ import HIGHEST_WRONG_SHARE
from tests.corpus.packages import PACKAGES
from tests.corpus.reviews import HEADER, Review, ReviewError, compare, read_reviews, write_reviews


def test_every_package_has_its_reviews() -> None:
    files = {path.stem for path in reviews.FOLDER.glob("*.tsv")}
    assert files == {package.name for package in PACKAGES}


def test_everything_is_reviewed_and_at_most_one_in_twenty_is_wrong() -> None:
    verdicts = Counter(review.verdict for package in PACKAGES for review in read_reviews(package.name))
    assert verdicts["unreviewed"] == 0
    assert verdicts["wrong"] <= HIGHEST_WRONG_SHARE * verdicts.total()
    assert verdicts["right"] > 0


def one(row: int, source: str = "optimizer.step()", rule: str = "missing-zero-grad", **rest: str) -> Review:
    return Review(rule, "a/b.py", row, source, **rest)


def test_finding_is_recognised_when_its_row_moves() -> None:
    comparison = compare([one(3, verdict="right", why="nothing clears")], [one(8)])
    assert comparison.known == [one(8, verdict="right", why="nothing clears")]
    assert not comparison.new
    assert not comparison.vanished


def test_equal_lines_are_counted() -> None:
    comparison = compare([one(3, verdict="right", why="first")], [one(3), one(9)])
    assert [review.row for review in comparison.known] == [3]
    assert [review.row for review in comparison.new] == [9]


def test_another_rule_or_line_is_new_and_the_old_one_vanished() -> None:
    comparison = compare([one(3), one(4, rule="unsafe-load")], [one(3, source="scheduler.step()")])
    assert [review.source for review in comparison.new] == ["scheduler.step()"]
    assert [(review.rule, review.row) for review in comparison.vanished] == [
        ("missing-zero-grad", 3),
        ("unsafe-load", 4),
    ]


def test_written_reviews_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "FOLDER", tmp_path)
    written = [one(9), one(3, verdict="wrong", why="a closure clears")]
    write_reviews("package", written)
    assert read_reviews("package") == sorted(written, key=lambda review: review.row)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("right\trule\ta.py:1\twhy", "package.tsv:2: 4 columns instead of 5"),
        ("maybe\trule\ta.py:1\twhy\tx", "verdict 'maybe' is none of right, wrong, unreviewed"),
        ("right\trule\ta.py\twhy\tx", "'a.py' is no file:row"),
        ("right\trule\ta.py:1\t\tx", "a verdict needs its reason"),
    ],
)
def test_malformed_review_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str) -> None:
    monkeypatch.setattr(reviews, "FOLDER", tmp_path)
    (tmp_path / "package.tsv").write_text(f"{HEADER}\n{line}\n", encoding="utf-8")
    with pytest.raises(ReviewError, match=message):
        read_reviews("package")
