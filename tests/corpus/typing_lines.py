"""A half-typed line in each of 200 real files: the findings elsewhere stay as they are."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from torchlint.linter import Linter

from tests.corpus.linting import EVERYTHING
from tests.corpus.packages import Package
from tests.harness.half_typed import difference, expected_findings, half_typed, statement_rows
from torchlint.text import Document

FILES = 200


def check(packages: Iterable[Package], files: int = FILES) -> bool:
    """Type each kind of unfinished line into that many files, those with findings first; whether nothing changed."""
    candidates = [path for package in packages for path in package.files()]
    random.Random(2).shuffle(candidates)
    tried, with_findings, changed = 0, 0, []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        chosen = _choose(candidates, list(pool.map(_finding_count, candidates, chunksize=16)), files)
        for path, (findings, differences) in zip(chosen, pool.map(_try, chosen, chunksize=4), strict=True):
            tried += 1
            with_findings += findings > 0
            changed += [f"{path}: {text}" for text in differences]
    print("\n".join(changed))
    print(f"half-typed lines: {tried} files, {with_findings} of them with findings; {len(changed)} changes elsewhere")
    return not changed and tried == files


def _choose(paths: list[Path], counts: list[int], files: int) -> list[Path]:
    """Files where a line can be typed: at most three quarters of them with findings, the rest without."""
    useful = [(path, count) for path, count in zip(paths, counts, strict=True) if count >= 0]
    rich = [path for path, count in useful if count > 0][: files * 3 // 4]
    poor = [path for path, count in useful if count == 0]
    return [*rich, *poor][:files]


def _finding_count(path: Path) -> int:
    """How many findings a file has; -1 when no line can be typed in it."""
    text = path.read_text(encoding="utf-8")
    try:
        if "torch" not in text or not statement_rows(text):
            return -1
    except SyntaxError:
        return -1
    return len(Linter().analyze(Document(text, path.name), EVERYTHING).findings)


def _try(path: Path) -> tuple[int, list[str]]:
    text = path.read_text(encoding="utf-8")
    before = Linter().analyze(Document(text, path.name), EVERYTHING).findings
    changed = []
    for typed in half_typed(text, seed=path.name):
        _assert_broken(typed.text)
        after = Linter().analyze(Document(typed.text, path.name), EVERYTHING).findings
        expected = expected_findings(before, typed.row)
        changed += [f"row {typed.row}, {typed.kind}: {text}" for text in difference(expected, after, typed.row)]
    return len(before), changed


def _assert_broken(text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError:
        return
    raise AssertionError("the half-typed line parses, so the test would test nothing")
