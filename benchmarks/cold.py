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
ROUNDS = {"torchlint": 9, "TorchFix (flake8)": 2, "TorchFix (command)": 2, "torch-preflight": 2}


@dataclass(frozen=True)
class ColdTimes:
    """Processor seconds of a tool for each file in its fastest round, and of the very first call (for the first file).

    ``parse`` is the fastest ``ast.parse`` between the rounds, in the same process.
    """

    tool: str
    version: str
    fastest: dict[str, float]
    first: float
    parse: dict[str, float]

    def ratio(self, file: str) -> float:
        """How many ``ast.parse`` of the file the tool takes."""
        return self.fastest[file] / self.parse[file]


def measure(sources: list[Source]) -> list[ColdTimes]:
    """Times of every tool on every file, torchlint first."""
    return [_times(tool, sources) for tool in ROUNDS]


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
        {name: min(seconds["tool"]) for name, seconds in times.items()},
        times[sources[0].name]["tool"][0],
        {name: min(seconds["ast.parse"]) for name, seconds in times.items()},
    )
