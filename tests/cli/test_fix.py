"""`--fix`, `--unsafe-fixes` and `--diff`: files are changed as said, and in no other way."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Torchlint
from tests.cli.programs import NO_ZERO_GRAD, TYPO, TYPO_FIXED, UNSAFE_LOAD, UNSAFE_LOAD_FIXED
from torchlint import linter
from torchlint.cli import one_file


def write(path: str, text: str) -> None:
    Path(path).write_bytes(text.encode("utf-8"))


def text_of(path: str) -> str:
    return Path(path).read_bytes().decode("utf-8")


def test_fix_applies_safe_fixes_and_reports_the_rest(torchlint: Torchlint) -> None:
    write("a.py", TYPO + UNSAFE_LOAD)
    result = torchlint("check", "--fix", "--output-format", "concise")
    assert text_of("a.py") == TYPO_FIXED + UNSAFE_LOAD
    assert result.status == 1
    assert result.out.splitlines() == [
        result.out.splitlines()[0],
        "Fixed 1 finding:",
        "  1 x TL107 requires-grad-typo",
        "Found 1 warning (1 fixable with `--fix --unsafe-fixes`).",
    ]
    assert result.out.startswith("a.py:6:9: TL901 ")


def test_everything_fixed_gives_status_0(torchlint: Torchlint) -> None:
    write("a.py", TYPO)
    result = torchlint("check", "--fix")
    assert result.status == 0
    assert result.out == "Fixed 1 finding:\n  1 x TL107 requires-grad-typo\nNo findings in 1 file.\n"


def test_unsafe_fixes(torchlint: Torchlint) -> None:
    write("a.py", TYPO + UNSAFE_LOAD)
    assert torchlint("check", "--fix", "--unsafe-fixes").status == 0
    assert text_of("a.py") == TYPO_FIXED + UNSAFE_LOAD_FIXED


def test_unsafe_fixes_in_the_settings(torchlint: Torchlint) -> None:
    write("torchlint.toml", "unsafe-fixes = true\n")
    write("a.py", UNSAFE_LOAD)
    assert "[*]" in torchlint("check", "--output-format", "concise").out
    assert torchlint("check", "--fix").status == 0
    assert text_of("a.py") == UNSAFE_LOAD_FIXED


def test_only_selected_rules_are_fixed(torchlint: Torchlint) -> None:
    write("a.py", TYPO + UNSAFE_LOAD)
    torchlint("check", "--fix", "--unsafe-fixes", "--select", "TL9")
    assert text_of("a.py") == TYPO + UNSAFE_LOAD_FIXED


def test_a_suppressed_finding_is_not_fixed(torchlint: Torchlint) -> None:
    text = UNSAFE_LOAD.replace("False)", "False)  # torchlint: ignore[TL901]")
    write("a.py", text)
    assert torchlint("check", "--fix", "--unsafe-fixes").status == 0
    assert text_of("a.py") == text


@pytest.mark.parametrize(
    ("text", "fixed", "encoding"),
    [
        (TYPO.replace("\n", "\r\n"), TYPO_FIXED.replace("\n", "\r\n"), "utf-8"),
        (TYPO.replace("\n", "\r"), TYPO_FIXED.replace("\n", "\r"), "utf-8"),
        (TYPO.rstrip("\n"), TYPO_FIXED.rstrip("\n"), "utf-8"),
        (TYPO, TYPO_FIXED, "utf-8-sig"),
        ("# coding: latin-1\ns = 'é'\x0c\n" + TYPO, "# coding: latin-1\ns = 'é'\x0c\n" + TYPO_FIXED, "latin-1"),
        ("s = '日本😀\u2028'\n" + TYPO, "s = '日本😀\u2028'\n" + TYPO_FIXED, "utf-8"),
    ],
    ids=["crlf", "cr", "no last newline", "bom", "latin-1", "unicode"],
)
def test_bytes_that_no_fix_concerns_stay(torchlint: Torchlint, text: str, fixed: str, encoding: str) -> None:
    Path("a.py").write_bytes(text.encode(encoding))
    assert torchlint("check", "--fix").status == 0
    assert Path("a.py").read_bytes() == fixed.encode(encoding)


def test_a_notebook_keeps_its_layout(torchlint: Torchlint) -> None:
    notebook = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Größe"]},
            {
                "cell_type": "code",
                "execution_count": 1,
                "metadata": {},
                "outputs": [],
                "source": ["%matplotlib inline\n", "import torch\n", "w = torch.zeros(3, require_grad=True)"],
            },
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write("a.ipynb", text)
    assert torchlint("check", "--fix").status == 0
    assert text_of("a.ipynb") == text.replace("require_grad", "requires_grad")


@pytest.mark.skipif(os.name == "nt", reason="modes and links are different there")
def test_mode_and_links_are_kept(torchlint: Torchlint) -> None:
    write("real.py", "#!/usr/bin/env python\n" + TYPO)
    Path("real.py").chmod(0o750)
    Path("link.py").symlink_to("real.py")
    assert torchlint("check", "--fix", "link.py").status == 0
    assert Path("link.py").is_symlink()
    assert text_of("real.py").endswith(TYPO_FIXED)
    assert stat.S_IMODE(Path("real.py").stat().st_mode) == 0o750
    assert sorted(path.name for path in Path().iterdir()) == ["link.py", "real.py"]


def test_a_file_that_cannot_be_written_is_left_and_said(torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    write("a.py", TYPO)
    monkeypatch.setattr(os, "replace", full)
    result = torchlint("check", "--fix", "--output-format", "concise")
    assert result.status == 2
    assert result.err == "a.py: cannot be written: No space left on device\n"
    assert result.out.startswith("a.py:3:")
    assert "TL107" in result.out
    assert text_of("a.py") == TYPO
    assert [path.name for path in Path().iterdir()] == ["a.py"]


def test_a_file_that_changed_meanwhile_is_left_and_said(torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
    def while_somebody_saves(*args: object, **kwargs: object) -> linter.FixAllResult:
        result = linter.fix_all(*args, **kwargs)  # type: ignore[arg-type]
        write("a.py", TYPO + "# saved by an editor\n")
        return result

    write("a.py", TYPO)
    monkeypatch.setattr(one_file, "fix_all", while_somebody_saves)
    result = torchlint("check", "--fix")
    assert result.status == 2
    assert "a.py: has changed while it was being fixed" in result.err
    assert text_of("a.py") == TYPO + "# saved by an editor\n"


class TestDiff:
    def test_it_prints_what_would_change_and_changes_nothing(self, torchlint: Torchlint) -> None:
        write("a.py", TYPO)
        result = torchlint("check", "--diff")
        assert result.status == 1
        assert result.out == (
            "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n import torch\n \n"
            "-weights = torch.zeros(3, require_grad=True)\n+weights = torch.zeros(3, requires_grad=True)\n"
        )
        assert result.err == "Would fix 1 finding:\n  1 x TL107 requires-grad-typo\n"
        assert text_of("a.py") == TYPO

    def test_no_changes_give_status_0_whatever_is_found(self, torchlint: Torchlint) -> None:
        write("a.py", NO_ZERO_GRAD)
        result = torchlint("check", "--diff")
        assert (result.status, result.out, result.err) == (0, "", "")

    @pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
    @pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
    def test_the_diff_is_a_patch(self, torchlint: Torchlint, ending: str) -> None:
        newline = ending or "\n"
        text = ("x = '日本\x0c'\n" + TYPO).rstrip("\n").replace("\n", newline) + ending
        write("a.py", text)
        diff = torchlint("check", "--diff", "-q").out
        subprocess.run(["git", "apply", "-p0", "-"], input=diff.encode("utf-8"), check=True)
        assert text_of("a.py") == text.replace("require_grad", "requires_grad")

    def test_a_notebook_shows_the_cell(self, torchlint: Torchlint) -> None:
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": TYPO}
        write("a.ipynb", json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        assert torchlint("check", "--diff").out.startswith("--- a.ipynb:cell 1\n+++ a.ipynb:cell 1\n@@ ")

    def test_diff_wins_over_fix(self, torchlint: Torchlint) -> None:
        write("a.py", TYPO)
        assert torchlint("check", "--diff", "--fix").status == 1
        assert text_of("a.py") == TYPO


class TestStdin:
    def test_the_fixed_text_goes_to_stdout_and_the_report_to_stderr(self, torchlint: Torchlint) -> None:
        text = (TYPO + UNSAFE_LOAD).replace("\n", "\r\n")
        result = torchlint("check", "--fix", "-", "--output-format", "concise", stdin=text.encode())
        assert result.out == text.replace("require_grad", "requires_grad")
        assert "TL901" in result.err
        assert result.status == 1

    def test_text_that_cannot_be_linted_comes_back_as_it_was(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--fix", "-", "--stdin-filename", "a.ipynb", stdin=b"no notebook")
        assert (result.status, result.out) == (2, "no notebook")

    def test_an_excluded_file_comes_back_as_it_was(self, torchlint: Torchlint) -> None:
        write("torchlint.toml", 'extend-exclude = ["a.py"]\n')
        arguments = ["check", "--fix", "-", "--stdin-filename", "a.py", "--force-exclude"]
        result = torchlint(*arguments, stdin=TYPO.encode())
        assert (result.status, result.out) == (0, TYPO)

    def test_diff(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "--diff", "-", "--stdin-filename", "a.py", stdin=TYPO.encode())
        assert result.status == 1
        assert result.out.startswith("--- a.py\n+++ a.py\n")
