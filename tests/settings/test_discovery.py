"""Which file's settings a file has, and which files are found below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchlint.settings import Selection, Settings, SettingsError, SettingsResolver, discover, settings_for
from torchlint.torch_api.torch_range import TorchRange

if TYPE_CHECKING:
    from collections.abc import Iterable


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


OURS = '[tool.torchlint]\nselect = ["TL1"]\n'


def test_the_nearest_folder_with_settings_wins(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": OURS, "a/torchlint.toml": 'select = ["TL2"]', "a/b/x.py": "", "c/x.py": ""})
    # A pyproject.toml that does not speak of torchlint is passed over.
    write(tmp_path, {"a/b/pyproject.toml": "[project]\nname = 'torchlint-plugin'\n", "c/pyproject.toml": "[tool"})
    assert settings_for(tmp_path / "a" / "b" / "x.py").select == ("TL2",)
    assert settings_for(tmp_path / "c" / "x.py").select == ("TL1",)
    assert settings_for(tmp_path / "a").root == tmp_path / "a"
    assert settings_for(tmp_path / "c" / "not yet saved.py").root == tmp_path


def test_files_in_one_folder(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": OURS})
    assert settings_for(tmp_path).select == ("TL1",)
    write(tmp_path, {"torchlint.toml": 'select = ["TL2"]'})
    assert settings_for(tmp_path).select == ("TL2",)
    write(tmp_path, {".torchlint.toml": 'select = ["TL3"]'})
    assert settings_for(tmp_path).select == ("TL3",)


def test_without_any_file(tmp_path: Path) -> None:
    assert settings_for(tmp_path / "x.py") == Settings()


def test_the_versions_of_torch_come_from_the_project_unless_they_are_set(tmp_path: Path) -> None:
    write(tmp_path, {"requirements.txt": "torch>=2.1", "a/x.py": "", "b/torchlint.toml": 'torch-version = ">=2.6"'})
    assert settings_for(tmp_path / "a" / "x.py").torch == TorchRange(">=2.1")
    assert settings_for(tmp_path / "b").torch == TorchRange(">=2.6")
    assert SettingsResolver(isolated=True).settings_for(tmp_path / "b").torch is None


def test_isolated_ignores_all_files(tmp_path: Path) -> None:
    write(tmp_path, {"torchlint.toml": "broken"})
    assert SettingsResolver(isolated=True).settings_for(tmp_path) == Settings()


def test_one_file_for_all(tmp_path: Path) -> None:
    write(tmp_path, {"torchlint.toml": "broken", "other/x.toml": 'select = ["TL2"]'})
    resolver = SettingsResolver(config=tmp_path / "other" / "x.toml", override=Selection(ignore=("TL201",)))
    settings = resolver.settings_for(tmp_path / "x.py")
    assert (settings.select, settings.root) == (("TL2",), tmp_path / "other")
    assert settings.override == Selection(ignore=("TL201",))
    with pytest.raises(SettingsError, match=r"none.toml: cannot be read"):
        SettingsResolver(config=tmp_path / "none.toml").settings_for(tmp_path)


def test_settings_are_remembered_until_they_are_forgotten(tmp_path: Path) -> None:
    write(tmp_path, {"torchlint.toml": 'select = ["TL1"]', "a/x.py": "", "b/x.py": ""})
    resolver = SettingsResolver()
    first = resolver.settings_for(tmp_path / "a" / "x.py")
    assert resolver.settings_for(tmp_path / "b" / "x.py") is first
    write(tmp_path, {"torchlint.toml": 'select = ["TL2"]'})
    assert resolver.settings_for(tmp_path / "a" / "x.py") is first
    resolver.forget()
    assert resolver.settings_for(tmp_path / "a" / "x.py").select == ("TL2",)


def test_a_wrong_file_is_said_for_every_file_below_it_and_for_no_other(tmp_path: Path) -> None:
    write(tmp_path, {"a/torchlint.toml": "nonsense = 1", "a/b/x.py": "", "c/x.py": ""})
    resolver = SettingsResolver()
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"torchlint.toml:1:1: unknown key `nonsense`"):
            resolver.settings_for(tmp_path / "a" / "b" / "x.py")
    assert resolver.settings_for(tmp_path / "c" / "x.py") == Settings()


def found(folder: Path, *paths: str, resolver: SettingsResolver | None = None) -> list[str]:
    starts: Iterable[Path] = [folder / path for path in paths] if paths else [folder]
    return [path.relative_to(folder).as_posix() for path in discover(starts, resolver or SettingsResolver())]


def test_python_files_stubs_and_notebooks_in_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["b.py", "a.py", "c/z.pyi", "c.py", "c/n.ipynb", "x.txt", "y.pyc", "d/e/f.py"], ""))
    assert found(tmp_path) == ["a.py", "b.py", "c/n.ipynb", "c/z.pyi", "c.py", "d/e/f.py"]


def test_named_files_are_always_found_and_nothing_twice(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["a.py", ".venv/b.py", "script"], ""))
    assert found(tmp_path, "script", ".venv/b.py", "missing.py", ".", "a.py") == [
        "script",
        ".venv/b.py",
        "missing.py",
        "a.py",
    ]


def test_paths_are_given_back_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a/b.py": ""})
    monkeypatch.chdir(tmp_path)
    assert [str(path) for path in discover([Path("a"), Path("a/../a/b.py")], SettingsResolver())] == [
        str(Path("a/b.py"))
    ]


def test_folders_of_other_peoples_code_are_left_out(tmp_path: Path) -> None:
    kept = ["a.py", "builder/b.py", "src/distance.py"]
    left = [
        ".venv/x.py",
        "a/venv/x.py",
        "node_modules/m/x.py",
        "build/x.py",
        "lib/site-packages/t/x.py",
        "a/__pycache__/x.py",
    ]
    write(tmp_path, dict.fromkeys([*kept, *left], ""))
    assert found(tmp_path) == kept
    # Who names such a folder wants to see it.
    assert found(tmp_path, "build", "lib/site-packages") == ["build/x.py", "lib/site-packages/t/x.py"]


def test_exclude_replaces_and_extend_exclude_adds(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["a.py", "build/b.py", "old/c.py", "src/old/d.py", "src/gen_e.py", ".venv/x.py"], ""))
    write(tmp_path, {"torchlint.toml": 'exclude = ["/old", ".venv"]\nextend-exclude = ["gen_*.py"]'})
    assert found(tmp_path) == ["a.py", "build/b.py", "src/old/d.py"]
    write(tmp_path, {"torchlint.toml": 'extend-exclude = ["old/", "!src/old/"]'})
    assert found(tmp_path) == ["a.py", "src/gen_e.py", "src/old/d.py"]


def test_nested_settings_exclude_below_themselves(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["a/gen.py", "b/gen.py", "b/c.py"], ""))
    write(tmp_path, {"b/torchlint.toml": 'extend-exclude = ["gen.py"]'})
    assert found(tmp_path) == ["a/gen.py", "b/c.py"]


def test_what_git_ignores_is_left_out_at_every_level(tmp_path: Path) -> None:
    files = ["a.py", "out/b.py", "src/c.py", "src/tmp_d.py", "src/keep/tmp_e.py", "src/skip/f.py", "data/g.py", "h.py"]
    write(tmp_path, dict.fromkeys(files, ""))
    write(tmp_path, {".gitignore": "out/\ntmp_*.py\n# note\n/data\n!a\\\n", "src/keep/.gitignore": "!tmp_e.py\n"})
    write(tmp_path, {"src/.gitignore": "skip\n", ".git/info/exclude": "h.py\n"})
    assert found(tmp_path) == ["a.py", "src/c.py", "src/keep/tmp_e.py"]
    assert found(tmp_path, "src") == ["src/c.py", "src/keep/tmp_e.py"]
    assert found(tmp_path, "out") == ["out/b.py"]
    write(tmp_path, {"torchlint.toml": "respect-gitignore = false"})
    assert len(found(tmp_path)) == len(files)


def test_an_ignore_file_goes_over_gitignore(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["a.py", "b.py", "c.py"], ""))
    write(tmp_path, {".gitignore": "a.py\nb.py\n", ".ignore": "!b.py\nc.py\n"})
    assert found(tmp_path) == ["b.py"]


def test_a_bad_row_of_gitignore_costs_itself(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "b.py": "", ".gitignore": "!\na.py\n"})
    assert found(tmp_path) == ["b.py"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"a/b.py": "", "a/c.py": ""})
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "z").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "d.py").symlink_to(tmp_path / "a" / "b.py")
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere.py")
    assert found(tmp_path) == ["a/b.py", "a/c.py", "d.py"]
    assert found(tmp_path, "z") == ["z/b.py", "z/c.py"]


def test_a_wrong_settings_file_on_the_way_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"a/torchlint.toml": "nonsense = 1", "a/x.py": ""})
    with pytest.raises(SettingsError, match="unknown key `nonsense`"):
        found(tmp_path)
    assert found(tmp_path, resolver=SettingsResolver(isolated=True)) == ["a/x.py"]


def test_a_folder_that_must_be_left_out_is_said_and_the_others_are_found(tmp_path: Path) -> None:
    write(tmp_path, {"a/torchlint.toml": "nonsense = 1", "a/x.py": "", "b/y.py": ""})
    failures: list[tuple[Path, Exception]] = []
    paths = discover([tmp_path], SettingsResolver(), lambda folder, error: failures.append((folder, error)))
    assert [path.name for path in paths] == ["y.py"]
    ((folder, error),) = failures
    assert folder == tmp_path / "a"
    assert isinstance(error, SettingsError)


def test_settings_that_are_nested_too_deeply_are_an_error_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text("select = " + "[" * 20_000)
    with pytest.raises(SettingsError, match=r"torchlint\.toml: is not valid TOML: it is nested too deeply"):
        settings_for(tmp_path / "a.py")


def test_the_table_of_pyproject_in_a_file_of_its_own_is_explained(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text("[tool.torchlint]\nignore = ['TL9']\n")
    with pytest.raises(SettingsError, match=r"without `\[tool.torchlint\]`"):
        settings_for(tmp_path / "a.py")
