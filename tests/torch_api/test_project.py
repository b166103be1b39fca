"""The versions of torch that a project allows are read from whatever declares them, and nothing of it is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchlint.torch_api.project import TorchRange, project_torch_range

if TYPE_CHECKING:
    from pathlib import Path


def found(folder: Path, **files: str) -> str | None:
    """The range for a folder with files, whose names are written with `__` for `.`."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, "utf-8")
    result = project_torch_range(folder)
    return None if result is None else str(result)


@pytest.mark.parametrize(
    ("specifiers", "lower", "upper"),
    [
        ([">=2.4"], "2.4", None),
        (["~=2.4.1"], "2.4.1", "2.5"),
        (["~=2.4"], "2.4", "3"),
        (["==2.4.*"], "2.4", "2.5"),
        (["==2.4.0+cu121"], "2.4.0", "2.4.0"),
        ([">=2.6.0.dev20250101"], "2.6.0", None),
        (["<3"], None, "3"),
        (["!=2.5"], None, None),
        ([">=2.1,>=2.3,<2.7,<3"], "2.3", "2.7"),
        ([">=2.4,<2.6", ">=2.2,<2.5"], "2.2", "2.6"),
        ([">=2.4", "<2.5"], None, None),
        ([], None, None),
    ],
)
def test_bounds(specifiers: list[str], lower: str | None, upper: str | None) -> None:
    torch = TorchRange(*specifiers)
    assert str(torch.lower) == str(lower)
    assert str(torch.upper) == str(upper)


def test_questions_about_a_range() -> None:
    torch = TorchRange(">=2.4,<2.6")
    assert [torch.may_be_below(version) for version in ("2.3", "2.4", "2.4.1", "2.6")] == [False, False, True, True]
    assert [torch.always_at_least(version) for version in ("2.3", "2.4", "2.5")] == [True, True, False]
    assert [torch.may_be_at_least(version) for version in ("2.5.1", "2.6", "2.7")] == [True, False, False]
    assert TorchRange("==2.6.0").may_be_at_least("2.6")
    assert TorchRange("<=2.6").may_be_at_least("2.6")
    assert TorchRange("").may_be_below("1.0")
    assert TorchRange(">=1").may_be_at_least("99")


def test_ranges_are_values() -> None:
    assert TorchRange(">=2.4") == TorchRange(">=2.4")
    assert len({TorchRange(">=2.4"), TorchRange(">=2.4"), TorchRange(">=2.5")}) == 2
    assert str(TorchRange(">=2.4", "<2")) == ">=2.4 or <2"
    with pytest.raises(ValueError, match="new"):
        TorchRange("new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[project]\ndependencies = ["numpy", "torch>=2.4,<3"]', "<3,>=2.4"),
        ("[project]\ndependencies = [\"Torch [opt] >= 2.4 ; python_version > '3.9'\"]", ">=2.4"),
        (
            "[project]\ndependencies = [\"torch>=2.4; os_name != 'nt'\", \"torch>=2.2; os_name == 'nt'\"]",
            ">=2.4 or >=2.2",
        ),
        ('[project]\ndependencies = ["torch"]', None),
        ('[project]\ndependencies = ["torchvision>=0.19", "pytorch-lightning>=2.4", "torch-geometric==2"]', None),
        ('[project.optional-dependencies]\nml = ["torch~=2.3"]', "~=2.3"),
        (
            '[project]\ndependencies = ["torch>=2.1"]\n[dependency-groups]\nx = ["torch==2.6", {include-group = "y"}]',
            ">=2.1",
        ),
        ('[dependency-groups]\ndev = [{include-group = "x"}, "torch==2.6"]', "==2.6"),
        ('[tool.poetry.dependencies]\ntorch = "^2.4"', "<3,>=2.4"),
        ('[tool.poetry.dependencies]\ntorch = "~2.4.1"', "<2.5,>=2.4.1"),
        ('[tool.poetry.dependencies]\ntorch = "2.4.1"', "==2.4.1"),
        ('[tool.poetry.dependencies]\ntorch = "2.*"', "==2.*"),
        ('[tool.poetry.dependencies]\ntorch = "*"', None),
        (
            '[tool.poetry.dependencies]\ntorch = {version = ">=2.1, <2.4 || ^2.5", source = "cpu"}',
            "<2.4,>=2.1 or <3,>=2.5",
        ),
        (
            '[tool.poetry.dependencies]\ntorch = [{version = "2.4", platform = "linux"}, {version = "2.2"}]',
            "==2.4 or ==2.2",
        ),
        ('[tool.poetry.group.dev.dependencies]\ntorch = "^0.4.1"', "<0.5,>=0.4.1"),
        (
            '[project]\ndependencies = ["torch @ https://x.test/torch-2.4.0%2Bcu121-cp310-cp310-linux_x86_64.whl"]',
            "==2.4.0+cu121",
        ),
        ('[project]\ndependencies = ["torch>>2", 3]\n', None),
        ('[project\ndependencies = ["torch>=2"]\n', None),
    ],
)
def test_pyproject(tmp_path: Path, text: str, expected: str | None) -> None:
    assert found(tmp_path, pyproject__toml=text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# torch>=1\n-r base.txt\nnumpy\ntorch>=2.4  # comment\n", ">=2.4"),
        ("torch==2.4.0+cu121 --hash=sha256:ab \\\n  --hash=sha256:cd\n", "==2.4.0+cu121"),
        ("--extra-index-url https://x.test/torch\ntorch\ntorchvision==0.19\n", None),
        ("https://x.test/torch-2.3.1-cp310-none-linux_x86_64.whl\n", "==2.3.1"),
        ("./torch-bad.whl\n", None),
    ],
)
def test_requirements_files(tmp_path: Path, text: str, expected: str | None) -> None:
    assert found(tmp_path, requirements__txt=text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("- pytorch=2.4", "==2.4.*"),
        ("- pytorch=2.4.0=py3.10_cuda12.1", "==2.4.0.*"),
        ("- pytorch==2.4.0", "==2.4.0"),
        ("- conda-forge::pytorch>=2.1,<3", "<3,>=2.1"),
        ("- 'pytorch 2.4.*'", "==2.4.*"),
        ("- pytorch-gpu=2.4  # comment", "==2.4.*"),
        ("    - torch>=2.2", ">=2.2"),
        ("- pytorch=1.7.1=py3.7_cuda10.2.89_cudnn7.6.5_0", "==1.7.1.*"),
        ("- pytorch", None),
        ("- pytorch-lightning=2.4", None),
        ("- torchvision=0.19", None),
    ],
)
def test_conda_environments(tmp_path: Path, line: str, expected: str | None) -> None:
    assert (
        found(
            tmp_path,
            environment__yml=f"name: x\nchannels:\n  - pytorch\ndependencies:\n  - python=3.11\n  {line}\nprefix: /x\n",
        )
        == expected
    )


