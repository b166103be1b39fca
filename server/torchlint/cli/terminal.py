"""Whether output has colour, and how wide it is."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

import click

from torchlint.reports.look import Look

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WIDTH_OF_FILES = 140

ColorChoice = click.Choice(["auto", "always", "never"])


def color_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--color``, the same for every command."""
    return click.option(
        "--color",
        type=ColorChoice,
        default="auto",
        show_default=True,
        help="Colour the output. `auto`: on a terminal, unless NO_COLOR is set.",
    )(function)


def look_of(color: str, stream: TextIO) -> Look:
    """How to draw on ``stream`` when ``--color`` says ``color``."""
    terminal = stream.isatty()
    width = shutil.get_terminal_size((_WIDTH_OF_FILES, 24)).columns if terminal else _WIDTH_OF_FILES
    return Look(color=color == "always" or (color == "auto" and _colored(terminal)), width=width)


def _colored(terminal: bool) -> bool:
    # https://no-color.org and https://force-color.org: set and not empty.
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def write(text: str, look: Look, stream: TextIO | None = None) -> None:
    """Write to stdout or ``stream``. A character that the stream's encoding has not is written as an escape."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text, file=stream, nl=False, color=look.color)
