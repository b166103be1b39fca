"""Times one tool on files, inside the Python of that tool's own environment; only the standard library is needed.

    python cold_driver.py TOOL ROUNDS FILE...    ->    JSON {"version": ..., "files": {FILE: {"tool": [seconds, ...],
                                                                                       "ast.parse": [seconds, ...]}}}

Timed is what the tool does with a text that it has not seen, not the start of the interpreter or imports. The first
time of each file comes from the first call, which may load tables; the caller decides what it takes. `ast.parse` is
timed before each call, as a measure of how fast the machine is just then. Seconds are those of the processor.
"""

from __future__ import annotations

import ast
import gc
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable

Lint = Callable[[str, str], object]


def _torchlint() -> tuple[str, Lint]:
    from torchlint import lint
    from torchlint.settings import Settings

    settings = Settings(select=("ALL",))
    return importlib.metadata.version("torchlint"), lambda text, name: lint(text, name, settings)


def _torchfix_plugin() -> tuple[str, Lint]:
    """TorchFix as flake8 calls it."""
    from torchfix.torchfix import TorchChecker

    return importlib.metadata.version("TorchFix"), lambda text, _: list(
        TorchChecker(None, text.splitlines(keepends=True)).run()
    )


def _torchfix_command() -> tuple[str, Lint]:
    """TorchFix as its own command calls it, without starting processes."""
    import contextlib
    import io

    from libcst import codemod
    from torchfix.torchfix import TorchCodemod, TorchCodemodConfig, process_error_code_str

    config = TorchCodemodConfig(select=list(process_error_code_str(None)))

    def lint(text: str, name: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            codemod.transform_module(TorchCodemod(codemod.CodemodContext(filename=name), config), text)

    return importlib.metadata.version("TorchFix"), lint


def _torch_preflight() -> tuple[str, Lint]:
    from torch_preflight.engine import check_source

    return importlib.metadata.version("torch-preflight"), lambda text, name: check_source(name, text)


TOOLS: dict[str, Callable[[], tuple[str, Lint]]] = {
    "torchlint": _torchlint,
    "TorchFix (flake8)": _torchfix_plugin,
    "TorchFix (command)": _torchfix_command,
    "torch-preflight": _torch_preflight,
}


def _seconds(function: Lint, text: str, name: str) -> float:
    gc.collect()
    start = time.process_time()
    function(text, name)
    return time.process_time() - start


def main() -> None:
    tool, rounds, *files = sys.argv[1:]
    version, lint = TOOLS[tool]()
    times: dict[str, dict[str, list[float]]] = {name: {"tool": [], "ast.parse": []} for name in files}
    texts = {}
    for name in files:
        with open(name, encoding="utf-8", newline="") as file:  # noqa: PTH123
            texts[name] = file.read()
    for _ in range(int(rounds)):
        for name, text in texts.items():
            times[name]["ast.parse"].append(min(_seconds(ast.parse, text, name) for _ in range(3)))
            times[name]["tool"].append(_seconds(lint, text, name))
    json.dump({"version": version, "files": times}, sys.stdout)


if __name__ == "__main__":
    main()
