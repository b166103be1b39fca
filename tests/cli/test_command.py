"""The command as a whole: what it loads, how it fails, and its other doors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchlint as package
from tests.cli.conftest import Torchlint
from tests.cli.programs import NO_ZERO_GRAD, UNSAFE_LOAD
from torchlint.cli import outcomes
from torchlint.finding import Finding, Severity

#: What no plain run may load: each would cost more than the lint of a small file.
HEAVY = (
    *("pygls", "lsprotocol", "libcst", "asyncio", "multiprocessing", "concurrent.futures", "hypothesis"),
    *("packaging.specifiers", "pathspec", "tomllib", "hashlib", "tempfile"),
)


def modules_after(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after ``code``."""
    code += "\nimport sys; sys.stderr.write(chr(10).join(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True, text=True)
    return set(done.stderr.split())


def run_main(*arguments: str) -> str:
    return (
        f"import sys; sys.argv = ['torchlint', *{arguments!r}]\n"
        "from torchlint.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
    )


class TestWhatIsLoaded:
    @pytest.mark.parametrize("output_format", ["full", "concise", "json"])
    def test_a_plain_check_loads_nothing_heavy(self, output_format: str) -> None:
        Path("train.py").write_text(NO_ZERO_GRAD)
        loaded = modules_after(run_main("check", "train.py", "--output-format", output_format))
        assert "torchlint.linter" in loaded
        assert not loaded & (set(HEAVY) - ({"libcst"} if output_format == "json" else set()))

    def test_version_and_rule_pages_do_not_load_the_server(self) -> None:
        loaded = modules_after(run_main("rule", "TL901"))
        assert not loaded & set(HEAVY)
        loaded = modules_after(run_main("--version"))
        assert not any(name.startswith(("torchlint.rules", "torchlint.linter", "torchlint.lsp")) for name in loaded)

    def test_importing_the_package_loads_nothing_else_of_it(self) -> None:
        loaded = modules_after("import torchlint; torchlint.__version__")
        assert {name for name in loaded if name.startswith("torchlint")} == {"torchlint", "torchlint._version"}

    def test_torch_is_never_loaded(self) -> None:
        Path("torch.py").write_text("raise SystemExit('imported')")
        Path("train.py").write_text(UNSAFE_LOAD)
        done = subprocess.run([sys.executable, "-m", "torchlint", "check", "train.py"], capture_output=True, text=True)
        assert done.returncode == 1
        assert "TL901" in done.stdout


class TestPackage:
    def test_lint(self) -> None:
        (finding,) = package.lint(UNSAFE_LOAD)
        assert isinstance(finding, package.Finding)
        assert (finding.code, finding.name, finding.severity) == ("TL901", "unsafe-load", package.Severity.WARNING)
        assert (finding.row, finding.column, finding.end_row, finding.end_column) == (3, 9, 3, 71)

    def test_what_it_offers(self) -> None:
        assert package.Finding is Finding
        assert package.Severity is Severity
        assert {"Finding", "Severity", "__version__", "lint"} <= set(dir(package))
        with pytest.raises(AttributeError, match="module 'torchlint' has no attribute 'lnt'"):
            package.lnt  # type: ignore[attr-defined]  # noqa: B018

    def test_python_dash_m(self) -> None:
        done = subprocess.run([sys.executable, "-I", "-m", "torchlint", "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"torchlint {package.__version__}\n")


class TestFailures:
    def test_an_unknown_command(self, torchlint: Torchlint) -> None:
        result = torchlint("chekc")
        assert result.status == 2
        assert "No such command 'chekc'" in result.err

    @pytest.mark.parametrize("path", ["train.py", ".", "src/"])
    def test_a_path_in_place_of_a_command(self, torchlint: Torchlint, path: str) -> None:
        result = torchlint(path)
        assert result.status == 2
        assert f"torchlint check {path}" in result.err

    def test_an_interrupt(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*args: object, **kwargs: object) -> None:
            raise KeyboardInterrupt

        Path("a.py").write_text(UNSAFE_LOAD)
        monkeypatch.setattr(outcomes, "lint_files", interrupted)
        result = torchlint("check", "--output-format", "json")
        assert result.status == 130
        assert "Interrupted." in result.err

    def test_an_internal_error_is_no_finding(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*args: object, **kwargs: object) -> None:
            raise KeyError("x")

        Path("a.py").write_text(UNSAFE_LOAD)
        monkeypatch.setattr(outcomes, "lint_files", broken)
        result = torchlint("check")
        assert result.status == 2
        assert "KeyError: 'x'" in result.err
        assert "internal error; please report it" in result.err

    def test_a_reader_that_goes_away(self) -> None:
        Path("a.py").write_text(UNSAFE_LOAD * 300)
        command = [sys.executable, "-m", "torchlint", "check", "a.py"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert "Traceback" not in process.stderr.read()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
    def test_a_full_disk(self) -> None:
        Path("train.py").write_text(UNSAFE_LOAD)
        command = [sys.executable, "-m", "torchlint", "check", "train.py"]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("Error: No space left on device\n")
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
    @pytest.mark.parametrize("closing", ["train.py >&-", "- <&-"])
    def test_a_closed_stream(self, closing: str) -> None:
        Path("train.py").write_text(UNSAFE_LOAD)
        command = f"'{sys.executable}' -m torchlint check {closing}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == "Error: stdin, stdout and stderr have to be open.\n"

    def test_a_name_that_no_file_can_have(self, torchlint: Torchlint) -> None:
        result = torchlint("check", "a" * 5000)
        assert result.status == 2
        assert "File name too long" in result.err
        assert "Traceback" not in result.err

    def test_an_output_that_cannot_show_a_character(self) -> None:
        Path("日本.py").write_text(UNSAFE_LOAD, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-X", "utf8=0", "-m", "torchlint", "check", "日本.py", "--output-format", "concise"],
            capture_output=True,
            text=True,
            env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        )
        assert done.stdout.startswith("\\u65e5\\u672c.py:3:9: TL901 ")
        assert (done.returncode, done.stderr) == (1, "")


class TestOtherCommands:
    def test_help_lists_the_commands(self, torchlint: Torchlint) -> None:
        out = torchlint("--help").out
        assert all(f"  {name} " in out for name in ("check", "rule", "rules", "server", "debug"))

    @pytest.mark.parametrize("name", ["check", "rule", "rules", "server", "debug"])
    def test_every_command_has_help_that_fits(self, torchlint: Torchlint, name: str) -> None:
        result = torchlint(name, "--help")
        assert result.status == 0
        assert all(len(line) <= 80 for line in result.out.splitlines())

    @pytest.mark.parametrize("arguments", [[], ["--stdio"]])
    def test_server(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
        served = []
        monkeypatch.setattr("torchlint.lsp.serve", lambda: served.append(True))
        assert torchlint("server", *arguments).status == 0
        assert served == [True]

    @pytest.mark.parametrize(
        ("what", "expected"), [("names", "torch.optim.SGD"), ("kinds", "optimizer"), ("flow", "backward")]
    )
    def test_debug(self, torchlint: Torchlint, what: str, expected: str) -> None:
        Path("train.py").write_text(NO_ZERO_GRAD)
        result = torchlint("debug", what, "train.py")
        assert result.status == 0
        assert expected in result.out

    def test_debug_of_a_missing_file(self, torchlint: Torchlint) -> None:
        result = torchlint("debug", "names", "none.py")
        assert (result.status, result.err) == (2, "Error: none.py: no such file\n")
