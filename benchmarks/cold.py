"""Cold lint: a text that was never seen, all rules, inside a process that runs already."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import PEERS, Source, peer

DRIVER = Path(__file__).with_name("cold_driver.py")
#: Rounds of each tool: as many as make the fastest round steady, few for those that need many seconds a file.
ROUNDS = {"ast.parse": 15, "torchlint": 9, "TorchFix (flake8)": 2, "TorchFix (command)": 2, "torch-preflight": 2}


@dataclass(frozen=True)
class ColdTimes:
    """Seconds of a tool for each file: the fastest round, and the first one of the process."""

    tool: str
    version: str
    fastest: dict[str, float]
    first: dict[str, float]


def measure(sources: list[Source]) -> list[ColdTimes]:
    """Times of every tool on every file; ``ast.parse`` before and after torchlint, as the machine may have changed."""
    times = {tool: _times(tool, sources) for tool in ROUNDS}
    again = _times("ast.parse", sources)
    parse = times["ast.parse"]
    fastest = {name: min(parse.fastest[name], again.fastest[name]) for name in parse.fastest}
    times["ast.parse"] = ColdTimes(parse.tool, parse.version, fastest, parse.first)
    return list(times.values())


def _times(tool: str, sources: list[Source]) -> ColdTimes:
    package = tool.split(" ")[0]
    python = str(peer(package) / "python") if package in PEERS else sys.executable
    paths = {str(source.path): source.name for source in sources}
    command = [python, "-I", str(DRIVER), tool, str(ROUNDS[tool]), *paths]
    print(f"cold lint: {tool}", file=sys.stderr, flush=True)
    result = json.loads(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)
    times = {paths[path]: seconds for path, seconds in result["files"].items()}
    return ColdTimes(
        tool,
        result["version"],
        {name: min(seconds) for name, seconds in times.items()},
        {name: seconds[0] for name, seconds in times.items()},
    )
