"""The ``torchlint`` command."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import click

from torchlint._version import __version__

#: Exit status: nothing of level warning or error found, something found, could not run.
CLEAN, FOUND, FAILED = 0, 1, 2
_INTERRUPTED = 130

#: Where each command lives: a command that is not asked for is not imported.
_HOMES = {
    "check": "torchlint.cli.check:check",
    "rule": "torchlint.cli.describe:rule",
    "rules": "torchlint.cli.describe:rules",
    "server": "torchlint.cli.other:server",
    "debug": "torchlint.cli.other:debug",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _HOMES:
            return None
        module, _, attribute = _HOMES[name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first = args[0]
        if first not in _HOMES and (first in {"-", "."} or first.endswith((".py", ".pyi", ".ipynb", "/"))):
            raise click.UsageError(f"No such command '{first}'. To lint it: torchlint check {first}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="torchlint %(version)s")
def commands() -> None:
    """Find the mistakes in PyTorch code that raise no error.

    Exit status of every command: 0 all is well, 1 findings of level warning or error, 2 could not run.
    """


def main() -> None:
    """Run the command line of this process and exit."""
    # The cyclic collector would look again and again at modules that are loaded to stay, and once more when Python
    # ends: together a seventh of the time for a small file. What runs for long switches it on again.
    gc.disable()
    status = run_command()
    gc.freeze()
    sys.exit(status)


def run_command() -> int:
    """Run the command line of this process; the exit status."""
    try:
        status = commands.main(prog_name="torchlint", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = FAILED
    except OSError as error:
        # A full disk, a closed pipe: nothing is wrong with torchlint. What a file cannot do is said where it is used.
        click.echo(f"Error: {error.strerror or error}", err=True)
        status = FAILED
    except click.Abort:
        click.echo("Interrupted.", err=True)
        status = _INTERRUPTED
    except Exception:
        import traceback

        # Python's own status for this would be 1, which says "findings".
        traceback.print_exc()
        click.echo("torchlint: internal error; please report it with the lines above.", err=True)
        status = FAILED
    return status if isinstance(status, int) else CLEAN
