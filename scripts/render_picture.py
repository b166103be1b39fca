"""Draws ``docs/images/check.svg``: a terminal with what ``torchlint check`` prints about an example."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "check.svg"
COMMAND = ["torchlint", "check", "--select", "TL2,TL3", "examples/train_classifier.py"]
#: A line of the report that is longer goes on in the next one, as on a terminal of this width.
COLUMNS = 132

THEME = TerminalTheme(
    (30, 30, 36),
    (214, 214, 221),
    [(30, 30, 36), (240, 98, 104), (126, 200, 120), (229, 192, 94), (98, 160, 244), (200, 130, 230), (90, 200, 210),
     (214, 214, 221)],
)  # fmt: skip


def terminal_output() -> str:
    """What the command prints on a colour terminal."""
    command = [sys.executable, "-m", *COMMAND, "--isolated", "--color", "always"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if result.returncode != 1:
        raise RuntimeError(f"expected findings: {result.stderr}")
    return result.stdout


def picture(output: str) -> str:
    """The output, below the command that makes it, as an SVG that needs nothing from elsewhere."""
    text = Text.from_ansi(f"\x1b[1m$ {' '.join(COMMAND)}\x1b[0m\n{output.rstrip()}\n\n")
    width = min(COLUMNS, max(line.cell_len for line in text.split()) + 1)
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text)
    svg = console.export_svg(title="torchlint", theme=THEME, unique_id="torchlint")
    # rich asks a web font from a host; a picture in a README cannot load it, and nobody needs to be told of a reader.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")


def shown(svg: str) -> str:
    """The text that a picture shows, without its white space."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return "".join("".join(element.text or "" for element in texts).split())


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture(terminal_output()), encoding="utf-8")
