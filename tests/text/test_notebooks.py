"""A notebook is one program; a change of it leaves the rest of the file as it was."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.finding import TextEdit
from torchlint.text import DocumentError, decode_document, document_from_cells, encode_document

PYTHON = {"kernelspec": {"language": "python", "name": "python3"}, "language_info": {"name": "python"}}


def code(source: Any, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def notebook(
    *cells: dict[str, Any], metadata: dict[str, Any] = PYTHON, indent: int | None = 1, **options: Any
) -> bytes:
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(content, indent=indent, **{"ensure_ascii": False, **options}) + "\n").encode()


def text_of(*cells: str) -> str:
    return document_from_cells(enumerate(cells, 1), "a.ipynb").text


TWO_CELLS = notebook(
    code(["import torch\n", "x = 1"]), {"cell_type": "markdown", "metadata": {}, "source": ["# Text"]}, code("y = x\n")
)


def test_the_code_cells_are_joined_and_numbered_among_all_cells() -> None:
    document = decode_document(TWO_CELLS, "a.ipynb")
    assert document.text == "import torch\nx = 1\ny = x\n\n"
    assert [(cell.index, cell.first_row, cell.row_count) for cell in document.cells] == [(1, 0, 2), (3, 2, 2)]
    assert [document.cell_at(row) for row in (0, 1, 2, 3, 4, -1)] == [
        document.cells[0],
        document.cells[0],
        document.cells[1],
        document.cells[1],
        None,
        None,
    ]


@given(st.lists(st.text(st.sampled_from(["a", "\n", "\r", "%", "!", "?", " ", "=", "🔥", "\\", "'", "("])), max_size=5))
def test_every_cell_keeps_its_rows_and_its_text(cells: list[str]) -> None:
    document = document_from_cells(enumerate(cells, 1), "a.ipynb")
    assert [document.cell_text(cell) for cell in document.cells] == cells
    assert sum(cell.row_count for cell in document.cells) == document.lines.row_count - 1
    for cell, text in zip(document.cells, cells, strict=True):
        rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert [len(document.lines.line(cell.first_row + row)) for row in range(cell.row_count)] == list(map(len, rows))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", "#matplotlib inline\nx = 1"),
        ("!pip install torch \\\n  timm\nx", "#pip install torch \\\n  #imm\nx"),
        ("torch.nn?", "#orch.nn?"),
        ("?torch.nn", "#torch.nn"),
        ("model.fit??\nx", "#odel.fit??\nx"),
        ("if x:\n    !ls\nelse:\n    %cd x\n    y = 1", "if x:\n    0#s\nelse:\n    0#d x\n    y = 1"),
        ("files = !ls -l 'a\nx", "files = __# -l 'a\nx"),
        ("a, b['c'] = %sql select\n", "a, b['c'] = __#l select\n"),
        ("pip install torch\ncd ..\nls -la\nx", "#ip install torch\n#d ..\nls -la\nx"),
        ("%time model = Net()\nr = %time f(\n  1)", "0;    model = Net()\nr =       f(\n  1)"),
        ("%time\nx", "#time\nx"),
        ("%time for x in y: f(x)", "#time for x in y: f(x)"),
        ("%timeit -n 10 f(x)", "#timeit -n 10 f(x)"),
        ("%%time\nx = 1", "#%time\nx = 1"),
        ("\n%%capture out\nx = 1", "\n#%capture out\nx = 1"),
        ("%%bash\nls | grep '(\n  # torch\n\nfi", "#%bash\n#s | grep '(\n  # torch\n\n#i"),
        ("/f x\n,f a b\n;f a b", "#f x\n#f a b\n#f a b"),
    ],
)
def test_magics_are_masked_at_their_length(cell: str, expected: str) -> None:
    assert text_of(cell) == expected + "\n"


@pytest.mark.parametrize(
    "cell",
    [
        'x = """\n%matplotlib\n!ls\n"""',
        "x = (1\n    % 3)",
        "x = y % 3 != 2\nassert x != 1, '?'",
        "time = 3\npip = 1\ntime (x)\nrun, env = 1, 2\nenv [0]\nrun in y",
        "what = 'why?'\n# really?",
        "f(a=1, b='!ls')\nf'{x!r}?'",
        "x = 1 \\\n  % 3",
    ],
)
def test_python_that_looks_like_a_magic_is_left(cell: str) -> None:
    ast.parse(cell)
    assert text_of(cell) == cell + "\n"


def test_a_magic_with_an_open_quote_or_bracket_does_not_reach_the_next_statement() -> None:
    text = text_of("!echo \"it's (\nx = 1\n%load_ext (\ny = 2")
    assert [ast.unparse(statement) for statement in ast.parse(text).body] == ["x = 1", "y = 2"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "R", "name": "ir"}},
        {"language_info": {"name": "julia"}},
        {"kernelspec": {"name": "ir"}},
    ],
)
def test_a_notebook_of_another_language_has_no_cells(metadata: dict[str, Any]) -> None:
    document = decode_document(notebook(code("x <- 1"), metadata=metadata), "a.ipynb")
    assert (document.text, document.cells) == ("", ())


def test_a_cell_of_another_language_is_left_out() -> None:
    cells = notebook(code("SELECT 1", vscode={"languageId": "sql"}), code("x = 1", vscode={"languageId": "python"}))
    assert decode_document(cells, "a.ipynb").text == "x = 1\n"


def test_a_notebook_without_metadata_is_python() -> None:
    assert decode_document(notebook(code("x = 1"), metadata={}), "a.ipynb").text == "x = 1\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.ipynb: is not a notebook: Expecting value"),
        (b"[1]", "a.ipynb: is not a notebook: its JSON has no nbformat"),
        (
            b'{"nbformat": 3, "worksheets": []}',
            "a.ipynb: is a notebook of format 3; convert it with `jupyter nbconvert",
        ),
        (b'{"nbformat": 4}', "a.ipynb: is not a notebook: its JSON has no list of cells"),
        (
            b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}',
            "a.ipynb: is not a notebook: the source of a cell is not text",
        ),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}', "the source of a cell is not text"),
        (b"[" * 100_000, "a.ipynb: is not a notebook: "),
        (b'{"a": "\xff"}', "a.ipynb: is not valid utf-8: byte 0xff in row 1"),
    ],
)
def test_files_that_are_no_notebook(data: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        decode_document(data, "a.ipynb")
    assert message in str(error.value)


def edited(data: bytes, old: str, new: str) -> bytes:
    document = decode_document(data, "a.ipynb")
    start = document.text.index(old)
    return encode_document(document.with_edits([TextEdit(start, start + len(old), new)]))


@pytest.mark.parametrize(
    "options", [{"indent": 1}, {"indent": 2}, {"indent": None}, {"indent": None, "separators": (",", ":")}]
)
@pytest.mark.parametrize("sort_keys", [True, False])
def test_a_change_alters_only_the_source_of_its_cell(options: dict[str, Any], sort_keys: bool) -> None:
    cells = [code(["é = 1\n", "!ls\n", "x = 1"]), code("y = x\n%cd")]
    for index, (old, new) in enumerate([("x = 1", "x = 2\nz = 'ü\"'"), ("y = x", "y = 3")]):
        before = notebook(*cells, sort_keys=sort_keys, **options)
        changed = json.loads(json.dumps(cells))
        source = "".join(changed[index]["source"]).replace(old, new)
        changed[index]["source"] = source.splitlines(keepends=True) if index == 0 else source
        assert edited(before, old, new) == notebook(*changed, sort_keys=sort_keys, **options)


def test_an_unchanged_notebook_is_written_byte_for_byte() -> None:
    odd = b'\xef\xbb\xbf {"nbformat":4,\r\n"cells" : [ {"source":["a\\u0020= 1" ] ,"cell_type":"code"}], "x": 1.50}'
    assert encode_document(decode_document(odd, "a.ipynb")) == odd


def test_letters_stay_escaped_in_a_file_that_escapes_them() -> None:
    before = notebook(code(["é = 1"]), ensure_ascii=True)
    assert edited(before, "= 1", "= 'ü'") == notebook(code(["é = 'ü'"]), ensure_ascii=True)
    coloured = notebook(code(["x = 1"]), {"cell_type": "markdown", "metadata": {}, "source": "\x1b[0m"})
    assert b"\xc3\xbc" in edited(coloured, "= 1", "= 'ü'")


def test_windows_line_ends_of_the_json_stay() -> None:
    before = notebook(code(["x = 1\n", "y"])).replace(b"\n", b"\r\n")
    after = notebook(code(["x = 2\n", "y"])).replace(b"\n", b"\r\n")
    assert edited(before, "x = 1", "x = 2") == after


def test_a_cell_can_be_emptied_and_filled() -> None:
    assert edited(notebook(code(["x = 1"])), "x = 1", "") == notebook(code([]))
    document = decode_document(notebook(code([])), "a.ipynb")
    filled = encode_document(document.with_edits([TextEdit(0, 0, "a\nb")]))
    assert filled == notebook(code(["a\n", "b"]))


def test_edits_move_cells_and_keep_magics() -> None:
    document = document_from_cells(enumerate(["!ls\nx = 1", "%cd a\ny = 1", "z"], 1), "a.ipynb")
    x, y = document.text.index("x"), document.text.index("y")
    changed = document.with_edits([TextEdit(y, y, "a\nb\n"), TextEdit(x, x + 1, "longer")])
    assert changed.text == "#ls\nlonger = 1\n#cd a\na\nb\ny = 1\nz\n"
    assert [changed.cell_text(cell) for cell in changed.cells] == ["!ls\nlonger = 1", "%cd a\na\nb\ny = 1", "z"]


def test_an_edit_over_a_magic_replaces_it() -> None:
    document = document_from_cells([(1, "!ls\nx = 1")], "a.ipynb")
    changed = document.with_edits([TextEdit(0, 4, "")])
    assert [changed.cell_text(cell) for cell in changed.cells] == ["x = 1"]


def test_edits_that_cannot_be_applied_are_refused() -> None:
    document = document_from_cells(enumerate(["x", "y"], 1), "a.ipynb")
    with pytest.raises(ValueError, match="crosses the end of notebook cell 1"):
        document.with_edits([TextEdit(0, 2, "")])
    with pytest.raises(ValueError, match="overlaps another"):
        document.with_edits([TextEdit(0, 1, "a"), TextEdit(0, 1, "b")])
    with pytest.raises(ValueError, match="lies outside the text"):
        document.with_edits([TextEdit(3, 9, "a")])


def test_lone_surrogates_in_the_json_survive() -> None:
    before = rb'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = \"\ud83d\"\ny"}]}'
    after = rb'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = \"\ud83d\"\nz"}]}'
    assert edited(before, "y", "z") == after
