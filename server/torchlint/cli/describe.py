"""``torchlint rule`` and ``torchlint rules``: what the rules say, without opening a browser."""

from __future__ import annotations

import difflib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from torchlint.cli.terminal import color_option, look_of, write
from torchlint.regex import regex
from torchlint.rules import all_rules, find_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.reports.look import Look
    from torchlint.rules import Rule

_HEADING = regex(r"#+\s+(?P<title>.*)")
_FENCE = regex(r"\s*(```|~~~)")
_LINK = regex(r"\[(?P<text>[^\]]+)\]\((?P<address>[^)\s]+)\)")

format_option = click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)


@click.command(short_help="Explain one rule.")
@click.argument("name", metavar="RULE")
@format_option
@color_option
def rule(name: str, output_format: str, color: str) -> None:
    """Explain RULE, given by its name (missing-zero-grad) or its code (TL201)."""
    found = find_rule(name)
    if found is None:
        raise click.BadParameter(_unknown(name), param_hint="RULE")
    look = look_of(color, sys.stdout)
    if output_format == "json":
        write(json.dumps(_description(found), indent=2) + "\n", look)
    else:
        write("".join(f"{line}\n" for line in _page(found, look)), look)


@click.command()
@click.argument("family", required=False, default="")
@format_option
@color_option
def rules(family: str, output_format: str, color: str) -> None:
    """List all rules, or those of a FAMILY (TL2)."""
    look = look_of(color, sys.stdout)
    listed = _of_family(family)
    if not listed:
        raise click.BadParameter(f"no code of a rule begins with `{family}`.", param_hint="FAMILY")
    if output_format == "json":
        write(json.dumps([_description(found) for found in listed], indent=2) + "\n", look)
    else:
        write("".join(f"{line}\n" for line in _table(listed, look)), look)


def _of_family(family: str) -> list[type[Rule]]:
    return [found for found in all_rules() if found.code.startswith(family.upper())]


def _unknown(name: str) -> str:
    members = len(_of_family(name))
    if members:
        return f"`{name}` is a family of {members} rules: `torchlint rules {name}` lists them."
    names = [known for found in all_rules() for known in (found.code, found.name)]
    close = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name.upper(), names, n=1)
    return f"there is no rule `{name}`. " + (
        f"Did you mean `{close[0]}`?" if close else "`torchlint rules` lists all of them."
    )


def _description(rule: type[Rule]) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "level": rule.level.value,
        "fix": rule.fix.value,
        "summary": rule.summary,
        "documentation": rule.documentation(),
    }


def _table(listed: Sequence[type[Rule]], look: Look) -> Iterator[str]:
    head = ("code", "name", "level", "fix", "what it reports")
    rows = [(r.code, r.name, r.level.value, r.fix.value, r.summary) for r in listed]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    for number, row in enumerate([head, *rows]):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, [*widths, 0], strict=True)]
        line = "  ".join(cells)
        if sys.stdout.isatty() and len(line) > look.width:
            line = line[: look.width - 1] + "…"
        yield look.paint(line, bold=True) if number == 0 else look.paint(cells[0], "red") + line[len(cells[0]) :]


def _page(rule: type[Rule], look: Look) -> Iterator[str]:
    """The rule's Markdown as a manual page: titles at the margin, text two columns in, code four more."""
    yield look.paint(f"{rule.name} ({rule.code})", bold=True)
    yield f"  {rule.summary}"
    yield f"  Level: {rule.level.value}. Fix: {rule.fix.value}."
    yield ""
    code = False
    for line in rule.documentation().strip().splitlines():
        if _FENCE.match(line):
            code = not code
        elif code:
            yield look.paint(f"      {line}", "cyan") if line.strip() else ""
        elif heading := _HEADING.match(line):
            yield look.paint(heading["title"], bold=True)
        else:
            text = _LINK.sub(r"\g<text> (\g<address>)", line)
            yield f"  {text}" if text.strip() else ""
