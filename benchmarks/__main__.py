"""Runs every benchmark and writes ``benchmarks/results.md``."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from benchmarks import cold, editing, processes, report
from benchmarks.inputs import PACKAGE, PACKAGE_VERSION, ROOT, Source, package_folder, peer, sources
from benchmarks.language_server import LanguageServer

RESULTS = Path(__file__).with_name("results.md")
PROGRAMS = Path(sys.executable).parent
TORCHLINT = [str(PROGRAMS / "torchlint")]
RUFF = str(peer("ruff") / "ruff")
#: Name -> command. torchlint as editors start it: isolated from PYTHONPATH and from the folder that is open.
SERVERS = {
    "torchlint server": [sys.executable, "-I", "-m", "torchlint", "server"],
    "ruff server": [RUFF, "server"],
}


def start(name: str) -> processes.Start:
    """What starts this server in a folder."""
    return lambda folder: LanguageServer(SERVERS[name], folder)


def cold_section(files: list[Source]) -> str:
    return (
        "## Cold lint\n\n"
        + report.cold_table(files, cold.measure(files))
        + "\n\nProcessor time of the fastest of several rounds in a running process, parsing included. Each tool is"
        " compared with `ast.parse` between its own rounds, so that a busy moment of the machine does not count for or"
        " against it. torchlint runs with `--select ALL`, the others with their default rules.\n"
    )


def keystroke_section(files: list[Source]) -> str:
    rows, versions = [], {}
    for source in files:
        print(f"keystrokes: {source.name}", file=sys.stderr, flush=True)
        servers = {name: start(name)(source.path.parent) for name in SERVERS}
        try:
            versions = {name: server.version for name, server in servers.items()}
            rows.append((source, editing.keystrokes(servers, source)))
        finally:
            for server in servers.values():
                server.__exit__(None, None, None)
    ours, theirs = SERVERS
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        "## Keystrokes\n\n"
        + report.keystroke_table(rows, ours, theirs)
        + (
            f"\n\nOne keystroke: `textDocument/didChange` with one character, then `textDocument/diagnostic` until its"
            f" answer is read. Lines are typed at the top level, in functions and in `__init__`, at the start, the"
            f" middle and the end of the file; the servers take turns. {told}, each with its default rules.\n"
        )
    )


def lookup_section(files: list[Source]) -> str:
    rows = []
    for source in files:
        print(f"hover and code actions: {source.name}", file=sys.stderr, flush=True)
        with start("torchlint server")(source.path.parent) as server:
            measured = editing.lookups(server, source)
        for name, seconds in measured.items():
            middle, high = statistics.median(seconds), report.p95(seconds)
            rows.append([f"{name}, {source.name}", report.milliseconds(middle), report.milliseconds(high)])
    return "## Hover and code actions\n\n" + report.table(["at a finding", "median", "p95"], rows) + "\n"


def process_section(_: list[Source]) -> str:
    rows = []
    for name in SERVERS:
        print(f"start and memory: {name}", file=sys.stderr, flush=True)
        seconds = processes.initialize_times(start(name))
        rows.append([f"{name}: start to `initialize` answered", report.milliseconds(statistics.median(seconds))])
    for name in SERVERS:
        before, after = processes.memory_with_open_files(start(name))
        rows.append([f"{name}: memory after `initialize`", f"{before:.0f} MB"])
        rows.append([f"{name}: memory, 50 files of timm open", f"{after:.0f} MB"])
    print("command line", file=sys.stderr, flush=True)
    programs = {
        "torchlint check": [*TORCHLINT, "check", "--isolated", "--no-cache"],
        "torchlint check, warm cache": [*TORCHLINT, "check", "--isolated"],
        "ruff check": [RUFF, "check", "--isolated", "--no-cache"],
    }
    for name, seconds in processes.command_times(programs).items():
        rows.append([f"`{name}` on one small file", report.milliseconds(statistics.median(seconds))])
    for package in (package_folder() / PACKAGE, *ROOT.glob(".torch-venv/lib/*/site-packages/torch")):
        print(f"whole tree: {package.name}", file=sys.stderr, flush=True)
        runs = processes.tree_runs([*TORCHLINT, "check", "--isolated", "--select", "ALL"], package)
        what = f"`torchlint check --select ALL` on all of {package.name} ({runs.lines:,} lines)"
        rows.append([f"{what}, first run", report.milliseconds(runs.first)])
        rows.append(["the same again", report.milliseconds(runs.second)])
        rows.append(["the same after a change of its longest file", report.milliseconds(runs.one_changed)])
    return "## Processes\n\n" + report.table(["what", "median"], rows) + "\n"


SECTIONS: dict[str, Callable[[list[Source]], str]] = {
    "cold": cold_section,
    "keystrokes": keystroke_section,
    "lookups": lookup_section,
    "processes": process_section,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="|".join(SECTIONS), help="only these, printed and not written")
    chosen = parser.parse_args().sections or list(SECTIONS)
    if unknown := [name for name in chosen if name not in SECTIONS]:
        parser.error(f"unknown: {', '.join(unknown)}")
    files = sources()
    parts = [SECTIONS[name](files) for name in chosen]
    text = (
        "# Benchmarks\n\nWritten by `make bench`; everything in one run. Files of "
        f"{PACKAGE} {PACKAGE_VERSION}. {report.machine()}, {date.today().isoformat()}.\n\n" + "\n".join(parts)
    )
    print(text)
    if chosen == list(SECTIONS):
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
