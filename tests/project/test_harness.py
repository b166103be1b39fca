"""The Markdown tests can fail: what the harness reads and what it complains about."""

from __future__ import annotations

import textwrap

import pytest

from tests.harness.cases import Case, read_cases
from tests.harness.markdown import MarkdownTestError, parse_sections, read_annotations


def cases(text: str) -> list[Case]:
    return read_cases(parse_sections(textwrap.dedent(text)))


def test_headings_name_the_cases() -> None:
    found = cases(
        """
        # rule

        ```python
        a
        ```

        ## Silent when

        ### it is a `Trainer`

        ```python
        b
        ```

        text

        ```python
        c
        ```

        ## Notebooks

        ```python notebook
        d
        ```

        ```python notebook
        e
        ```
        """
    )
    assert [case.id for case in found] == [
        "(top)",
        "Silent when / it is a Trainer",
        "Silent when / it is a Trainer (2)",
        "Notebooks",
    ]
    assert [len(case.cells) for case in found] == [1, 1, 1, 2]
    assert found[1].row == 13


def test_expectations_are_taken_out_of_the_code() -> None:
    code = read_annotations(
        "a = 1  # noqa\n"
        'b = 2  # keep  # error: [some-rule] `b` "say \\"it\\""  # warning: [TL201]\n'
        "    # hint: [other]\n"
        '"""  # related: "here"\n'
        '"""\n'
    )
    assert code.text == 'a = 1  # noqa\nb = 2  # keep\n"""\n"""\n'
    assert [(e.row, e.severity, e.rule, e.flagged, e.message) for e in code.expectations] == [
        (2, "error", "some-rule", "b", 'say "it"'),
        (2, "warning", "TL201", None, None),
        (3, "hint", "other", None, None),
    ]
    assert [(related.row, related.message) for related in code.related] == [(3, "here")]
    assert code.source_rows == (1, 2, 4, 5, 6)


@pytest.mark.parametrize(
    "comment", ["# error [some-rule]", "# warning: [some rule]", '# error: [some-rule] "open', "# related: [some-rule]"]
)
def test_misspelt_expectation_is_an_error(comment: str) -> None:
    with pytest.raises(MarkdownTestError, match="row 8: not a well-formed expectation"):
        read_annotations(f"a = 1\nb = 2  {comment}\n", first_row=7)


def test_settings_hold_for_their_section_and_below() -> None:
    found = cases(
        """
        # rule

        ```toml
        a = 1
        ```

        ## One

        ```toml
        b = 2
        ```

        ```python
        1
        ```

        ### Below

        ```python
        2
        ```

        ## Two

        ```python
        3
        ```
        """
    )
    assert [case.settings for case in found] == [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}]


def test_fixed_blocks_belong_to_the_program_before_them() -> None:
    (case,) = cases(
        """
        # rule

        ```python
        a  # error: [rule]
        ```

        ```python fixed
        b
        ```

        ```python fixed unsafe fix="Second"
        c
        ```
        """
    )
    assert [(fixed.cells, fixed.unsafe, fixed.title) for fixed in case.fixed] == [
        (("b\n",), False, None),
        (("c\n",), True, "Second"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python fixd\n```", "row 1: unknown words in the info string: fixd"),
        ("```python fixed\n```", "a fixed block follows the code that it fixes"),
        ("```toml\na =\n```", "row 2: settings block"),
        ('```python title="\n```', "info string"),
        (
            "```python notebook\na\n```\n```python notebook\nb\n```\n```python fixed notebook\na\n```",
            "needs all 2 cells",
        ),
    ],
)
def test_malformed_file_is_an_error(text: str, message: str) -> None:
    with pytest.raises(MarkdownTestError, match=message):
        read_cases(parse_sections(text))
