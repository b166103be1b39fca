"""Write what torchlint knows of torch: server/torchlint/torch_api/data/*.json.

A developer runs this after a new torch release, with a Python that has that torch (a CPU build is enough), then reads
the diff (one fact a line) and commits it:

    python scripts/index_torch.py            # rewrite the files
    python scripts/index_torch.py --check    # say which files differ, status 1 if any; the test suite does the same

numpy is needed, and torchvision and pillow for the two files about torchvision, which else stay as they are.
Everything is found by running torch; what running cannot tell (what a loss expects, since when a replacement exists)
stands in a table in scripts/torch_index/ with its source. torchlint itself never imports torch: it reads the files.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "server" / "torchlint" / "torch_api" / "data"


def dumps(table: Mapping[str, Any]) -> str:
    """JSON with one entry a line, sorted by key."""
    lines = [f"{json.dumps(key)}:{json.dumps(table[key], separators=(',', ':'))}" for key in sorted(table)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def contents() -> dict[str, str]:
    """File name -> text of each data file that running torch gives."""
    warnings.simplefilter("ignore")
    logging.disable()
    sys.path.insert(0, str(ROOT))
    import torch

    from scripts.torch_index import amp, calls, classes, factories, losses, modules, names, releases, versions, vision

    builders: dict[str, Callable[[], Mapping[str, Any]]] = {
        "names": names.build,
        "modules": modules.build,
        "classes": classes.build,
        "losses": losses.build,
        "factories": factories.build,
        "calls": calls.build,
        "methods": calls.build_methods,
        "amp": amp.build,
        "versions": versions.build,
        "releases": releases.build,
    }
    tables = {name: build() for name, build in builders.items()}
    if vision.available():
        tables.update(
            torchvision=vision.build(),
            torchvision_names=vision.build_names(),
            torchvision_weights=vision.build_weights(),
        )
        vision_version = vision.load().__version__
    else:
        vision_version = json.loads((DATA / "about.json").read_text(encoding="utf-8"))["torchvision"]
    tables["about"] = {
        "torch": torch.__version__.partition("+")[0],
        "torchvision": vision_version.partition("+")[0],
    }
    return {f"{name}.json": dumps(table) for name, table in tables.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, report files that differ")
    arguments = parser.parse_args()
    differing = []
    for name, text in contents().items():
        path = DATA / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            differing.append(name)
            if not arguments.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
    print("differing: " + (", ".join(differing) or "none"))
    return 1 if arguments.check and differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