def test_a_folder_of_requirements_files(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "base.txt").write_text("torch>=2.3\n")
    (tmp_path / "requirements" / "notes.md").write_text("torch>=1\n")
    assert found(tmp_path, requirements_dev__txt="torch\n") is None
    (tmp_path / "requirements_dev.txt").unlink()
    assert found(tmp_path) == ">=2.3"


def test_setup_cfg_and_setup_py(tmp_path: Path) -> None:
    python = "import boom\nboom()\nsetup(install_requires=['torch>=1.12', 'torch'], description='torch>=1 is nice')\n"
    assert found(tmp_path, setup__py=python) == ">=1.12"
    assert found(tmp_path, setup__cfg="[options.extras_require]\nall =\n  numpy\n  torch>=2.0\n") == ">=2.0"
    assert (
        found(tmp_path, setup__cfg="[options]\ninstall_requires =\n  numpy\n  torch>=2.1 ; python_version<'4'\n")
        == ">=2.1"
    )
    assert found(tmp_path, setup__cfg="torch") == ">=1.12"


@pytest.mark.parametrize("name", ["uv__lock", "poetry__lock", "pdm__lock"])
def test_a_lock_counts_where_no_requirement_bounds_torch(tmp_path: Path, name: str) -> None:
    lock = (
        'version = 1\n[[package]]\nname = "numpy"\nversion = "2"\n[[package]]\nname = "torch"\nversion = "2.6.0+cpu"\n'
    )
    project = '[project]\ndependencies = ["torch"]'
    assert found(tmp_path, pyproject__toml=project, **{name: lock}) == "==2.6.0+cpu"
    assert found(tmp_path, pyproject__toml=project.replace("torch", "torch>=2.1")) == ">=2.1"


def test_the_nearest_folder_that_says_decides(tmp_path: Path) -> None:
    inner = tmp_path / "packages" / "a" / "src"
    inner.mkdir(parents=True)
    assert found(tmp_path, requirements__txt="torch>=2.0") == ">=2.0"
    (tmp_path / "packages" / "a" / "pyproject.toml").write_text('[project]\nname = "a"')
    assert str(project_torch_range(inner / "file.py")) == ">=2.0"
    assert found(tmp_path / "packages" / "a", requirements__txt="torch>=2.5") == ">=2.5"
    assert str(project_torch_range(inner)) == ">=2.5"


def test_the_search_ends_with_the_repository_and_before_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    (repository / "src").mkdir(parents=True)
    assert found(tmp_path, requirements__txt="torch>=2.0") == ">=2.0"
    assert str(project_torch_range(repository / "src")) == ">=2.0"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert project_torch_range(repository / "src") is None
    monkeypatch.undo()
    (repository / ".git").mkdir()
    assert project_torch_range(repository / "src") is None


def test_files_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe torch>=2\n\xfftorch\ntorch>=2.2\n")
    assert str(project_torch_range(tmp_path)) == ">=2.2"
