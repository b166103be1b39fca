"""The cases of a Markdown rule test: code to lint, what is expected, the settings, and the text after the fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.harness.markdown import AnnotatedCode, Block, MarkdownTestError, Section, read_annotations

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class FixedText:
    """The text (of each cell) after the fix. ``unsafe``: unsafe fixes are applied too.

    ``title``: only fixes whose title holds it are applied (a rule may offer several).
    """

    cells: tuple[str, ...]
    unsafe: bool
    title: str | None


@dataclass(frozen=True)
class Case:
    """One program to lint. It has one cell, or several when it is a notebook.

    ``row`` is the row of its first line in the Markdown file, from 1; ``cell_rows`` those of every cell.
    """

    id: str
    row: int
    filename: str
    notebook: bool
    cells: tuple[AnnotatedCode, ...]
    cell_rows: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[FixedText, ...] = ()
    minimum_python: tuple[int, ...] = (3, 10)

    @property
    def text(self) -> str:
        """The program as it is linted, without expectation comments."""
        return "\n".join(cell.text.rstrip("\n") for cell in self.cells) + "\n" if self.notebook else self.cells[0].text

    @property
    def expects_findings(self) -> bool:
        return any(cell.expectations for cell in self.cells)


_WORDS = frozenset({"notebook", "fixed", "unsafe", "ignore"})
_OPTIONS = frozenset({"title", "fix", "python"})


def read_cases(sections: Sequence[Section]) -> list[Case]:
    """The cases of a file, in order. Settings hold for the rest of their section and for the sections below it."""
    cases: list[Case] = []
    settings: dict[tuple[str, ...], dict[str, Any]] = {}
    for section in sections:
        settings.pop(section.path, None)
        programs = list(_programs(section, settings))
        for number, program in enumerate(programs, start=1):
            name = section.title if number == 1 else f"{section.title} ({number})"
            cases.append(_case(name, program))
    return cases


@dataclass
class _Program:
    cells: list[Block]
    settings: dict[str, Any]
    fixed: list[list[Block]] = field(default_factory=list)


def _programs(section: Section, settings: dict[tuple[str, ...], dict[str, Any]]) -> Iterator[_Program]:
    program: _Program | None = None
    for block in section.blocks:
        if block.language == "toml":
            settings[section.path] = _toml(block)
            continue
        if block.language != "python" or "ignore" in block.words:
            continue
        _check_info(block)
        if "fixed" in block.words:
            _add_fixed(program, block)
        elif program is not None and _continues(program, block):
            program.cells.append(block)
        else:
            if program is not None:
                yield program
            program = _Program([block], _settings_of(section.path, settings))
    if program is not None:
        yield program


def _check_info(block: Block) -> None:
    unknown = sorted((block.words - _WORDS) | (block.options.keys() - _OPTIONS))
    if unknown:
        raise MarkdownTestError(f"row {block.row - 1}: unknown words in the info string: {', '.join(unknown)}")


def _continues(program: _Program, block: Block) -> bool:
    """Whether a block is the next cell of the notebook that came before it."""
    last = program.cells[-1]
    same_file = block.options.get("title") == last.options.get("title")
    return "notebook" in block.words and "notebook" in last.words and not program.fixed and same_file


def _add_fixed(program: _Program | None, block: Block) -> None:
    if program is None:
        raise MarkdownTestError(f"row {block.row - 1}: a fixed block follows the code that it fixes")
    open_group = program.fixed and len(program.fixed[-1]) < len(program.cells)
    if open_group and _fix_key(program.fixed[-1][0]) == _fix_key(block):
        program.fixed[-1].append(block)
    else:
        program.fixed.append([block])


def _fix_key(block: Block) -> tuple[bool, str | None]:
    return "unsafe" in block.words, block.options.get("fix")


def _settings_of(path: tuple[str, ...], settings: dict[tuple[str, ...], dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for depth in range(len(path) + 1):
        merged.update(settings.get(path[:depth], {}))
    return merged


def _toml(block: Block) -> dict[str, Any]:
    try:
        return tomllib.loads(block.text)
    except tomllib.TOMLDecodeError as error:
        raise MarkdownTestError(f"row {block.row}: settings block: {error}") from error


def _case(name: str, program: _Program) -> Case:
    first = program.cells[0]
    notebook = "notebook" in first.words
    for group in program.fixed:
        if len(group) != len(program.cells):
            raise MarkdownTestError(f"row {group[0].row}: a fixed notebook needs all {len(program.cells)} cells")
    return Case(
        id=name,
        row=first.row,
        filename=first.options.get("title", "example.ipynb" if notebook else "example.py"),
        notebook=notebook,
        cells=tuple(read_annotations(block.text, block.row) for block in program.cells),
        cell_rows=tuple(block.row for block in program.cells),
        settings=program.settings,
        fixed=tuple(_fixed_text(group) for group in program.fixed),
        minimum_python=_version(first.options.get("python", "3.10"), first.row),
    )


def _fixed_text(group: list[Block]) -> FixedText:
    unsafe, title = _fix_key(group[0])
    return FixedText(tuple(read_annotations(block.text, block.row).text for block in group), unsafe, title)


def _version(text: str, row: int) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split("."))
    except ValueError as error:
        raise MarkdownTestError(f"row {row - 1}: python={text!r} is no version") from error
