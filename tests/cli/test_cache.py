"""The cache of `torchlint check`: a second run says what the first said, and lints only what has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Torchlint
from tests.cli.programs import CHAIN, CLEAN, NO_ZERO_GRAD, TYPO, TYPO_FIXED, UNSAFE_LOAD
from tests.cli.test_command import modules_after, run_main
from torchlint.cli import cache as caching
from torchlint.cli import pool
from torchlint.linter import Analysis, Linter
from torchlint.text import Document

BROKEN = UNSAFE_LOAD + "x = (\n\nprint(torch)\n"


@pytest.fixture(autouse=True)
def _with_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHLINT_NO_CACHE")


@pytest.fixture(autouse=True)
def linted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were linted, and not taken from the cache."""
    names: list[str] = []
    analyze = Linter.analyze

    def watched(self: Linter, document: Document, *args: object, **kwargs: object) -> Analysis:
        names.append(Path(document.filename).name)
        return analyze(self, document, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Linter, "analyze", watched)
    return names


def write(path: str, text: str, *, age: float = 60) -> None:
    """Write a file that was last changed some seconds ago."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    before = file.stat().st_mtime - age
    os.utime(file, (before, before))


def project() -> None:
    write("pyproject.toml", "[tool.torchlint]\n")
    write("train.py", NO_ZERO_GRAD)
    write("src/load.py", UNSAFE_LOAD)
    write("src/broken.py", BROKEN)
    write("src/deep/clean.py", CLEAN)
    write("src/typo.py", TYPO)
    source = "import torch\nstate = torch.load('m.pt', weights_only=False)"
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [source]}]
    write("a.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def shards(folder: str = ".torchlint_cache") -> list[Path]:
    return sorted(Path(folder).glob("*/*.json"))


def kept() -> list[str]:
    """The files of which the cache knows something."""
    contents = [json.loads(shard.read_text()) for shard in shards()]
    return sorted(f"{content['folder']}/{name}" for content in contents for name in content["files"])


class TestSecondRun:
    @pytest.fixture(autouse=True)
    def _files(self) -> None:
        project()

    @pytest.mark.parametrize(
        "options",
        [
            ["--output-format", "full"],
            ["--output-format", "concise"],
            ["--output-format", "json"],
            ["--color", "always"],
            ["--statistics"],
            ["--select", "ALL"],
            ["--unsafe-fixes", "--quiet"],
            ["src", "train.py"],
            ["--isolated"],
        ],
        ids=" ".join,
    )
    def test_says_the_same_and_lints_nothing(self, torchlint: Torchlint, linted: list[str], options: list[str]) -> None:
        without = torchlint("check", "--no-cache", *options)
        first = torchlint("check", *options)
        linted.clear()
        second = torchlint("check", *options)
        assert without == first == second
        assert "broken.py:4" in second.err
        assert second.status == 1
        assert linted == []

    def test_another_format_needs_no_lint_but_where_edits_have_to_be_computed(
        self, torchlint: Torchlint, linted: list[str]
    ) -> None:
        torchlint("check")
        linted.clear()
        torchlint("check", "--output-format", "concise", "--color", "always")
        torchlint("check", "--statistics")
        assert linted == []
        torchlint("check", "--output-format", "json")
        assert "clean.py" not in linted
        assert "load.py" in linted
        linted.clear()
        torchlint("check", "--output-format", "json")
        torchlint("check")
        assert linted == []

    def test_from_another_folder(
        self, torchlint: Torchlint, linted: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torchlint("check")
        linted.clear()
        monkeypatch.chdir("src")
        assert "load.py:3:9: TL901" in torchlint("check", "--output-format", "concise").out
        assert linted == []

    def test_a_project_moves_with_its_cache(self, torchlint: Torchlint, linted: list[str]) -> None:
        Path("project").mkdir()
        for path in ("pyproject.toml", "train.py", "src", "a.ipynb"):
            Path(path).rename(f"project/{path}")
        torchlint("check", "project")
        Path("project").rename("moved")
        linted.clear()
        assert "moved/src/load.py" in torchlint("check", "moved").out
        assert linted == []

    def test_several_processes(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch, linted: list[str]) -> None:
        monkeypatch.setattr(pool, "_WORTH_PROCESSES", 1)
        first = torchlint("check", "--jobs", "3")
        linted.clear()
        assert torchlint("check", "--jobs", "3") == first
        assert linted == []

    def test_loads_neither_rules_nor_parser(self) -> None:
        arguments = ("check", "train.py", "src", "--select", "TL2,TL9")
        assert "torchlint.linter" in modules_after(run_main(*arguments))
        loaded = modules_after(run_main(*arguments))
        unwanted = ("torchlint.rules", "torchlint.linter", "torchlint.semantics", "torchlint.syntax", "torchlint.fixes")
        assert [name for name in loaded if name.startswith(unwanted)] == []


class TestWhatIsLintedAgain:
    @pytest.fixture(autouse=True)
    def _linted_before(self, torchlint: Torchlint, linted: list[str]) -> None:
        project()
        torchlint("check")
        linted.clear()

    def test_a_changed_file(self, torchlint: Torchlint, linted: list[str]) -> None:
        write("src/deep/clean.py", UNSAFE_LOAD)
        result = torchlint("check", "--output-format", "concise")
        assert str(Path("src/deep/clean.py")) + ":3:9: TL901" in result.out
        assert linted == ["clean.py"]

    def test_not_a_file_of_the_same_contents(self, torchlint: Torchlint, linted: list[str]) -> None:
        for age in (0, 60):
            write("src/load.py", UNSAFE_LOAD, age=age)
            assert "load.py" in torchlint("check").out
        assert linted == []

    def test_a_file_of_the_same_size_and_time(self, torchlint: Torchlint, linted: list[str]) -> None:
        before = Path("train.py").stat()
        Path("train.py").write_text(NO_ZERO_GRAD.replace("step()", "stop()"))
        os.utime("train.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert "TL201" not in torchlint("check").out
        assert linted == ["train.py"]

    def test_a_file_that_is_changed_twice_in_a_moment(self, torchlint: Torchlint, linted: list[str]) -> None:
        write("train.py", NO_ZERO_GRAD, age=0)
        torchlint("check")
        stamp = Path("train.py").stat()
        Path("train.py").write_text(NO_ZERO_GRAD.replace("step()", "stop()"))
        os.utime("train.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        linted.clear()
        assert "TL201" not in torchlint("check").out
        assert linted == ["train.py"]

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ('ignore = ["TL901"]', []),
            ('severity = { TL901 = "error" }', ["error[TL901]"]),
            ('per-file-ignores = { "src/*" = ["TL9"] }', []),
            ('torch-version = "<2"', ["warning[TL901]"]),
        ],
    )
    def test_everything_under_other_settings(
        self, torchlint: Torchlint, linted: list[str], settings: str, expected: list[str]
    ) -> None:
        write("pyproject.toml", f"[tool.torchlint]\n{settings}\n")
        result = torchlint("check", "src/load.py")
        assert [word for word in expected if word in result.out] == expected
        assert ("TL901" in result.out) == bool(expected)
        assert linted == ["load.py"]

    def test_nothing_when_the_settings_come_back(self, torchlint: Torchlint, linted: list[str]) -> None:
        torchlint("check", "--select", "TL2")
        linted.clear()
        torchlint("check", "--select", "TL2")
        torchlint("check")
        assert linted == []

    def test_everything_when_the_project_allows_other_releases_of_torch(
        self, torchlint: Torchlint, linted: list[str]
    ) -> None:
        write("requirements.txt", "torch>=2.4\n")
        torchlint("check", "train.py")
        assert linted == ["train.py"]

    def test_everything_after_a_change_of_torchlint(
        self, torchlint: Torchlint, linted: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(caching, "code_version", lambda: "another")
        torchlint("check", "train.py")
        assert linted == ["train.py"]

    def test_a_file_in_which_a_rule_failed(
        self, torchlint: Torchlint, linted: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from torchlint.rules.serialization.unsafe_load import UnsafeLoad

        def fails(*args: object) -> None:
            raise KeyError("x")

        write("new.py", UNSAFE_LOAD)
        with monkeypatch.context() as context:
            context.setattr(UnsafeLoad, "found", fails)
            assert torchlint("check", "new.py").status == 2
        linted.clear()
        assert torchlint("check", "new.py").status == 1
        assert linted == ["new.py"]

    def test_all_with_no_cache(self, torchlint: Torchlint, linted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        torchlint("check", "train.py", "--no-cache")
        monkeypatch.setenv("TORCHLINT_NO_CACHE", "1")
        torchlint("check", "train.py")
        assert linted == ["train.py", "train.py"]

    def test_an_unknown_rule_is_told_all_the_same(self, torchlint: Torchlint) -> None:
        assert torchlint("check", "--select", "TL999").status == 2
        write("pyproject.toml", '[tool.torchlint]\nselect = ["TL999"]\n')
        assert torchlint("check").status == 2
        assert torchlint("check").status == 2


class TestFixes:
    @pytest.fixture(autouse=True)
    def _linted_before(self, torchlint: Torchlint, linted: list[str]) -> None:
        project()
        torchlint("check")
        linted.clear()

    def test_are_applied_after_a_run_that_only_reported(self, torchlint: Torchlint, linted: list[str]) -> None:
        shown = torchlint("check", "--diff")
        assert "+weights = torch.zeros(3, requires_grad=True)" in shown.out
        assert "clean.py" not in linted
        assert torchlint("check", "--diff") == shown
        fixed = torchlint("check", "--fix")
        assert Path("src/typo.py").read_text() == TYPO_FIXED
        assert "Fixed 1 finding:" in fixed.out

    def test_a_mended_file_is_linted_anew(self, torchlint: Torchlint, linted: list[str]) -> None:
        torchlint("check", "--fix", "src/typo.py")
        linted.clear()
        assert torchlint("check", "src/typo.py").out == "No findings in 1 file.\n"
        assert linted == ["typo.py"]
        assert torchlint("check", "src/typo.py").out == "No findings in 1 file.\n"
        assert linted == ["typo.py"]

    def test_what_comes_from_stdin_is_neither_kept_nor_looked_up(self, torchlint: Torchlint, linted: list[str]) -> None:
        before = [shard.read_bytes() for shard in shards()]
        result = torchlint("check", "-", "--stdin-filename", "train.py", stdin=NO_ZERO_GRAD.encode())
        assert "TL201" in result.out
        assert linted == ["train.py"]
        assert [shard.read_bytes() for shard in shards()] == before


class TestHints:
    def test_are_shown_to_who_asks_for_them(self, torchlint: Torchlint) -> None:
        write("chain.py", CHAIN)
        for _ in range(2):
            assert torchlint("check", "chain.py").out == "No findings in 1 file.\n"
            assert "TL123" in torchlint("check", "chain.py", "--extend-select", "sequential-candidate").out


class TestTheFolder:
    def test_is_beside_the_settings_and_left_out_by_git_and_by_backups(self, torchlint: Torchlint) -> None:
        project()
        torchlint("check", "src")
        assert not Path("src/.torchlint_cache").exists()
        assert Path(".torchlint_cache/.gitignore").read_text().splitlines()[-1] == "*"
        assert (
            Path(".torchlint_cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
        )

    def test_is_in_the_working_folder_where_there_are_no_settings(self, torchlint: Torchlint) -> None:
        write("sub/train.py", NO_ZERO_GRAD)
        torchlint("check", "sub")
        assert kept() == ["sub/train.py"]

    @pytest.mark.parametrize("how", ["option", "variable"])
    def test_is_where_it_was_asked_for(
        self, torchlint: Torchlint, linted: list[str], monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        project()
        options = ["--cache-dir", "elsewhere/cache"] if how == "option" else []
        if not options:
            monkeypatch.setenv("TORCHLINT_CACHE_DIR", "elsewhere/cache")
        first = torchlint("check", *options)
        assert not Path(".torchlint_cache").exists()
        assert shards("elsewhere/cache")
        linted.clear()
        assert torchlint("check", *options) == first
        assert linted == []

    def test_forgets_files_and_folders_that_are_gone(self, torchlint: Torchlint) -> None:
        project()
        torchlint("check")
        assert "src/typo.py" in kept()
        assert "src/deep/clean.py" in kept()
        Path("src/typo.py").unlink()
        Path("src/deep/clean.py").unlink()
        Path("src/deep").rmdir()
        torchlint("check")
        assert kept() == ["./a.ipynb", "./train.py", "src/broken.py", "src/load.py"]

    def test_forgets_what_has_not_been_used_for_long(self, torchlint: Torchlint) -> None:
        write("train.py", NO_ZERO_GRAD)
        torchlint("check", "--select", "TL1")
        (old,) = {shard.parent for shard in shards()}
        foreign = Path(".torchlint_cache/notes-of-my-own")
        foreign.mkdir()
        for folder in (old, foreign):
            os.utime(folder, (0, 0))
        torchlint("check")
        assert not old.exists()
        assert foreign.exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0\xff",
            b"[]",
            b"[" * 100_000,
            b'{"made_by": 1, "folder": ".", "files": {}}',
            b'{"files": {"train.py": [[1, 2, 3, "x"]]}}',
        ],
    )
    def test_may_be_damaged(self, torchlint: Torchlint, linted: list[str], content: bytes) -> None:
        write("train.py", NO_ZERO_GRAD)
        first = torchlint("check")
        (shard,) = shards()
        shard.write_bytes(content)
        linted.clear()
        assert torchlint("check") == first
        assert torchlint("check") == first
        assert linted == ["train.py"]

    @pytest.mark.parametrize("damage", [None, [], [[]], "TL201", {"severity": 1}, [[0, 0, 0, ""], [[1]], []]])
    def test_may_hold_damaged_records(self, torchlint: Torchlint, linted: list[str], damage: object) -> None:
        write("train.py", NO_ZERO_GRAD)
        first = torchlint("check")
        (shard,) = shards()
        content = json.loads(shard.read_text())
        content["files"]["train.py"] = damage
        shard.write_text(json.dumps(content))
        linted.clear()
        assert torchlint("check") == first
        assert torchlint("check") == first
        assert linted == ["train.py"]

    def test_may_hold_records_of_places_that_there_are_not(self, torchlint: Torchlint, linted: list[str]) -> None:
        write("train.py", NO_ZERO_GRAD)
        first = torchlint("check")
        (shard,) = shards()
        content = json.loads(shard.read_text())
        content["files"]["train.py"][1][0][0][4:8] = [-9, 3, 100_000, 1]
        shard.write_text(json.dumps(content))
        result = torchlint("check")
        assert (result.status, result.err) == (first.status, "")

    @pytest.mark.skipif(sys.platform == "win32", reason="modes of folders are those of POSIX")
    def test_may_be_impossible(self, torchlint: Torchlint) -> None:
        write("train.py", NO_ZERO_GRAD)
        without = torchlint("check", "--no-cache")
        Path(".torchlint_cache").write_text("not a folder")
        assert torchlint("check") == without
        Path(".torchlint_cache").unlink()
        Path().chmod(0o555)
        try:
            assert torchlint("check") == without
        finally:
            Path().chmod(0o755)

    @pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="who may write everywhere")
    def test_may_be_read_only(self, torchlint: Torchlint, linted: list[str]) -> None:
        write("train.py", NO_ZERO_GRAD)
        first = torchlint("check")
        (folder,) = {shard.parent for shard in shards()}
        folder.chmod(0o555)
        write("train.py", NO_ZERO_GRAD.replace("0.1", "0.25"))
        linted.clear()
        try:
            assert torchlint("check").status == first.status
        finally:
            folder.chmod(0o755)
        assert linted == ["train.py"]

    def test_may_be_used_by_two_runs_at_once(self) -> None:
        project()
        for number in range(30):
            write(f"many/m{number:02}.py", UNSAFE_LOAD)
        command = [sys.executable, "-m", "torchlint", "check", "--jobs", "1"]
        for _ in range(2):
            runs = [
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
            ]
            said = [(*run.communicate(timeout=60), run.returncode) for run in runs]
            assert said[0] == said[1] == said[2]
            assert said[0][2] == 1
        assert len(kept()) == 36
        assert not list(Path(".torchlint_cache").rglob("*.tmp"))

    def test_keeps_what_another_run_has_found_meanwhile(
        self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("a.py", CLEAN)
        write("b.py", CLEAN)
        close = caching.Cache.close

        def after_another_run(cache: caching.Cache) -> None:
            monkeypatch.setattr(caching.Cache, "close", close)
            command = [sys.executable, "-m", "torchlint", "check", "b.py"]
            subprocess.run(command, capture_output=True, check=True)
            close(cache)

        monkeypatch.setattr(caching.Cache, "close", after_another_run)
        torchlint("check", "a.py")
        assert kept() == ["./a.py", "./b.py"]


class TestVersion:
    def test_of_an_installed_wheel_is_what_its_record_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "torchlint"
        (package / "cli").mkdir(parents=True)
        monkeypatch.setattr(caching, "__file__", str(package / "cli" / "cache.py"))
        record = tmp_path / f"torchlint-{caching.__version__}.dist-info" / "RECORD"
        record.parent.mkdir()
        record.write_text("torchlint/a.py,sha256=1,5\ntorchlint/__pycache__/a.pyc,,\n")
        before = caching.code_version()
        (package / "a.py").write_text("a = 1")
        record.write_text("torchlint/a.py,sha256=1,5\n")
        assert caching.code_version() == before
        record.write_text("torchlint/a.py,sha256=2,5\n")
        assert caching.code_version() != before

    def test_of_a_development_install_follows_its_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "torchlint"
        (package / "cli").mkdir(parents=True)
        monkeypatch.setattr(caching, "__file__", str(package / "cli" / "cache.py"))
        (package / "cli" / "a.py").write_text("a = 1")
        before = caching.code_version()
        (package / "cli" / "b.pyc").write_text("")
        assert caching.code_version() == before
        (package / "cli" / "facts.json").write_text("{}")
        assert caching.code_version() != before
