"""Edits of an editor's document, in every encoding and with every line end, against edits done the slow way."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from torchlint.lsp.documents import Buffer, File
from torchlint.lsp.moved import Difference
from torchlint.text import Encoding

#: Line ends of the protocol, characters that only look like line ends, one to four UTF-8 bytes, one and two UTF-16
#: units.
ALPHABET = ["a", "\n", "\r\n", "\r", "\f", "\v", "\x85", "\u2028", "é", "漢", "😀"]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=20).map("".join)
ENCODINGS = st.sampled_from(list(Encoding))


def units(text: str, encoding: Encoding) -> int:
    """The length of a text, as a client counts it."""
    sizes = {Encoding.UTF8: ("utf-8", 1), Encoding.UTF16: ("utf-16-le", 2), Encoding.UTF32: ("utf-32-le", 4)}
    codec, size = sizes[encoding]
    return len(text.encode(codec)) // size


def position(text: str, offset: int, encoding: Encoding) -> types.Position:
    """The position of an offset, straight from the words of the protocol."""
    lines = re.split(r"\r\n|\r|\n", text[:offset])
    return types.Position(len(lines) - 1, units(lines[-1], encoding))


def splits_line_end(text: str, offset: int) -> bool:
    """Whether an offset is between CR and LF, where no position of the protocol can be."""
    return text[offset - 1 : offset + 1] == "\r\n"


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, str, list[types.TextDocumentContentChangeEvent], Encoding]:
    """A text, what it becomes, and the changes that a client sends for that."""
    text = before = draw(TEXTS)
    encoding = draw(ENCODINGS)
    changes: list[types.TextDocumentContentChangeEvent] = []
    for _ in range(draw(st.integers(1, 4))):
        places = [offset for offset in range(len(text) + 1) if not splits_line_end(text, offset)]
        start, end = sorted((draw(st.sampled_from(places)), draw(st.sampled_from(places))))
        new = draw(TEXTS)
        place = types.Range(position(text, start, encoding), position(text, end, encoding))
        changes.append(types.TextDocumentContentChangePartial(text=new, range=place))
        text = text[:start] + new + text[end:]
    return before, text, changes, encoding


def buffer_of(text: str) -> Buffer:
    return Buffer(types.TextDocumentItem("file:///net.py", "python", 1, text))


@given(edits())
def test_changes_lead_to_the_text_that_the_client_has(
    case: tuple[str, str, list[types.TextDocumentContentChangeEvent], Encoding],
) -> None:
    before, after, changes, encoding = case
    buffer = buffer_of(before)
    buffer.apply(changes, 2, encoding)
    assert buffer.text == after
    assert buffer.version == 2


@given(TEXTS, TEXTS, ENCODINGS)
def test_a_whole_new_text_and_then_an_insertion(before: str, after: str, encoding: Encoding) -> None:
    buffer = buffer_of(before)
    end = position(after, len(after), encoding)
    insertion = types.TextDocumentContentChangePartial(text="x", range=types.Range(end, end))
    buffer.apply([types.TextDocumentContentChangeWholeDocument(text=after), insertion], 2, encoding)
    assert buffer.text == after + "x"


@given(edits())
def test_ranges_of_a_snapshot_are_positions_of_the_client(
    case: tuple[str, str, list[types.TextDocumentContentChangeEvent], Encoding],
) -> None:
    _, text, _, encoding = case
    snapshot = File(buffer_of(text), "net.py").snapshot(encoding)
    for offset in range(len(text) + 1):
        if not splits_line_end(text, offset):
            _, place = snapshot.offset_range(offset, offset)
            assert place.start == position(text, offset, encoding)
            assert snapshot.offset(snapshot.parts[0], place.start) == offset


def test_a_position_far_behind_the_end_is_the_end() -> None:
    buffer = buffer_of("x = 1")
    far = types.Position(100_000, 100_000)
    buffer.apply([types.TextDocumentContentChangePartial(text="!", range=types.Range(far, far))], 2, Encoding.UTF16)
    assert buffer.text == "x = 1!"


def test_a_byte_order_mark_moves_nothing() -> None:
    snapshot = File(buffer_of("\ufeffé = 1\n"), "net.py").snapshot(Encoding.UTF8)
    _, place = snapshot.range(0, 2, 0, 3)
    assert (place.start.character, place.end.character) == (5, 6)
    assert "\ufeff" not in snapshot.document.text


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_places_beside_an_edit_are_found_again(left: str, old: str, new: str, right: str) -> None:
    before, after = left + old + right, left + new + right
    difference = Difference(before, after)
    assert difference.moved(0, len(left)) == (0, len(left))
    start, end = difference.moved(len(before) - len(right), len(before)) or (0, 0)
    assert after[start:end] == right


def test_a_place_whose_text_changed_is_gone() -> None:
    difference = Difference("model.eval(x)", "model.evil(x)")
    assert difference.moved(6, 10) is None
    assert difference.moved(0, 5) == (0, 5)
    assert difference.moved(10, 13) == (10, 13)
