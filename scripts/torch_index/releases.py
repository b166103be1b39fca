"""releases.json: every public name of the modules of torch that users write, and the release that brought it.

What the newest release has is found by running it. What older releases had stands in releases.tsv (module, name, the
first indexed release that has it, the first that lacks it again), which this writes from the Python sources and stubs
of their wheels, unpacked below one folder by version:

    pip download --no-deps --only-binary=:all: --platform macosx_11_0_arm64 --python-version 3.11 -d w torch==2.4.0
    python -c "import zipfile, sys; zipfile.ZipFile(sys.argv[1]).extractall('releases/2.4.0')" w/*.whl
    python -m scripts.torch_index.releases releases

A release counts as having a name if the word stands anywhere in the source or stub of the module, or of a module that
it imports everything from: a name may seem older than it is, never newer. A name whose word the running torch does not
show in this way has no release. Names that torch has in the oldest indexed release have none either.
"""

from __future__ import annotations

import ast
import csv
import functools
import importlib
import pkgutil
import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from .names import all_bindings, belongs_to

ROWS = Path(__file__).with_suffix(".tsv")
#: Modules whose public names are all known; not those that make names up when asked (torch.ops, torch.classes).
MODULES = (
    "torch torch.accelerator torch.amp torch.autograd torch.autograd.functional torch.autograd.profiler torch.compiler "
    "torch.cuda torch.cuda.amp torch.distributed torch.distributed.fsdp torch.distributions torch.export torch.fft "
    "torch.func torch.hub torch.jit torch.linalg torch.multiprocessing torch.nested torch.nn torch.nn.attention "
    "torch.nn.functional torch.nn.init torch.nn.parallel torch.nn.utils torch.nn.utils.parametrizations "
    "torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.optim torch.optim.lr_scheduler "
    "torch.optim.swa_utils torch.profiler torch.random torch.serialization torch.signal.windows torch.sparse "
    "torch.special torch.utils torch.utils.checkpoint torch.utils.data torch.utils.data.distributed"
).split()
#: Files that bind names of a module without a star import.
_ALSO = {
    "torch": ("_C/__init__.pyi", "_C/_VariableFunctions.pyi", "functional.py", "_tensor_str.py", "_VF.pyi"),
    "torch.nn.functional": ("nn/functional.pyi", "_C/_nn.pyi"),
    "torch.distributed": ("_C/_distributed_c10d.pyi", "distributed/distributed_c10d.py"),
    "torch.nn": ("nn/modules/__init__.py", "nn/modules/__init__.pyi"),
    "torch.cuda": ("_C/__init__.pyi",),
}
_STAR = re.compile(r"^\s*from\s+([.\w]+)\s+import\s+\*", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")


def running() -> dict[str, dict[str, Any]]:
    """Module -> public name -> object, in the torch that runs; submodules count, loaded or not."""
    all_bindings()
    found: dict[str, dict[str, Any]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        names = {entry: getattr(module, entry, None) for entry in dir(module) if is_public(entry)}
        for submodule in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if is_public(submodule.name):
                names.setdefault(submodule.name, None)
        found[name] = names
    return found


def is_public(name: str) -> bool:
    return not name.startswith("_") and name.isidentifier()


def words(release: Path, module: str, seen: set[str] | None = None) -> set[str]:
    """The words in the sources and stubs of a module, and the names of what lies in its folder."""
    seen = set() if seen is None else seen
    if module in seen:
        return set()
    seen.add(module)
    place = release.joinpath(*module.split("."))
    also = [release / "torch" / path for path in _ALSO.get(module, ())]
    files = [place.with_suffix(".py"), place.with_suffix(".pyi"), place / "__init__.py", place / "__init__.pyi", *also]
    found = {path.stem for path in place.iterdir()} if place.is_dir() else set()
    for path in files:
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found.update(_WORD.findall(text))
        for star in _STAR.findall(text):
            package = module if path.stem == "__init__" else module.rpartition(".")[0]
            found |= words(release, absolute(star, package), seen)
    return found


def absolute(name: str, package: str) -> str:
    """The module that ``from <name> import *`` means in a package."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - dots + 1])
    return f"{base}.{name[dots:]}" if name[dots:] else base


def bound(release: Path, module: str, seen: set[str] | None = None) -> set[str]:
    """The public names that a module binds by its source: definitions, assignments, imports, stubs, submodules."""
    seen = set() if seen is None else seen
    if module in seen:
        return set()
    seen.add(module)
    place = release.joinpath(*module.split("."))
    also = [release / "torch" / path for path in _ALSO.get(module, ()) if module != "torch.cuda"]
    files = [place.with_suffix(".py"), place.with_suffix(".pyi"), place / "__init__.py", place / "__init__.pyi", *also]
    found = {path.stem for path in place.iterdir()} if place.is_dir() else set()
    for path in files:
        if not path.is_file():
            continue
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        for name in bound_by(ast.parse(path.read_text(encoding="utf-8", errors="replace")).body):
            found |= bound(release, absolute(name[1:], package), seen) if name.startswith("*") else {name}
    return {name for name in found if is_public(name)}


def bound_by(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements bind; `*module` for a star import."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (part.id for item in targets for part in ast.walk(item) if isinstance(part, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.ImportFrom(names=aliases):
                origin = "." * statement.level + (statement.module or "")
                yield from (f"*{origin}" if alias.name == "*" else alias.asname or alias.name for alias in aliases)
            case ast.If() | ast.Try() | ast.With():
                for field in ("body", "orelse", "finalbody"):
                    yield from bound_by(getattr(statement, field, []))
                for handler in getattr(statement, "handlers", []):
                    yield from bound_by(handler.body)


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


def short(release: str) -> str:
    return ".".join(release.split(".")[:2])


def make_rows(folder: Path) -> Iterable[tuple[str, str, str, str]]:
    """The rows of releases.tsv from the sources of older releases, and of the torch that runs."""
    releases = sorted((path for path in folder.iterdir() if (path / "torch").is_dir()), key=lambda p: number(p.name))
    current = Path(torch.__file__).parent.parent
    newest = short(torch.__version__)
    for module, names in running().items():
        history = [(short(path.name), words(path, module)) for path in releases]
        shown = words(current, module)
        for name in sorted(names):
            lacking = [release for release, known in history if name not in known]
            later = [release for release, known in history if name in known]
            since = next((r for r in [*later, newest] if not lacking or number(r) > number(lacking[-1])), newest)
            if lacking and name in shown and is_torch(names[name]):
                yield module, name, since, ""
        for name in sorted(set().union(*(bound(path, module) for path in releases)) - set(names)):
            last = max((index for index, (_, known) in enumerate(history) if name in known), default=-1)
            yield module, name, "", history[last + 1][0] if last + 1 < len(history) else newest


def is_torch(value: Any) -> bool:
    """Whether torch makes the thing, rather than only importing it."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("torch")
    return value is not None and callable(value) and belongs_to(torch, value)


@functools.cache
def rows() -> tuple[dict[str, str], ...]:
    with ROWS.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def build() -> dict[str, dict[str, Any]]:
    """Module -> {"names": all public names, "since": release -> names, "gone": names that it once had}."""
    table: dict[str, dict[str, Any]] = {}
    for module, names in running().items():
        own = [row for row in rows() if row["module"] == module]
        since: dict[str, list[str]] = {}
        for row in own:
            if row["since"] and row["name"] in names:
                since.setdefault(row["since"], []).append(row["name"])
        gone = sorted({row["name"] for row in own if not row["since"]} - set(names))
        table[module] = {
            "names": " ".join(sorted(names)),
            "since": {release: " ".join(sorted(entries)) for release, entries in sorted(since.items())},
            "gone": " ".join(gone),
        }
    return table


def main() -> None:
    with ROWS.open("w", encoding="utf-8", newline="\n") as file:
        file.write("module\tname\tsince\tgone\n")
        for row in make_rows(Path(sys.argv[1])):
            file.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
