"""Many files in several processes give what one process gives."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Torchlint
from tests.cli.programs import TYPO, TYPO_FIXED, UNSAFE_LOAD
from torchlint.cli import pool
from torchlint.linter import Analysis, Linter
from torchlint.text import Document

forks = pytest.mark.skipif(
    multiprocessing.get_start_method() != "fork", reason="a patched linter reaches other processes only by fork"
)


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_WORTH_PROCESSES", 1)
    for number in range(23):
        Path(f"m{number:02}.py").write_text("\n" * number + UNSAFE_LOAD)
    Path("m05.py").write_bytes(b"\xff")
    Path("m07.py").write_text("import torch\nx = (\n")


@pytest.mark.parametrize("output_format", ["full", "concise", "json"])
def test_the_number_of_processes_does_not_show(torchlint: Torchlint, output_format: str) -> None:
    one = torchlint("check", "--jobs", "1", "--output-format", output_format)
    three = torchlint("check", "--jobs", "3", "--output-format", output_format)
    assert one.out.count("unsafe-load") >= 21
    assert one == three
    assert one.status == 2


def test_fixes_are_written_by_all_processes(torchlint: Torchlint) -> None:
    for path in Path().glob("m*.py"):
        path.write_text(TYPO)
    result = torchlint("check", "--fix", "--jobs", "3")
    assert result.status == 0
    assert result.out.startswith("Fixed 23 findings:\n  23 x TL107 requires-grad-typo\n")
    assert {path.read_text() for path in Path().glob("m*.py")} == {TYPO_FIXED}


@forks
def test_a_process_that_dies_costs_the_file_that_killed_it(
    torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyze = Linter.analyze

    def deadly(self: Linter, document: Document, *args: object, **kwargs: object) -> Analysis:
        if document.filename in {"m10.py", "m11.py"}:
            os._exit(1)
        return analyze(self, document, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Linter, "analyze", deadly)
    result = torchlint("check", "--jobs", "2", "--output-format", "json")
    assert result.status == 2
    assert "m10.py: the process that linted this file died\n" in result.err
    assert "m11.py: the process that linted this file died\n" in result.err
    names = [Path(finding["filename"]).name for finding in json.loads(result.out)]
    lost = {"m05.py", "m07.py", "m10.py", "m11.py"}
    assert names == [name for name in (f"m{number:02}.py" for number in range(23)) if name not in lost]


def test_few_bytes_are_not_worth_a_process(torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pool(*args: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(pool, "_executor", no_pool)
    monkeypatch.setattr(pool, "_WORTH_PROCESSES", 300_000)
    assert "TL901" in torchlint("check", "--jobs", "3").out


def test_by_default_one_process_a_processor() -> None:
    assert 1 <= pool.default_jobs() <= (os.cpu_count() or 1)
