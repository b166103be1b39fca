"""What is kept over versions of a file, and what is found again."""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.semantics.memo import Memo, Read


class Numbers:
    """A file that says a number for each name."""

    def __init__(self, **numbers: int) -> None:
        self.numbers = numbers

    def look_up(self, read: Read) -> object:
        return self.numbers[read[0]]

    def topics_of(self, read: Read) -> Iterable[tuple[str, object]]:
        yield "number", None


class Session:
    def __init__(self) -> None:
        self.memo = Memo()
        self.found: list[str] = []

    def version(self, **numbers: int) -> list[object]:
        """What the values are in a version; ``found`` are those that were found anew."""
        self.found = []
        self.memo.begin(Numbers(**numbers), lambda topic, asked: list(asked))
        self.memo.asked = self
        return [self.memo.get(("plain",), self.plain, 0), self.memo.get(("summarised",), self.summarised, "")]

    def plain(self) -> int:
        self.found.append("plain")
        return int(self.memo.read(("a",)))

    def summarised(self) -> str:
        self.found.append("summarised")
        return "even" if self.memo.summary(("is even",), Session.is_even, False) else "odd"

    def is_even(self) -> bool:
        self.found.append("is even")
        return bool(self.memo.read(("b",)) % 2 == 0)


def test_a_value_is_found_again_when_what_it_read_is_another() -> None:
    session = Session()
    assert session.version(a=1, b=2) == [1, "even"]
    assert session.found == ["plain", "summarised", "is even"]
    assert session.version(a=1, b=2) == [1, "even"]
    assert session.found == []
    assert session.version(a=3, b=2) == [3, "even"]
    assert session.found == ["plain"]


def test_who_asks_for_a_summary_depends_on_its_answer_only() -> None:
    session = Session()
    session.version(a=1, b=2)
    assert session.version(a=1, b=4) == [1, "even"]
    assert session.found == ["is even"]
    assert session.version(a=1, b=5) == [1, "odd"]
    assert session.found == ["is even", "summarised"]


def test_a_value_is_good_again_when_what_it_read_has_changed_back() -> None:
    session = Session()
    session.version(a=1, b=2)
    session.memo.begin(Numbers(a=2, b=2), lambda topic, asked: list(asked))
    assert session.version(a=1, b=2) == [1, "even"]
    assert session.found == []
