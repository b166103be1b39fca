"""What settings say: the rules that are on, severities, and errors that name the place and the likely meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from torchlint.finding import Severity
from torchlint.settings import Origin, Selection, Settings, SettingsError, parse_settings, read_settings
from torchlint.torch_api.torch_range import TorchRange


class Level(Enum):
    ERROR = "error"
    HINT = "hint"
    OFF = "off"


@dataclass(frozen=True)
class FakeRule:
    code: str
    name: str
    level: Level = Level.ERROR


RULES = (
    FakeRule("TL201", "missing-zero-grad"),
    FakeRule("TL202", "zero-grad-after-backward"),
    FakeRule("TL301", "softmax-before-cross-entropy"),
    FakeRule("TL302", "noisy", Level.OFF),
    FakeRule("TL601", "item-in-loop", Level.HINT),
)


def on(**settings: Any) -> list[str]:
    filename = settings.pop("filename", None)
    return sorted(Settings(**settings).active(RULES, filename))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["TL201", "TL202", "TL301", "TL601"]),
        ({"select": ("ALL",)}, ["TL201", "TL202", "TL301", "TL302", "TL601"]),
        ({"select": ()}, []),
        ({"select": ("TL2",)}, ["TL201", "TL202"]),
        ({"select": ("missing-zero-grad", "TL302")}, ["TL201", "TL302"]),
        ({"extend_select": ("noisy",)}, ["TL201", "TL202", "TL301", "TL302", "TL601"]),
        ({"ignore": ("TL2",)}, ["TL301", "TL601"]),
        ({"ignore": ("ALL",)}, []),
        ({"ignore": ("ALL",), "extend_select": ("TL3",)}, ["TL301", "TL302"]),
        # The more specific wins, whichever list it is in.
        ({"select": ("TL201",), "ignore": ("TL2",)}, ["TL201"]),
        ({"select": ("TL2",), "ignore": ("missing-zero-grad",)}, ["TL202"]),
        ({"select": ("ALL",), "ignore": ("TL3",), "extend_select": ("TL301",)}, ["TL201", "TL202", "TL301", "TL601"]),
        ({"select": ("TL20",), "ignore": ("TL2",)}, ["TL201", "TL202"]),
        # Of two that are equally specific, ignore wins; a code and a name are.
        ({"select": ("TL201", "TL202"), "ignore": ("missing-zero-grad",)}, ["TL202"]),
        ({"select": ("TL2",), "ignore": ("TL2",)}, []),
        ({"severity": {"TL2": None}}, ["TL301", "TL601"]),
        ({"severity": {"TL2": None, "missing-zero-grad": Severity.HINT}}, ["TL201", "TL301", "TL601"]),
        ({"severity": {"noisy": Severity.WARNING}}, ["TL201", "TL202", "TL301", "TL302", "TL601"]),
        ({"severity": {"TL3": Severity.WARNING}}, ["TL201", "TL202", "TL301", "TL601"]),
        ({"severity": {"noisy": Severity.WARNING}, "ignore": ("TL302",)}, ["TL201", "TL202", "TL301", "TL601"]),
    ],
)
def test_which_rules_are_on(settings: dict[str, Any], expected: list[str]) -> None:
    assert on(**settings) == expected


@pytest.mark.parametrize(
    ("settings", "override", "expected"),
    [
        ({"select": ("TL2",)}, Selection(("TL301",)), ["TL301"]),
        ({"select": ("TL2",)}, Selection(extend_select=("TL301",)), ["TL201", "TL202", "TL301"]),
        ({"select": ("TL201", "TL202")}, Selection(ignore=("TL2",)), []),
        ({"ignore": ("TL201",)}, Selection(extend_select=("TL201",)), ["TL201", "TL202", "TL301", "TL601"]),
        ({"select": ("TL2",), "ignore": ("TL201",)}, Selection(("TL2",)), ["TL201", "TL202"]),
        # What a file only ignores, without selecting, stays ignored.
        ({"ignore": ("TL201",)}, Selection(("TL2",)), ["TL202"]),
        ({"ignore": ("TL201",)}, Selection(("ALL",)), ["TL202", "TL301", "TL302", "TL601"]),
        ({"severity": {"TL201": None}}, Selection(("TL2",)), ["TL202"]),
        ({}, Selection(), ["TL201", "TL202", "TL301", "TL601"]),
    ],
)
def test_the_command_line_goes_on_top(settings: dict[str, Any], override: Selection, expected: list[str]) -> None:
    assert on(**settings, override=override) == expected


def test_rules_ignored_by_file(tmp_path: Path) -> None:
    settings = {
        "root": tmp_path,
        "per_file_ignores": {"tests/**": ("TL2",), "*.ipynb": ("missing-zero-grad", "TL3"), "/a.py": ("ALL",)},
    }
    assert on(**settings, filename=str(tmp_path / "tests" / "x" / "a.py")) == ["TL301", "TL601"]
    assert on(**settings, filename=str(tmp_path / "deep" / "a.ipynb")) == ["TL202", "TL601"]
    assert on(**settings, filename=str(tmp_path / "a.py")) == []
    assert on(**settings, filename=str(tmp_path / "b" / "a.py")) == ["TL201", "TL202", "TL301", "TL601"]
    assert on(**settings) == ["TL201", "TL202", "TL301", "TL601"]


def test_the_most_specific_severity_counts() -> None:
    settings = Settings(
        severity={"ALL": Severity.HINT, "TL201": Severity.INFORMATION, "TL2": Severity.WARNING, "x": None}
    )
    assert settings.severity_of("TL201", "missing-zero-grad", Severity.ERROR) is Severity.INFORMATION
    assert settings.severity_of("TL202", "zero-grad-after-backward", Severity.ERROR) is Severity.WARNING
    assert settings.severity_of("TL301", "y", Severity.ERROR) is Severity.HINT
    assert Settings().severity_of("TL301", "y", Severity.ERROR) is Severity.ERROR


EVERY_KEY = """\
select = ["ALL"]
ignore = ["TL301"]
extend-select = ["noisy"]
exclude = ["old"]
extend-exclude = ["vendored/", "!keep"]
torch-version = ">=2.4,<3"
unsafe-fixes = true
respect-noqa = true
respect-gitignore = false

