"""Files of every encoding are read, and written back byte for byte; what cannot be read says why."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.text import Document, DocumentError, decode_document, encode_document, read_document

if TYPE_CHECKING:
    from pathlib import Path


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.booleans())
def test_utf8_round_trip(text: str, bom: bool) -> None:
    data = (codecs.BOM_UTF8 if bom else b"") + text.removeprefix("\ufeff").encode()
    if "coding" not in text:
        assert encode_document(decode_document(data, "a.py")) == data


@pytest.mark.parametrize(
    ("cookie", "encoding"),
    [
        ("# -*- coding: latin-1 -*-", "latin-1"),
        ("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :", "cp1252"),
        ("# coding=iso-8859-15", "iso-8859-15"),
        ("\f# coding: utf-8", "utf-8"),
        ("#!python\r# coding: latin-1\r", "latin-1"),
        ("#!python\r\n# coding: koi8-r\r\n", "koi8-r"),
    ],
)
def test_an_encoding_comment_in_the_first_two_rows_counts(cookie: str, encoding: str) -> None:
    letter = "ж" if encoding == "koi8-r" else "é"
    text = f"{cookie}\nx = '{letter}'\n"
    data = text.encode(encoding)
    document = decode_document(data, "a.py")
    assert document.text == text
    assert encode_document(document) == data


def test_an_encoding_comment_in_the_third_row_or_after_code_does_not_count() -> None:
    assert decode_document("#\n#\n# coding: latin-1\n'é'".encode(), "a.py").encoding == "utf-8"
    assert decode_document("x = 1\n# coding: latin-1\n'é'".encode(), "a.py").encoding == "utf-8"


def test_the_text_keeps_its_own_terminators_and_loses_the_byte_order_mark() -> None:
    document = decode_document(codecs.BOM_UTF8 + b"a\r\nb\rc\nd", "a.py")
    assert document.text == "a\r\nb\rc\nd"
    assert document.bom
    assert document.newline == "\r\n"
    assert decode_document(b"a\rb", "a.py").newline == "\r"
    assert decode_document(b"a", "a.py").newline == "\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\n\ny = '\xff'\n", "a.py: is not valid utf-8: byte 0xff in row 3"),
        (b"# coding: klingon\n", "a.py: unknown encoding: klingon"),
        (b"# coding: rot13\n", "a.py: declares encoding rot13, in which the declaration"),
        (b"# coding: utf-16\n", "a.py: declares encoding utf-16, in which the declaration"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "has a UTF-8 byte order mark but declares encoding iso-8859-1"),
        (b"\x7fELF\0\0", "a.py: is a binary file (it holds NUL bytes)"),
        ("x = 1".encode("utf-16"), "a.py: is encoded in UTF-16, which Python does not read; save it as UTF-8"),
        (b"#" * (10 * 1024 * 1024 + 1), "a.py: is too large (10.0 MB; the limit is 10 MB)"),
    ],
)
def test_bytes_that_are_no_python_text(data: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=r"^a\.py: ") as error:
        decode_document(data, "a.py")
    assert message in str(error.value)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="is a directory, not a file"):
        read_document(tmp_path)
    with pytest.raises(DocumentError, match="no such file"):
        read_document(tmp_path / "missing.py")
    with pytest.raises(DocumentError, match="cannot be read"):
        read_document(tmp_path / ("n" * 5000 + ".py"))


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\r\n")
    assert read_document(path) == Document("x = 1\r\n", str(path), newline="\r\n")


def test_a_character_that_the_encoding_has_not_is_not_written() -> None:
    document = Document("# coding: latin-1\nx = '漢'\n", "a.py", encoding="iso-8859-1")
    with pytest.raises(DocumentError, match=r"encoding iso-8859-1 has no character '\\u6f22' \(U\+6F22\)"):
        encode_document(document)


def test_a_file_whose_encoding_writes_one_text_in_several_ways_is_read_but_never_written() -> None:
    data = b"# coding: utf-7\nx = '+AGEAYg-'\n"
    document = decode_document(data, "a.py")
    assert document.text == "# coding: utf-7\nx = 'ab'\n"
    with pytest.raises(DocumentError, match="cannot be written back exactly in encoding utf-7"):
        encode_document(document)
