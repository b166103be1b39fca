"""What makes the command line start sooner behaves as what it stands for."""

from __future__ import annotations

import dataclasses
import pickle
import re

import pytest

from torchlint.frozen import dataclass
from torchlint.regex import regex


@dataclass(frozen=True, slots=True)
class Place:
    row: int
    column: int = 1
    note: str = dataclasses.field(default="", repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class Thing:
    inner: object = None


@dataclass(frozen=True)
class Named:
    name: str

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass
class Changing:
    count: int = 0


class TestDataclass:
    def test_frozen_ones_are_values(self) -> None:
        assert Place(1, note="a") == Place(1, note="b") != Place(2)
        assert len({Place(1, note="a"), Place(1, note="b")}) == 1
        assert dataclasses.replace(Place(1), row=3) == Place(3)
        assert pickle.loads(pickle.dumps(Place(4))) == Place(4)

    def test_without_eq_they_are_objects(self) -> None:
        assert Thing() != Thing()
        assert len({Thing(), Thing()}) == 2

    def test_others_have_no_hash(self) -> None:
        assert Changing(1) == Changing(1)
        with pytest.raises(TypeError, match="unhashable"):
            hash(Changing())

    def test_what_a_class_says_itself_is_kept(self) -> None:
        assert (hash(Named("a")), repr(Named("a"))) == (7, "<a>")

    def test_they_are_shown_as_they_are_made(self) -> None:
        assert repr(Place(1, note="x")) == "Place(row=1, column=1)"
        thing = Thing()
        thing.inner = thing  # type: ignore[misc]
        assert repr(thing) == "Thing(inner=...)"


class TestRegex:
    def test_it_is_a_pattern(self) -> None:
        words = regex(r"\b(?P<first>\w)\w*", re.IGNORECASE)
        found = words.search("  one two")
        assert found is not None
        assert found["first"] == "o"
        assert words.findall("one two") == ["o", "t"]
        assert words.sub("x", "one two") == "x x"
        assert (words.pattern, words.flags & re.IGNORECASE) == (r"\b(?P<first>\w)\w*", re.IGNORECASE)

    def test_it_is_compiled_when_it_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compiled = []
        compile_now = re.compile

        def watched(expression: str, flags: int = 0) -> re.Pattern[str]:
            compiled.append(expression)
            return compile_now(expression, flags)

        monkeypatch.setattr(re, "compile", watched)
        words = regex(r"\w+ of a test")
        assert compiled == []
        assert words.match("start of a test")
        assert words.match("end of a test")
        assert len(compiled) == 1

    def test_a_wrong_one_is_told_at_its_first_use(self) -> None:
        wrong = regex("(")
        with pytest.raises(re.error, match="missing"):
            wrong.search("")
