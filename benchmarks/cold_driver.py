"""Times one tool on files, inside the Python of that tool's own environment; only the standard library is needed.

    python cold_driver.py TOOL ROUNDS FILE...    ->    JSON {"version": ..., "files": {FILE: [seconds, ...]}}

Timed is what the tool does with a text that it has not seen, not the start of the interpreter or imports. The first
time of each file comes from the first call, which may load tables; the caller decides what it takes.
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


def _ast_parse() -> tuple[str, Lint]:
    return sys.version.split()[0], lambda text, name: ast.parse(text, name)


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
    "ast.parse": _ast_parse,
    "torchlint": _torchlint,
    "TorchFix (flake8)": _torchfix_plugin,
    "TorchFix (command)": _torchfix_command,
    "torch-preflight": _torch_preflight,
}


def main() -> None:
    tool, rounds, *files = sys.argv[1:]
    version, lint = TOOLS[tool]()
    times: dict[str, list[float]] = {name: [] for name in files}
    texts = {}
    for name in files:
        with open(name, encoding="utf-8", newline="") as file:  # noqa: PTH123
            texts[name] = file.read()
    for _ in range(int(rounds)):
        for name, text in texts.items():
            gc.collect()
            start = time.perf_counter()
            lint(text, name)
            times[name].append(time.perf_counter() - start)
    json.dump({"version": version, "files": times}, sys.stdout)


if __name__ == "__main__":
    main()
