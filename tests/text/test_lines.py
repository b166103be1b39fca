"""Rows and columns agree with Python's `ast` and with the Language Server Protocol, whatever the text."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.text import Encoding, LineIndex

#: Every terminator, what only `str.splitlines` takes for one, and characters of 1, 2, 3 and 4 UTF-8 bytes.
_PIECES = [
    "a",
    "b c",
    "\n",
    "\r",
    "\r\n",
    "\f",
    "\v",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "é",
    "漢",
    "🔥",
    "e\u0301",
    "\t",
]
texts = st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=20).map("".join)


@given(texts, st.sampled_from(list(Encoding)))
def test_every_offset_comes_back_in_every_encoding(text: str, encoding: Encoding) -> None:
    lines = LineIndex(text)
    for offset in range(len(text) + 1):
        inside_crlf = text[offset - 1 : offset + 1] == "\r\n" and offset > 0
        expected = offset - 1 if inside_crlf else offset
        assert lines.offset(*lines.position(offset, encoding), encoding) == expected


@given(texts)
def test_rows_are_what_remains_between_the_three_terminators(text: str) -> None:
    lines = LineIndex(text)
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [lines.line(row) for row in range(lines.row_count)] == rows


@given(texts)
def test_columns_count_the_units_of_their_encoding(text: str) -> None:
    lines = LineIndex(text)
    for row in range(lines.row_count):
        line = lines.line(row)
        end = lines.line_end(row)
        assert lines.position(end, Encoding.CHARACTERS) == (row, len(line))
        assert lines.position(end, Encoding.UTF8) == (row, len(line.encode("utf-8", "surrogatepass")))
        assert lines.position(end, Encoding.UTF16) == (row, sum(2 if c > "\uffff" else 1 for c in line))


@given(texts, st.integers(-3, 30), st.integers(-3, 60), st.sampled_from(list(Encoding)))
def test_a_position_outside_the_text_is_clamped(text: str, row: int, column: int, encoding: Encoding) -> None:
    lines = LineIndex(text)
    offset = lines.offset(row, column, encoding)
    assert 0 <= offset <= len(text)
    clamped = min(max(row, 0), lines.row_count - 1)
    assert lines.position(offset)[0] == clamped


def test_a_column_inside_a_character_is_that_characters_start() -> None:
    lines = LineIndex("a🔥b")
    assert [lines.offset(0, column, Encoding.UTF8) for column in range(7)] == [0, 1, 1, 1, 1, 2, 3]
    assert [lines.offset(0, column, Encoding.UTF16) for column in range(5)] == [0, 1, 1, 2, 3]


def test_lone_surrogates_of_a_json_message_do_not_stop_anything() -> None:
    lines = LineIndex("x = '\ud83d' # 🔥 y")
    for encoding in Encoding:
        end = lines.position(12, encoding)
        assert lines.offset(*end, encoding) == 12


_STATEMENTS = [
    "x = '🔥' + y",
    "f(é, '漢')",
    "\fa = b",
    "s = 'a\x85b\u2028c\vd'",
    "# é comment",
    "",
    "  ",
    "if x: (y, 'é', z)",
]


@given(
    st.lists(st.tuples(st.sampled_from(_STATEMENTS), st.sampled_from(["\n", "\r\n", "\r"])), min_size=1, max_size=12),
    st.booleans(),
)
def test_offsets_of_ast_nodes_cut_out_their_source(rows: list[tuple[str, str]], ends_with_newline: bool) -> None:
    text = "".join(row + newline for row, newline in rows)
    if not ends_with_newline:
        text = text.rstrip("\r\n")
    lines = LineIndex(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.expr):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = lines.offset_of_ast(node.lineno, node.col_offset)
            end = lines.offset_of_ast(node.end_lineno, node.end_col_offset)
            assert ast.dump(ast.parse(f"({text[start:end]})", mode="eval").body) == ast.dump(node).replace(
                "ctx=Store()", "ctx=Load()"
            )
            assert lines.ast_of_offset(start) == (node.lineno, node.col_offset)


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("a", 1), ("a\n", 2), ("a\r\nb", 2), ("\r\r\n\n", 4), ("a\f\vb\u2028", 1)]
)
def test_row_count(text: str, count: int) -> None:
    assert LineIndex(text).row_count == count
