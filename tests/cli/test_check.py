"""`torchlint check`: what is printed, and the exit status."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Torchlint
from tests.cli.programs import CHAIN, CLEAN, NO_ZERO_GRAD, UNSAFE_LOAD
from torchlint.finding import Problem
from torchlint.linter import Analysis, Linter
from torchlint.text import Document


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def codes(out: str) -> list[str]:
    return re.findall(r"TL\d{3}", out)


class TestReports:
    def test_findings_give_status_1(self, torchlint: Torchlint) -> None:
        write("train.py", NO_ZERO_GRAD)
        result = torchlint("check", "train.py")
        assert result.status == 1
        assert result.out.startswith("error[TL201] missing-zero-grad: ")
        assert "  --> train.py:11:5\n" in result.out
        assert "11 |     optimizer.step()\n   |     ^^^^^^^^^^^^^^^^\n" in result.out
        assert result.out.endswith("\n\nFound 1 error (1 fixable with `--fix --unsafe-fixes`).\n")
        assert result.err == ""

    def test_a_warning_gives_status_1(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "load.py", "--output-format", "concise")
        assert result.status == 1
        assert result.out.startswith("load.py:3:9: TL901 unsafe-load ")
        assert result.out.endswith("\nFound 1 warning (1 fixable with `--fix --unsafe-fixes`).\n")

    def test_nothing_found_gives_status_0(self, torchlint: Torchlint) -> None:
        write("a.py", CLEAN)
        write("b.py", "print(1)\n")
        result = torchlint("check", "a.py", "b.py")
        assert (result.status, result.out, result.err) == (0, "No findings in 2 files.\n", "")

    def test_without_paths_it_looks_at_the_working_folder(self, torchlint: Torchlint) -> None:
        write("src/load.py", UNSAFE_LOAD)
        write("zero.py", NO_ZERO_GRAD)
        result = torchlint("check", "--output-format", "concise", "--quiet")
        assert [line.split(":")[0] for line in result.out.splitlines()] == [str(Path("src/load.py")), "zero.py"]

    def test_no_files_is_said(self, torchlint: Torchlint) -> None:
        result = torchlint("check")
        assert result.status == 0
        assert "no Python files" in result.err

    def test_exit_zero(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "--exit-zero")
        assert result.status == 0
        assert "TL901" in result.out

    def test_quiet_leaves_out_the_closing_line(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "-q", "--output-format", "concise")
        assert len(result.out.splitlines()) == 1

    def test_statistics(self, torchlint: Torchlint) -> None:
        write("a.py", UNSAFE_LOAD)
        write("b.py", UNSAFE_LOAD + NO_ZERO_GRAD)
        result = torchlint("check", "--statistics")
        assert result.status == 1
        assert result.out.splitlines()[:2] == ["2  TL901  [ ]  unsafe-load", "1  TL201  [ ]  missing-zero-grad"]
        rows = json.loads(torchlint("check", "--statistics", "--output-format", "json").out)
        assert rows[0] == {"code": "TL901", "name": "unsafe-load", "count": 2, "fixable": 0}

    def test_output_file(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        printed = torchlint("check", "--output-format", "json").out
        result = torchlint("check", "--output-format", "json", "--output-file", "report.json")
        assert (result.status, result.out) == (1, "")
        assert Path("report.json").read_text() == printed

    def test_output_file_that_cannot_be_written(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--output-file", "nowhere/report.txt")
        assert result.status == 2
        assert "nowhere" in result.err

    def test_a_notebook(self, torchlint: Torchlint) -> None:
        cells = [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]},
            {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": ["import torch"]},
            {
                "cell_type": "code",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": ["x = 1\n", "state = torch.load('model.pt', weights_only=False)"],
            },
        ]
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        write("a.ipynb", json.dumps(notebook))
        result = torchlint("check", "--output-format", "concise")
        assert result.out.startswith("a.ipynb:cell 3:2:9: TL901 ")
        (finding,) = json.loads(torchlint("check", "--output-format", "json").out)
        assert (finding["cell"], finding["location"]) == (3, {"row": 2, "column": 9})


class TestColour:
    @pytest.fixture(autouse=True)
    def _file(self) -> None:
        write("load.py", UNSAFE_LOAD)

    def test_none_in_a_pipe(self, torchlint: Torchlint) -> None:
        assert "\x1b" not in torchlint("check").out

    def test_always(self, torchlint: Torchlint) -> None:
        assert "\x1b[33m" in torchlint("check", "--color", "always").out

    def test_force_color_and_no_color(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[33m" in torchlint("check").out
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in torchlint("check").out
        assert "\x1b[33m" in torchlint("check", "--color", "always").out

    def test_never(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b" not in torchlint("check", "--color", "never").out


class TestSelection:
    @pytest.fixture(autouse=True)
    def _file(self) -> None:
        write("train.py", NO_ZERO_GRAD + UNSAFE_LOAD)

    def found(self, torchlint: Torchlint, *arguments: str) -> list[str]:
        return codes(torchlint("check", "--output-format", "concise", *arguments).out)

    @pytest.mark.parametrize("selector", ["TL901", "unsafe-load", "TL9", "TL90"])
    def test_select_and_ignore_by_code_name_and_family(self, torchlint: Torchlint, selector: str) -> None:
        assert self.found(torchlint) == ["TL201", "TL901"]
        assert self.found(torchlint, "--select", selector) == ["TL901"]
        assert self.found(torchlint, "--ignore", selector) == ["TL201"]

    def test_several_by_comma_and_by_repetition(self, torchlint: Torchlint) -> None:
        assert self.found(torchlint, "--select", "TL201, unsafe-load") == ["TL201", "TL901"]
        assert self.found(torchlint, "--select", "TL201", "--select", "TL901") == ["TL201", "TL901"]
        assert self.found(torchlint, "--ignore", "TL2,TL9") == []

    def test_extend_select_adds(self, torchlint: Torchlint) -> None:
        assert self.found(torchlint, "--select", "TL901", "--extend-select", "TL2") == ["TL201", "TL901"]

    def test_the_command_line_wins_over_the_settings(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", 'select = ["TL2"]\n')
        assert self.found(torchlint) == ["TL201"]
        assert self.found(torchlint, "--select", "TL901") == ["TL901"]
        assert self.found(torchlint, "--extend-select", "TL901") == ["TL201", "TL901"]

    def test_an_unknown_rule_is_an_error_with_a_suggestion(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--select", "TL2,missing-zero-grads")
        assert result.status == 2
        assert "unknown rule `missing-zero-grads`; did you mean `missing-zero-grad`?" in result.err
        assert result.out == ""

    def test_isolated_ignores_the_settings(self, torchlint: Torchlint) -> None:
        write("pyproject.toml", '[tool.torchlint]\nselect = ["TL2"]\n')
        assert self.found(torchlint) == ["TL201"]
        assert self.found(torchlint, "--isolated") == ["TL201", "TL901"]

    def test_isolated_does_not_know_the_range_of_torch(self, torchlint: Torchlint) -> None:
        write("load.py", 'import torch\n\nstate = torch.load("model.pt")\n')
        write("requirements.txt", "torch>=2.4\n")
        assert self.found(torchlint, "load.py") == ["TL901"]
        assert self.found(torchlint, "load.py", "--isolated") == []

    def test_config_uses_one_file_for_all(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", 'select = ["TL2"]\n')
        write("other/mine.toml", 'select = ["TL9"]\n')
        assert self.found(torchlint, "--config", "other/mine.toml", "train.py") == ["TL901"]

    def test_config_that_is_not_there(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--config", "none.toml")
        assert result.status == 2
        assert "none.toml" in result.err

    def test_config_without_a_table_for_torchlint(self, torchlint: Torchlint) -> None:
        write("pyproject.toml", "[project]\nname = 'x'\n")
        result = torchlint("check", "--config", "pyproject.toml")
        assert result.status == 2
        assert "pyproject.toml: has no table [tool.torchlint]" in result.err

    def test_config_and_isolated_exclude_each_other(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", "")
        assert torchlint("check", "--config", "torchlint.toml", "--isolated").status == 2


class TestHints:
    @pytest.fixture(autouse=True)
    def _file(self) -> None:
        write("head.py", CHAIN)

    def test_a_hint_is_not_printed(self, torchlint: Torchlint) -> None:
        result = torchlint("check")
        assert (result.status, result.out) == (0, "No findings in 1 file.\n")

    @pytest.mark.parametrize(
        "arguments",
        [["--select", "TL123"], ["--extend-select", "sequential-candidate"], ["--select", "TL1"], ["--select", "ALL"]],
    )
    def test_a_hint_that_is_selected_is_printed_and_does_not_fail(
        self, torchlint: Torchlint, arguments: list[str]
    ) -> None:
        result = torchlint("check", *arguments)
        assert result.status == 0
        assert result.out.startswith("hint[TL123] sequential-candidate: ")
        assert "Found 1 hint" in result.out

    @pytest.mark.parametrize("line", ['select = ["ALL"]', 'extend-select = ["TL123"]'])
    def test_settings_may_select_it(self, torchlint: Torchlint, line: str) -> None:
        write("torchlint.toml", line + "\n")
        assert "TL123" in torchlint("check").out
        assert "TL123" not in torchlint("check", "--select", "TL2").out

    def test_a_rule_raised_to_a_warning_is_printed_and_fails(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", '[severity]\nTL123 = "warning"\n')
        result = torchlint("check")
        assert result.status == 1
        assert result.out.startswith("warning[TL123] ")

    def test_a_warning_lowered_to_a_hint_is_not_printed(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", '[severity]\nTL901 = "hint"\n')
        write("load.py", UNSAFE_LOAD)
        assert torchlint("check").status == 0

    def test_a_hint_that_is_not_shown_is_not_fixed(self, torchlint: Torchlint) -> None:
        assert torchlint("check", "--fix", "--unsafe-fixes").status == 0
        assert Path("head.py").read_text() == CHAIN


class TestFailures:
    """Status 2, one clear message, and nothing else lost."""

    def test_a_missing_file(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "nothing.py", "load.py")
        assert result.status == 2
        assert result.err == "nothing.py: no such file\n"
        assert "TL901" in result.out

    def test_a_file_that_is_no_text(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        Path("bad.py").write_bytes(b"import torch\nx = '\xff'\n")
        result = torchlint("check", ".", "--output-format", "json")
        assert result.status == 2
        assert result.err == "bad.py: is not valid utf-8: byte 0xff in row 2\n"
        assert [finding["code"] for finding in json.loads(result.out)] == ["TL901"]

    def test_exit_zero_does_not_hide_a_failure(self, torchlint: Torchlint) -> None:
        assert torchlint("check", "nothing.py", "--exit-zero").status == 2

    def test_bad_settings_name_the_place(self, torchlint: Torchlint) -> None:
        write("pyproject.toml", '[tool.torchlint]\nselect = ["TL9"]\nselekt = []\n')
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check")
        assert result.status == 2
        assert "pyproject.toml:3:1: unknown key `selekt`; did you mean `select`?" in result.err

    def test_an_unknown_rule_in_the_settings_names_the_place(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", 'ignore = [\n  "TL999",\n]\n')
        write("a.py", CLEAN)
        write("b.py", CLEAN)
        result = torchlint("check")
        assert result.status == 2
        assert "torchlint.toml:2:3: unknown rule `TL999`" in result.err
        assert len(result.err.splitlines()) == 1

    def test_bad_settings_of_one_folder_cost_that_folder(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD)
        write("old/torchlint.toml", "select = 3\n")
        write("old/a.py", UNSAFE_LOAD)
        result = torchlint("check", "--output-format", "concise")
        assert result.status == 2
        assert result.out.startswith("load.py:3:9: TL901 ")
        assert len(result.err.splitlines()) == 1
        assert f"{Path('old/torchlint.toml')}:1:1: " in result.err

    def test_a_folder_that_cannot_be_read(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        write("load.py", UNSAFE_LOAD)
        write("locked/a.py", UNSAFE_LOAD)
        scandir = os.scandir

        def locked(path: Path) -> object:
            if Path(path).name == "locked":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", locked)
        result = torchlint("check", "--output-format", "concise")
        assert result.status == 2
        assert result.err == "locked: cannot be read: Permission denied\n"
        assert codes(result.out) == ["TL901"]

    def test_broken_syntax_is_said_once_and_the_rest_is_linted(self, torchlint: Torchlint) -> None:
        write("load.py", UNSAFE_LOAD + "\nx = (\n\ny = 1\n")
        result = torchlint("check", "--output-format", "concise")
        assert result.status == 1
        assert codes(result.out) == ["TL901"]
        assert re.fullmatch(r"load\.py:5: .+\n", result.err)

    def test_an_error_in_a_rule_is_said_and_the_findings_of_the_others_stay(
        self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        analyze = Linter.analyze

        def failing(self: Linter, document: Document, *args: object, **kwargs: object) -> Analysis:
            analysis = analyze(self, document, *args, **kwargs)  # type: ignore[arg-type]
            problem = Problem("rule", 0, "TL101 (missing-super-init) failed: KeyError: 'x'")
            object.__setattr__(analysis, "problems", (problem,))
            return analysis

        monkeypatch.setattr(Linter, "analyze", failing)
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check")
        assert result.status == 2
        assert result.err == "load.py: TL101 (missing-super-init) failed: KeyError: 'x'\n"
        assert "TL901" in result.out

    def test_an_internal_error_costs_one_file(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        analyze = Linter.analyze

        def failing(self: Linter, document: Document, *args: object, **kwargs: object) -> Analysis:
            if document.filename == "bad.py":
                raise RecursionError("too deep")
            return analyze(self, document, *args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(Linter, "analyze", failing)
        write("bad.py", UNSAFE_LOAD)
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "--output-format", "json")
        assert result.status == 2
        assert re.fullmatch(
            r"bad\.py: internal error, please report it: RecursionError: too deep \(test_check\.py:\d+\)\n", result.err
        )
        assert len(json.loads(result.out)) == 1

    def test_a_fix_that_fails_costs_the_fix(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(self: Analysis, finding: object) -> object:
            raise KeyError("x")

        monkeypatch.setattr(Analysis, "fixes", failing)
        write("load.py", UNSAFE_LOAD)
        result = torchlint("check", "--output-format", "json")
        assert result.status == 2
        (finding,) = json.loads(result.out)
        assert (finding["code"], finding["fix"]) == ("TL901", None)
        assert "internal error" in result.err
        before = Path("load.py").read_text()
        result = torchlint("check", "--fix", "--unsafe-fixes", "--output-format", "concise")
        assert (result.status, codes(result.out)) == (2, ["TL901"])
        assert Path("load.py").read_text() == before

    def test_a_bad_option(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--output-format", "xml")
        assert result.status == 2
        assert "'full', 'concise', 'json'" in result.err


class TestFiles:
    """The rules of discovery are tested with the settings; here that the command follows them."""

    def test_gitignore_and_exclude(self, torchlint: Torchlint) -> None:
        for path in ("a.py", "generated/b.py", "old/c.py", "d.txt", "e.pyi"):
            write(path, UNSAFE_LOAD)
        write(".gitignore", "generated/\n")
        write(".git/HEAD", "")
        write("torchlint.toml", 'extend-exclude = ["old"]\n')
        result = torchlint("check", "-q", "--output-format", "concise")
        assert [line.split(":")[0] for line in result.out.splitlines()] == ["a.py", "e.pyi"]

    def test_a_named_file_is_linted_though_excluded_unless_force_exclude(self, torchlint: Torchlint) -> None:
        write("old/c.py", UNSAFE_LOAD)
        write("a.py", UNSAFE_LOAD)
        write("torchlint.toml", 'extend-exclude = ["old"]\n')
        named = ["check", "-q", "--output-format", "concise", "old/c.py", "a.py"]
        assert [line.split(":")[0] for line in torchlint(*named).out.splitlines()] == ["old/c.py", "a.py"]
        result = torchlint(*named, "--force-exclude")
        assert [line.split(":")[0] for line in result.out.splitlines()] == ["a.py"]

    def test_json_has_absolute_paths(self, torchlint: Torchlint, folder: Path) -> None:
        write("src/load.py", UNSAFE_LOAD)
        (finding,) = json.loads(torchlint("check", "--output-format", "json", "src").out)
        assert finding["filename"] == str(folder / "src" / "load.py")


class TestStdin:
    def test_text_from_stdin(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "-", "--output-format", "concise", stdin=UNSAFE_LOAD.encode())
        assert result.status == 1
        assert result.out.startswith("-:3:9: TL901 ")

    def test_it_stands_for_a_file(self, torchlint: Torchlint, folder: Path) -> None:
        write("src/torchlint.toml", 'select = ["TL9"]\n')
        text = (NO_ZERO_GRAD + UNSAFE_LOAD).encode()
        result = torchlint("check", "-", "--stdin-filename", "src/new.py", "--output-format", "json", stdin=text)
        (finding,) = json.loads(result.out)
        assert (finding["code"], finding["filename"]) == ("TL901", str(folder / "src" / "new.py"))

    def test_bytes_in_another_encoding(self, torchlint: Torchlint) -> None:
        text = "# coding: latin-1\nname = 'é'\n" + UNSAFE_LOAD
        result = torchlint("check", "-", "--output-format", "concise", stdin=text.encode("latin-1"))
        assert result.out.startswith("-:5:9: TL901 ")

    def test_an_excluded_name_with_force_exclude(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", 'extend-exclude = ["old"]\n')
        arguments = ["check", "-", "--stdin-filename", "old/a.py", "--output-format", "json"]
        assert len(json.loads(torchlint(*arguments, stdin=UNSAFE_LOAD.encode()).out)) == 1
        result = torchlint(*arguments, "--force-exclude", stdin=UNSAFE_LOAD.encode())
        assert (result.status, json.loads(result.out)) == (0, [])

    def test_stdin_takes_no_company(self, torchlint: Torchlint) -> None:
        assert torchlint("check", "-", "a.py").status == 2
        assert torchlint("check", "a.py", "--stdin-filename", "b.py").status == 2