[severity]
TL201 = "hint"
TL3 = "off"

[per-file-ignores]
"tests/**" = ["TL2"]
"""


def test_every_key(tmp_path: Path) -> None:
    path = tmp_path / "torchlint.toml"
    path.write_text(EVERY_KEY)
    assert read_settings(path) == Settings(
        select=("ALL",),
        ignore=("TL301",),
        extend_select=("noisy",),
        exclude=("old",),
        extend_exclude=("vendored/", "!keep"),
        torch=TorchRange(">=2.4,<3"),
        unsafe_fixes=True,
        respect_noqa=True,
        respect_gitignore=False,
        severity={"TL201": Severity.HINT, "TL3": None},
        per_file_ignores={"tests/**": ("TL2",)},
        root=tmp_path,
    )


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('# first\nselct = ["TL2"]', "2:1", "unknown key `selct`; did you mean `select`?"),
        ("extend_select = []", "1:1", "unknown key `extend_select`; did you mean `extend-select`?"),
        ("  xyzzy = 1", "1:3", "unknown key `xyzzy`"),
        ("[sevrity]\nTL201 = 'off'", "1:2", "unknown key `sevrity`; did you mean `severity`?"),
        ('select = "TL2"', "1:1", '`select` must be a list of strings, not "TL2"'),
        ("ignore = [1]", "1:1", "`ignore` must be a list of strings, not a list with other values"),
        ("unsafe-fixes = 1", "1:1", "`unsafe-fixes` must be true or false, not 1"),
        ("unsafe-fixes = 'yes'", "1:1", '`unsafe-fixes` must be true or false, not "yes"'),
        (
            "\n[severity]\nTL201 = 'off'\nTL202 = 'warn'",
            "4:1",
            'severity of `TL202` must be one of error, warning, information, hint, off, not "warn"; '
            "did you mean `warning`?",
        ),
        ("severity = { TL201 = 'fatal' }", "1:14", "severity of `TL201` must be one of error,"),
        ("severity.TL201 = true", "1:1", "severity of `TL201` must be one of"),
        ("severity = []", "1:1", "`severity` must be a table of rules and severities, not a list"),
        ('torch-version = "2.4"', "1:1", '`torch-version` must be a version specifier such as ">=2.4" or'),
        (
            "torch-version = 2.4",
            "1:1",
            '`torch-version` must be a version specifier such as ">=2.4" or ">=2.4,<3", not 2.4',
        ),
        ("torch-version = ''", "1:1", "`torch-version` must be a version specifier such as"),
        ("[per-file-ignores]\n'a' = ['TL2']\n'b/*.py' = 'TL2'", "3:1", '`b/*.py` must be a list of strings, not "TL2"'),
        ("per-file-ignores = ['a']", "1:1", "`per-file-ignores` must be a table of patterns and rules, not a list"),
        ("exclude = ['ok',\n  '!']", "2:3", "`!` is not a pattern of .gitignore"),
        ("a = 1\nb = = 2\n", "2:5", "is not valid TOML: Invalid value"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_place(tmp_path: Path, text: str, place: str, message: str) -> None:
    path = tmp_path / "torchlint.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        read_settings(path)
    assert str(error.value).startswith(f"{path}:{place}: {message}")


def test_places_in_a_shared_file(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nselct = "no"\n\n[tool.other]\nselct = 1\n\n[tool.torchlint]\nignore = []\nselct = 1\n')
    with pytest.raises(SettingsError, match=r":9:1: unknown key `selct`"):
        read_settings(path)
    path.write_text("tool.torchlint.selct = 1\n")
    with pytest.raises(SettingsError, match=r":1:1: unknown key `selct`"):
        read_settings(path)
    path.write_text("[tool]\ntorchlint = { ignore = [], selct = 1 }\n")
    with pytest.raises(SettingsError, match=r":2:28: unknown key `selct`"):
        read_settings(path)
    path.write_text("[tool]\ntorchlint = 3\n")
    with pytest.raises(SettingsError, match=r":2:1: `torchlint` must be a table"):
        read_settings(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "torchlint.toml"
    with pytest.raises(SettingsError, match=r"torchlint.toml: cannot be read: No such file"):
        read_settings(path)
    path.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"torchlint.toml: cannot be read: it is not UTF-8"):
        read_settings(path)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('select = [\n  "TL2",\n  "TL999",\n]', "3:3", "unknown rule `TL999` (`torchlint rules` lists them)"),
        ('ignore = ["mising-zero-grad"]', "1:11", "unknown rule `mising-zero-grad`; did you mean `missing-zero-grad`?"),
        ('extend-select = ["tl201"]', "1:18", "unknown rule `tl201`; did you mean `TL201`?"),
        ("[per-file-ignores]\n'a' = ['TL2']\n'b' = ['TL2', 'all']", "3:15", "unknown rule `all`; did you mean `ALL`?"),
        ("[severity]\nnoisi = 'off'", "2:1", "unknown rule `noisi`; did you mean `noisy`?"),
        ('select = ["E501"]', "1:11", "unknown rule `E501` (`torchlint rules` lists them)"),
    ],
)
def test_an_unknown_rule_is_an_error_with_its_place(tmp_path: Path, text: str, place: str, message: str) -> None:
    path = tmp_path / "torchlint.toml"
    path.write_text(text)
    settings = read_settings(path)
    assert settings is not None
    with pytest.raises(SettingsError) as error:
        settings.validate(RULES)
    assert str(error.value) == f"{path}:{place}: {message}"


def test_known_rules_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "torchlint.toml"
    path.write_text(EVERY_KEY)
    settings = read_settings(path)
    assert settings is not None
    settings.with_override(Selection(("TL", "TL20", "ALL"), ("noisy",), ("TL302",))).validate(RULES)


def test_an_unknown_rule_of_the_command_line_has_no_place() -> None:
    with pytest.raises(SettingsError) as error:
        Settings(override=Selection(ignore=("TL9",))).validate(RULES)
    assert str(error.value) == "unknown rule `TL9` (`torchlint rules` lists them)"


def test_settings_of_an_editor_are_read_from_a_table() -> None:
    assert parse_settings({"select": ["TL2"]}, Origin(), None) == Settings(select=("TL2",))
    with pytest.raises(SettingsError) as error:
        parse_settings({"selct": ["TL2"]}, Origin(), None)
    assert str(error.value) == "unknown key `selct`; did you mean `select`?"
