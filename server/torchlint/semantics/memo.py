"""Values that are computed once and kept over edits, with what they read of the rest of the file.

Whatever a value took from another part goes through ``Memo.read``. A value of an earlier version is good as long as
all it read is the same now, or the same again. Reads are compared with ``==``; nodes compare by identity, and unchanged
text keeps its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import field
from typing import Any, Protocol, TypeVar

from torchlint.frozen import dataclass

_T = TypeVar("_T")
_VERSIONS_KEPT = 32
Read = tuple[Any, ...]


@dataclass(eq=False, slots=True)
class _Answer:
    """What a read gives in the version that is analysed now."""

    read: Read
    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class _Summary:
    """A value that others depend on by what it is, not by what it read. ``ask`` finds it in any version."""

    key: Hashable
    ask: Callable[[Any], Any]
    default: Any


@dataclass(eq=False, slots=True)
class _Frame:
    reads: dict[_Answer, Any] = field(default_factory=dict)
    summaries: dict[_Summary, Any] = field(default_factory=dict)
    cache: dict[Hashable, Any] = field(default_factory=dict)
    tables: dict[str, dict[Any, Any]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Entry:
    value: Any
    #: What it read, and what that gave.
    reads: dict[_Answer, Any]
    #: The summaries that it asked for, and what they were.
    summaries: dict[_Summary, Any]
    version: int


class Answers(Protocol):
    """What a version of the file says."""

    def look_up(self, read: Read) -> object:
        """What a read gives."""

    def topics_of(self, read: Read) -> Iterable[tuple[str, object]]:
        """What a read is about: topics, each with a thing that one can ask about."""


#: Of the things of a topic that were asked about those of which a version may say something else than the one before.
Stirred = Callable[[str, Collection[object]], Iterable[object]]


class Memo:
    """Entries by key. At the start of a version the reads whose topics it has stirred are looked up again."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}
        self._frames: list[_Frame] = [_Frame()]
        self._running: set[Hashable] = set()
        self._tokens: dict[Hashable, object] = {}
        self._summaries: dict[Hashable, _Summary] = {}
        self._version = 0
        #: What answers questions about the version that is analysed now.
        self.asked: object = None
        self._answers: Answers | None = None
        self._now: dict[Read, _Answer] = {}
        #: The reads by their topics and the things that they ask about, but for the new ones of this version, which
        #: are filed when there is a next version.
        self._asked: dict[str, dict[object, list[_Answer]]] = {}
        self._new: list[_Answer] = []
        #: The reads that gave something else in a version than in the one before, by version.
        self._changes: dict[int, frozenset[_Answer]] = {}

    def begin(self, answers: Answers, stirred: Stirred) -> None:
        """Start a new version of the file."""
        self._version += 1
        self._file_under_topics(self._new)
        self._new = []
        self._answers = answers
        self._frames = [_Frame()]
        self._running = set()
        changed: dict[_Answer, Any] = {}
        for topic, things in self._asked.items():
            for thing in stirred(topic, things):
                for answer in things[thing]:
                    now = answers.look_up(answer.read)
                    if now != answer.value:
                        changed[answer] = now
        for answer, now in changed.items():
            answer.value = now
        self._changes[self._version] = frozenset(changed)

    @property
    def is_first_version(self) -> bool:
        """Whether nothing was computed for an earlier version."""
        return self._version == 1

    def forget_unused(self) -> None:
        """Drop entries that no recent version asked for (most of their nodes are gone)."""
        oldest = self._version - _VERSIONS_KEPT
        if oldest % _VERSIONS_KEPT == 0:
            self._entries = {key: entry for key, entry in self._entries.items() if entry.version > oldest}
            self._changes = {version: reads for version, reads in self._changes.items() if version > oldest}
            used = {answer for entry in self._entries.values() for answer in entry.reads}
            self._now = {read: answer for read, answer in self._now.items() if answer in used}
            self._asked, self._new = {}, []
            self._file_under_topics(self._now.values())

    def read(self, read: Read) -> Any:
        """What the file says to ``read`` now; the value being computed depends on it from here on."""
        answer = self._now.get(read)
        if answer is None:
            assert self._answers is not None
            answer = self._now[read] = _Answer(read, self._answers.look_up(read))
            self._new.append(answer)
        self._frames[-1].reads[answer] = answer.value
        return answer.value

    def _file_under_topics(self, answers: Iterable[_Answer]) -> None:
        for answer in answers:
            assert self._answers is not None
            for topic, thing in self._answers.topics_of(answer.read):
                self._asked.setdefault(topic, {}).setdefault(thing, []).append(answer)

    def get(self, key: Hashable, compute: Callable[[], _T], default: _T) -> _T:
        """The value of ``key``; ``default`` while it is being computed already (recursion)."""
        entry = self._entries.get(key)
        if entry is not None and self._still_good(entry):
            entry.version = self._version
            if len(self._frames) > 1:
                self._frames[-1].reads.update(entry.reads)
                self._frames[-1].summaries.update(entry.summaries)
            kept: _T = entry.value
            return kept
        if key in self._running:
            return default
        frame = _Frame()
        self._frames.append(frame)
        self._running.add(key)
        try:
            value = compute()
        finally:
            self._running.discard(key)
            self._frames.pop()
        self._entries[key] = _Entry(value, frame.reads, frame.summaries, self._version)
        self._frames[-1].reads.update(frame.reads)
        self._frames[-1].summaries.update(frame.summaries)
        return value

    def summary(self, key: Hashable, ask: Callable[[Any], _T], default: _T) -> _T:
        """Like ``get``, for a short answer for which many ask: they are good as long as it is the same, whatever it was
        made of. ``ask`` is given what answers questions now (``asked``), which may be a later version, and must not
        come to ask for the same summary. Keys are few: they are kept."""
        summary = self._summaries.get(key)
        if summary is None:
            summary = self._summaries[key] = _Summary(key, ask, default)
        value: _T = self._value_of(summary)
        self._frames[-1].summaries[summary] = value
        return value

    def _value_of(self, summary: _Summary) -> Any:
        """What a summary is in this version."""
        entry = self._entries.get(summary.key)
        if entry is not None and entry.version == self._version:
            return entry.value
        self._frames.append(_Frame())  # what it reads is nothing to who asks
        try:
            return self.get(summary.key, lambda: summary.ask(self.asked), summary.default)
        finally:
            self._frames.pop()

    def cached(self, key: Hashable, compute: Callable[[], _T], default: _T) -> _T:
        """Like ``get``, for small values asked for often: kept only while the current value is being computed."""
        cache = self._frames[-1].cache
        if key in cache:
            known: _T = cache[key]
            return known
        cache[key] = default
        value = compute()
        cache[key] = value
        return value

    def token(self, value: Hashable) -> object:
        """An object that stands for ``value`` and all that equals it, in keys whose hash is then found at once."""
        return self._tokens.setdefault(value, object())

    def table(self, name: str) -> dict[Any, Any]:
        """What ``cached`` keeps things in, for those who ask so often that the call counts: a table of one sort of
        answers by what they are about, good for as long as the current value is being computed."""
        tables = self._frames[-1].tables
        table = tables.get(name)
        if table is None:
            table = tables[name] = {}
        return table

    def _still_good(self, entry: _Entry) -> bool:
        """Whether all that the entry read gives what it gave then, be it that it has changed and changed back."""
        reads = entry.reads
        for version in range(entry.version + 1, self._version + 1):
            for answer in self._changes[version]:
                if answer in reads and answer.value != reads[answer]:
                    return False
        if not entry.summaries or entry.version == self._version:
            return True
        return all(self._value_of(summary) == value for summary, value in entry.summaries.items())
