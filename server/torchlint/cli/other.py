"""``torchlint server`` and ``torchlint debug``."""

from __future__ import annotations

from pathlib import Path

import click

from torchlint.text import DocumentError, read_document


@click.command(short_help="Run the language server.")
@click.option("--stdio", is_flag=True, help="Talk over stdin and stdout: what it does anyway; some clients say it.")
def server(stdio: bool) -> None:
    """Run the language server, for an editor that talks to it over stdin and stdout."""
    import gc

    from torchlint.lsp import serve

    gc.enable()
    serve()


@click.command(short_help="Print what torchlint knows about a file.")
@click.argument("what", type=click.Choice(["names", "kinds", "flow"]))
@click.argument("file", type=click.Path(path_type=Path))
def debug(what: str, file: Path) -> None:
    """Print what torchlint knows about FILE: its resolved names, the kinds of its values, or the flow of training."""
    from torchlint.semantics import debug as printers

    try:
        document = read_document(file)
    except DocumentError as error:
        raise click.ClickException(str(error)) from None
    show = {"names": printers.print_names, "kinds": printers.print_kinds, "flow": printers.print_flow}[what]
    click.echo(show(document).rstrip("\n"))
