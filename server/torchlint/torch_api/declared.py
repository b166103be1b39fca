"""Requirements of torch in the files in which Python projects declare what they need.

Every reader takes the text of a file and returns the specifier set of each requirement of torch in it, an empty set for
a requirement without bounds. Text that is not what it should be gives nothing.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from torchlint.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMMENT = regex(r"(?:^|\s)#.*")
_OPTION = regex(r"\s--?\w.*")
_CONTINUED = regex(r"\\\r?\n")
_WHEEL = regex(r"[^/\\\s]*\.whl")
_DEPENDENCIES = regex(r"^dependencies:.*?(?=^\w|\Z)", re.DOTALL | re.MULTILINE)
_CONDA = regex(r"""\s*-\s*['"]?(?:[\w./-]+::)?(pytorch|torch)(?:-gpu|-cpu)?(?![\w-])\s*([^'"#]*)""")


def in_pyproject(text: str) -> list[SpecifierSet]:
    """`[project]`, `[dependency-groups]` (PEP 735) and Poetry's tables of a `pyproject.toml`.

    What the project itself needs decides; extras and groups count where it does not need torch.
    """
    content = _toml(text)
    project, poetry = _table(content, "project"), _table(content, "tool", "poetry")
    needed = [*_torch(_strings(project.get("dependencies"))), *_poetry(_table(poetry, "dependencies"))]
    if needed:
        return needed
    lists = [*_table(project, "optional-dependencies").values(), *_table(content, "dependency-groups").values()]
    tables = [_table(poetry, "dev-dependencies")]
    tables += [_table(_table(poetry, "group"), name, "dependencies") for name in _table(poetry, "group")]
    return [
        *(found for entries in lists for found in _torch(_strings(entries))),
        *(found for table in tables for found in _poetry(table)),
    ]


def in_setup_cfg(text: str) -> list[SpecifierSet]:
    """`install_requires`, or else `extras_require`, of a `setup.cfg`."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    needed = list(_torch(parser.get("options", "install_requires", fallback="").splitlines()))
    if needed or not parser.has_section("options.extras_require"):
        return needed
    return list(_torch(line for _, value in parser.items("options.extras_require") for line in value.splitlines()))


def in_setup_py(text: str) -> list[SpecifierSet]:
    """Requirements written as literals in a `setup.py`, which is parsed and not executed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    literals = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [found for found in _torch(literal for literal in literals if len(literal) < 200) if len(found)]


def in_requirements(text: str) -> list[SpecifierSet]:
    """A requirements file of pip, with wheels named by path or URL."""
    lines = [_OPTION.sub("", _COMMENT.sub("", line)) for line in _CONTINUED.sub(" ", text).splitlines()]
    return [*_torch(lines), *(found for line in lines for found in _wheel(line))]


def in_conda_environment(text: str) -> list[SpecifierSet]:
    """The `pytorch` of a conda environment file, or the `torch` of its pip part, found line by line."""
    found = []
    # A channel may be called `pytorch` too.
    dependencies = _DEPENDENCIES.search(text)
    for line in dependencies[0].splitlines() if dependencies else ():
        match = _CONDA.match(line)
        if not match:
            continue
        # MatchSpec of conda: `name=2.4` means 2.4.*, `name=2.4=build` names a build, `name 2.4.*` has a space.
        written = match[2].split(";")[0].strip()
        version = re.fullmatch(r"=?\s*(\d[\w.]*?)(\.?\*)?(?:\s*=\s*\S+)?", written)
        exact = re.fullmatch(r"==\s*(\d[\w.+]*)(?:=\S+)?", written)
        if exact:
            written = f"=={exact[1]}"
        elif version:
            written = f"=={version[1]}.*"
        found += _specifiers(written)
    return found


def in_lock(text: str) -> list[SpecifierSet]:
    """The exact version in the lock file of uv, Poetry, PDM or PEP 751 (several if it differs by platform)."""
    content = _toml(text)
    packages = content.get("package") or content.get("packages")
    return [
        found
        for entry in (packages if isinstance(packages, list) else [])
        if isinstance(entry, dict) and entry.get("name") == "torch" and isinstance(entry.get("version"), str)
        for found in _specifiers(f"=={entry['version']}")
    ]


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _table(content: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        value = content.get(key)
        if not isinstance(value, dict):
            return {}
        content = value
    return content


def _strings(entries: object) -> list[str]:
    return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _specifiers(written: str) -> list[SpecifierSet]:
    try:
        return [SpecifierSet(written)]
    except InvalidSpecifier:
        return []


def _torch(requirements: Iterable[str]) -> Iterator[SpecifierSet]:
    """The specifier sets of the requirements (PEP 508) of torch among some."""
    for written in requirements:
        if written.lstrip()[:5].lower() != "torch":
            continue
        try:
            requirement = Requirement(written.strip())
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "torch":
            wheel = list(_wheel(requirement.url or ""))
            yield wheel[0] if wheel else requirement.specifier


def _wheel(line: str) -> Iterator[SpecifierSet]:
    """The version in the name of a wheel of torch."""
    if "@" in line and line.lstrip().lower().startswith("torch"):
        return
    match = _WHEEL.search(line.replace("%2B", "+").replace("%2b", "+"))
    if match:
        try:
            name, version, _, _ = parse_wheel_filename(match[0])
        except (InvalidWheelFilename, InvalidVersion):
            return
        if name == "torch":
            yield SpecifierSet(f"=={version}")


def _poetry(table: dict[str, Any]) -> list[SpecifierSet]:
    found = []
    for entry in table.get("torch", []) if isinstance(table.get("torch"), list) else [table.get("torch")]:
        written = entry.get("version", "*") if isinstance(entry, dict) else entry
        if isinstance(written, str):
            for alternative in written.split("||"):
                found += _specifiers(",".join(_poetry_part(part.strip()) for part in alternative.split(",")))
    return found


def _poetry_part(part: str) -> str:
    """One of Poetry's version constraints (its documentation, "Dependency specification") in the form of PEP 440."""
    if part in ("*", ""):
        return ""
    if part[0].isdigit():
        return f"=={part}"
    if part[0] not in "^~" or part.startswith("~="):
        return part
    try:
        release = Version(part[1:].strip()).release
    except InvalidVersion:
        return part
    if part[0] == "~":
        kept = min(len(release), 2) - 1
    else:
        kept = next((place for place, number in enumerate(release) if number), len(release) - 1)
    end = (*release[:kept], release[kept] + 1)
    return f">={part[1:].strip()},<{'.'.join(map(str, end))}"
