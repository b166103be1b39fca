"""Fixes on real code: each keeps its promises (``tests/harness/properties.py``)."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.corpus.linting import analyze
from tests.corpus.packages import FOLDER, Package
from tests.harness.analysis import Program
from tests.harness.properties import broken_properties
from torchlint.text import read_document

#: Of each rule, at most so many fixes are tried, chosen by chance with a fixed seed.
PER_RULE = 60


def check(packages: Iterable[Package]) -> bool:
    """Try the fixes; whether all of them keep their promises."""
    files = [path for package in packages for path in package.files()]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        places = [place for found in pool.map(_fixable, files, chunksize=8) for place in found]
        random.Random(3).shuffle(places)
        counts: Counter[str] = Counter()
        chosen: dict[Path, list[int]] = {}
        for path, index, rule in places:
            counts[rule] += 1
            if counts[rule] <= PER_RULE:
                chosen.setdefault(path, []).append(index)
        broken = [text for found in pool.map(_try, chosen, chosen.values(), chunksize=2) for text in found]
    print("\n".join(broken))
    for rule, count in sorted(counts.items()):
        print(f"{rule:34} {min(count, PER_RULE):4} of {count} fixes tried")
    print(f"{len(broken)} broken promises")
    return not broken and bool(counts)


def _program(path: Path) -> Program:
    return Program(read_document(path), {"select": ["ALL"]})


def _fixable(path: Path) -> list[tuple[Path, int, str]]:
    findings = analyze(read_document(path)).findings
    return [(path, index, found.name) for index, found in enumerate(findings) if found.applicability is not None]


def _try(path: Path, indices: list[int]) -> list[str]:
    program = _program(path)
    broken = []
    for index in indices:
        finding = program.analysis.findings[index]
        where = f"{path.relative_to(FOLDER)}:{finding.row}: {finding.name}"
        try:
            fixes = program.fixes(finding)
        except Exception as error:
            broken.append(f"{where}: computing the fix raised {error!r}")
            continue
        if not fixes:
            broken.append(f"{where}: a fix is announced and none is offered")
        for fix in fixes:
            broken += [f"{where}: {fix.title}: {text}" for text in broken_properties(program, finding, fix)]
    return broken
