"""Suppression comments: which findings they silence, and where one is put."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

import pytest

from torchlint.finding import Finding, Severity
from torchlint.settings import Suppressions, suppression_at, suppression_edit, suppression_edit_at
from torchlint.text import Document, document_from_cells


def finding(row: int, end_row: int | None = None, code: str = "TL201", name: str = "missing-zero-grad") -> Finding:
    return Finding(code, name, Severity.ERROR, "message", row, 1, end_row or row, 5)


def suppressed(text: str, row: int = 1, end_row: int | None = None, *, respect_noqa: bool = False) -> bool:
    return Suppressions.from_document(Document(text), respect_noqa=respect_noqa).suppresses(finding(row, end_row))


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore",
        "#torchlint:ignore",
        "# torchlint: ignore[TL201]",
        "# torchlint: ignore[missing-zero-grad]",
        "# torchlint: ignore[TL999, TL201]",
        "# torchlint: ignore[TL2]",
        "# torchlint: ignore[tl201] because the example wants it",
        "# torchlint: ignore [TL201]",
        "# torchlint: ignore[TL201",
        "# type: ignore  # torchlint: ignore[TL201]",
        "# noqa: TL201",
        "# NOQA:TL201",
        "# noqa: E501, TL201",
        "# noqa: E501 TL201",
        "# see below # noqa: TL201",
    ],
)
def test_a_comment_silences_the_finding_of_its_row(comment: str) -> None:
    assert suppressed(f"step()  {comment}")
    assert not suppressed(f"step()\nother()  {comment}\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore[TL202]",
        "# torchlint: ignore[]",
        "# torchlint: ignored",
        "# torchlint: ignore-files",
        "# torchlint ignore",
        "# noqa: E501",
        "# noqa: TL202",
        "# noqa",
        "# noqa-TL201",
        "# type: ignore",
        "'# torchlint: ignore'",
        "f'{x}# noqa: TL201'",
        # Not on a row of its own.
        "# torchlint: ignore-file",
    ],
)
def test_other_comments_silence_nothing(comment: str) -> None:
    assert not suppressed(f"step()  {comment}")


def test_a_plain_noqa_counts_where_it_is_respected() -> None:
    assert suppressed("step()  # noqa", respect_noqa=True)
    assert not suppressed("step()  # noqa: E501", respect_noqa=True)


@pytest.mark.parametrize(
    "comment", ["# torchlint: ignore-file", "# torchlint: ignore-file[TL2]", "#! x # torchlint: ignore-file"]
)
def test_a_comment_on_a_row_of_its_own_silences_the_whole_file(comment: str) -> None:
    assert suppressed(f'"""Docstring."""\nstep()\n    {comment}\n', 2)
    assert not suppressed(f'"""\n{comment}\n"""\nstep()\n', 4)


def test_comments_of_a_statement_of_several_rows() -> None:
    text = "x = f(\n  a,  # torchlint: ignore[TL201]\n  b,\n)  # torchlint: ignore[TL202]\ny\n"
    found = Suppressions.from_document(Document(text))
    assert [found.suppresses(finding(row)) for row in range(1, 6)] == [False, True, False, False, False]
    assert found.suppresses(finding(1, 2))
    assert not found.suppresses(finding(1, 4))
    at_the_end = [found.suppresses(finding(row, code="TL202", name="x")) for row in range(1, 6)]
    assert at_the_end == [True, True, True, True, False]


def test_a_comment_after_a_string_of_several_rows_counts_for_all_of_them() -> None:
    text = 'f("""a\nb\n""",  # noqa: TL201\n  c)\n'
    assert [suppressed(text, row) for row in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_comment_after_a_backslash_row_counts_for_the_statement() -> None:
    text = "x = a \\\n  + b  # torchlint: ignore\ny\n"
    assert [suppressed(text, row) for row in (1, 2, 3)] == [True, True, False]


def test_an_unfinished_statement_does_not_spread_a_comment() -> None:
    assert not suppressed("x = f(\ndef g():\n    step()  # torchlint: ignore\n", 1)


def test_a_comment_in_the_middle_of_a_notebook_statement_stays_in_its_cell() -> None:
    document = document_from_cells(enumerate(["f(", "x  # torchlint: ignore"], 1), "a.ipynb")
    found = Suppressions.from_document(document)
    assert not found.suppresses(finding(1))
    assert found.suppresses(finding(2))


def edited(text: str, row: int, *codes: str) -> str:
    document = Document(text)
    fix = suppression_edit_at(document, row, codes or ("TL201",))
    return document.with_edits(fix.edits).text


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("step()\n", 1, "step()  # torchlint: ignore[TL201]\n"),
        ("step()", 1, "step()  # torchlint: ignore[TL201]"),
        ("step()  \t\r\nx\r\n", 1, "step()  # torchlint: ignore[TL201]\r\nx\r\n"),
        ("step()  # type: ignore\n", 1, "step()  # type: ignore  # torchlint: ignore[TL201]\n"),
        ("step()  # noqa: E501\n", 1, "step()  # noqa: E501  # torchlint: ignore[TL201]\n"),
        ("f(\n  a,\n)\n", 1, "f(\n  a,\n)  # torchlint: ignore[TL201]\n"),
        ("f(\n  a,  # first\n)\n", 2, "f(\n  a,  # first\n)  # torchlint: ignore[TL201]\n"),
        ("x = a \\\n  + b\n", 1, "x = a \\\n  + b  # torchlint: ignore[TL201]\n"),
        ('f("""\n  a\n""", b)\n', 1, 'f("""\n  a\n""", b)  # torchlint: ignore[TL201]\n'),
        ('"""\na\n"""\n', 2, '"""\na\n"""  # torchlint: ignore[TL201]\n'),
        ("if x: step()\n", 1, "if x: step()  # torchlint: ignore[TL201]\n"),
        ("x  # torchlint: ignore[TL202]\n", 1, "x  # torchlint: ignore[TL202, TL201]\n"),
        ("x  # torchlint: ignore[TL202 ] why\n", 1, "x  # torchlint: ignore[TL202, TL201 ] why\n"),
        ("x  # torchlint: ignore[]\n", 1, "x  # torchlint: ignore[TL201]\n"),
        ("x  # torchlint: ignore[TL202\n", 1, "x  # torchlint: ignore[TL202, TL201]\n"),
        ("f(\n  a,  # torchlint: ignore[TL202]\n)\n", 2, "f(\n  a,  # torchlint: ignore[TL202, TL201]\n)\n"),
        (
            "f(\n  a,  # torchlint: ignore[TL202]\n)\n",
            1,
            "f(\n  a,  # torchlint: ignore[TL202]\n)  # torchlint: ignore[TL201]\n",
        ),
        ("é = '🔥 # '\n", 1, "é = '🔥 # '  # torchlint: ignore[TL201]\n"),
    ],
)
def test_a_comment_is_put_behind_the_last_token(text: str, row: int, expected: str) -> None:
    after = edited(text, row)
    assert after == expected
    assert Suppressions.from_document(Document(after)).suppresses(finding(row))
    if "\\" not in text:
        assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("x  # torchlint: ignore\n", 1),
        ("x  # torchlint: ignore[TL201]\n", 1),
        ("x  # torchlint: ignore[tl201]\n", 1),
        ("x = 1 \\", 1),
        ('x = """ never closed\n', 1),
    ],
)
def test_nothing_is_edited_where_all_is_said_or_no_comment_can_be(text: str, row: int) -> None:
    assert edited(text, row) == text


