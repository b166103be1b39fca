"""`make demo`: what a person sees first."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from scripts import render_picture

ROOT = Path(__file__).parents[2]


def check(*options: str) -> str:
    command = [sys.executable, "-m", "torchlint", "check", "--isolated", "--exit-zero", *options, "examples"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout


def test_examples_show_at_least_eight_rules_with_their_source_lines() -> None:
    findings = json.loads(check("--output-format", "json"))
    assert len({finding["name"] for finding in findings}) >= 8
    output = check()
    for finding in findings:
        if finding["filename"].endswith(".py"):
            rows = (ROOT / finding["filename"]).read_text(encoding="utf-8").splitlines()
            assert rows[finding["location"]["row"] - 1].strip() in output


def test_picture_in_the_readme_shows_what_the_command_prints() -> None:
    output = re.sub(r"\x1b\[[0-9;]*m", "", render_picture.terminal_output())
    command = " ".join(render_picture.COMMAND)
    picture = render_picture.PICTURE.read_text(encoding="utf-8")
    assert render_picture.shown(picture) == "".join(f"torchlint $ {command} {output}".split()), "run `make docs`"
