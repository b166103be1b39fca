"""A half-typed line in each of 200 real files: the findings elsewhere stay as they are."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.corpus.linting import LinterCrash, analyze
from tests.corpus.packages import PACKAGES, Package
from tests.harness.half_typed import difference, expected_findings, half_typed, statement_rows
from torchlint.text import Document

FILES = 200
#: Candidates that are looked at together.
BATCH = 128


def check(packages: Iterable[Package], files: int = FILES) -> bool:
    """Type each kind of unfinished line into that many files, those with findings first; whether nothing changed."""
    packages = tuple(packages)
    candidates = [path for package in packages for path in package.files()]
    random.Random(2).shuffle(candidates)
    tried, with_findings, changed = 0, 0, []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        chosen = _choose(candidates, pool, files)
        for path, (findings, differences) in zip(chosen, pool.map(_try, chosen, chunksize=4), strict=True):
            tried += 1
            with_findings += findings > 0
            changed += [f"{path}: {text}" for text in differences]
    print("\n".join(changed))
    print(f"half-typed lines: {tried} files, {with_findings} of them with findings; {len(changed)} changes elsewhere")
    return not changed and (tried == files or packages != PACKAGES)


def _choose(candidates: list[Path], pool: ProcessPoolExecutor, files: int) -> list[Path]:
    """The first files where a line can be typed: three quarters of them with findings, as far as there are such."""
    rich: list[Path] = []
    poor: list[Path] = []
    wanted_rich = files * 3 // 4
    for start in range(0, len(candidates), BATCH):
        batch = candidates[start : start + BATCH]
        for path, count in zip(batch, pool.map(_finding_count, batch, chunksize=8), strict=True):
            if count >= 0:
                (rich if count else poor).append(path)
        if len(rich) >= wanted_rich and len(poor) >= files - wanted_rich:
            break
    return [*rich[:wanted_rich], *poor, *rich[wanted_rich:]][:files]


def _finding_count(path: Path) -> int:
    """How many findings a file has; -1 when no line can be typed in it."""
    text = path.read_text(encoding="utf-8")
    try:
        if "torch" not in text or not statement_rows(text):
            return -1
    except SyntaxError:
        return -1
    return len(analyze(Document(text, str(path))).findings)


def _try(path: Path) -> tuple[int, list[str]]:
    text = path.read_text(encoding="utf-8")
    before = analyze(Document(text, path.name)).findings
    changed = []
    for typed in half_typed(text, seed=path.name):
        _assert_broken(typed.text)
        try:
            after = analyze(Document(typed.text, path.name)).findings
        except LinterCrash as crash:
            changed.append(f"row {typed.row}, {typed.kind}: {crash}")
            continue
        expected = expected_findings(before, typed.row)
        changed += [f"row {typed.row}, {typed.kind}: {text}" for text in difference(expected, after, typed.row)]
    return len(before), changed


def _assert_broken(text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError:
        return
    raise AssertionError("the half-typed line parses, so the test would test nothing")