def test_several_codes_at_once() -> None:
    assert edited("x\n", 1, "TL201", "TL202") == "x  # torchlint: ignore[TL201, TL202]\n"
    assert edited("x  # torchlint: ignore[TL202]\n", 1, "TL201", "TL202") == "x  # torchlint: ignore[TL202, TL201]\n"


def test_the_fix_for_a_finding_has_a_title() -> None:
    fix = suppression_edit(Document("a\nb\n"), finding(2))
    assert (fix.title, fix.applicability) == ("Suppress TL201 on this line", "safe")
    assert [(edit.start, edit.end) for edit in fix.edits] == [(3, 3)]


def test_in_a_notebook_the_comment_stays_in_its_cell() -> None:
    document = document_from_cells(enumerate(["f(", "x"], 1), "a.ipynb")
    changed = document.with_edits(suppression_edit(document, finding(2)).edits)
    assert [changed.cell_text(cell) for cell in changed.cells] == ["f(", "x  # torchlint: ignore[TL201]"]


def test_what_a_comment_says_at_a_position() -> None:
    text = "a\nb  # torchlint: ignore[TL201, missing-zero-grad]  # noqa: E501, TL202\n'# torchlint: ignore'\n"
    document = Document(text)

    def at(word: str) -> tuple[str | None, str, str] | None:
        row, column = document.lines.position(text.index(word))
        found = suppression_at(document, row, column + 1)
        if found is None:
            return None
        selector, directive = found
        shown = "" if selector is None else text[selector.start : selector.end]
        return (selector.selector if selector else None), shown, directive.kind

    assert at("TL201") == ("TL201", "TL201", "ignore")
    assert at("missing") == ("missing-zero-grad", "missing-zero-grad", "ignore")
    assert at("torchlint") == (None, "", "ignore")
    assert at("TL202") == ("TL202", "TL202", "noqa")
    assert at("E501") == (None, "", "noqa")
    assert at("a\n") is None
    assert suppression_at(document, 2, 8) is None


@pytest.mark.parametrize("name", ["argparse.py", "typing.py", "test/test_fstring.py", "test/test_grammar.py"])
def test_a_comment_can_be_put_on_every_row_of_real_files(name: str) -> None:
    path = Path(tokenize.__file__).parent / name
    if not path.exists():
        pytest.skip("this Python has no tests of its own")
    with tokenize.open(path) as file:
        document = Document(file.read())
    rows = range(1, document.lines.row_count + 1)
    edits = {edit for row in rows for edit in suppression_edit_at(document, row, ("TL201",)).edits}
    after = document.with_edits(edits)
    assert ast.dump(ast.parse(after.text)) == ast.dump(ast.parse(document.text))
    found = Suppressions.from_document(after)
    assert all(found.suppresses(finding(row)) for row in rows)
