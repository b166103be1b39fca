"""``torchlint check``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from torchlint.cli.cache import Cache
from torchlint.cli.configuration import Configuration, Options, selection
from torchlint.cli.job import Action, Job
from torchlint.cli.outcomes import Linting
from torchlint.cli.pool import default_jobs
from torchlint.cli.progress import Progress
from torchlint.cli.run import Run
from torchlint.cli.terminal import color_option, look_of
from torchlint.reports import FORMATS
from torchlint.settings import SettingsError, discover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchlint.cli.job import Outcome


def _rules(name: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, multiple=True, metavar="RULES", help=what)


def _file(*names: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(*names, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=what)


@click.command(short_help="Find mistakes in files, folders or stdin.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@_rules(
    "--select",
    "Use only these rules: codes (TL201), names (missing-zero-grad), families (TL2) or ALL, separated by commas. "
    "This and the next two may be repeated.",
)
@_rules("--ignore", "Leave these rules out.")
@_rules("--extend-select", "Use these rules too; also what shows hints.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the files.")
@click.option("--unsafe-fixes", is_flag=True, default=None, help="Count unsafe fixes among those to apply.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing.")
@click.option(
    "--output-format", type=click.Choice(list(FORMATS)), default="full", show_default=True, help="The report."
)
@_file("-o", "--output-file", what="Write the report to this file.")
@click.option("--statistics", is_flag=True, help="Print how often each rule found something, instead of the findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and failures, nothing else.")
@color_option
@_file("--config", what="Use this settings file for all files.")
@click.option("--isolated", is_flag=True, help="Ignore all settings; the range of torch releases is then unknown.")
@_file("--stdin-filename", what="The file that `-` stands for.")
@click.option(
    "--force-exclude", is_flag=True, help="Leave excluded files out even when they are named (for pre-commit)."
)
@click.option("-e", "--exit-zero", is_flag=True, help="Status 0 whatever is found.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use. [default: one a processor]")
@click.option(
    "--no-cache",
    is_flag=True,
    envvar="TORCHLINT_NO_CACHE",
    show_envvar=True,
    help="Lint every file, also if an earlier run did and nothing has changed.",
)
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="TORCHLINT_CACHE_DIR",
    show_envvar=True,
    metavar="DIR",
    help="Where to keep what was found. [default: .torchlint_cache beside the settings]",
)
def check(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool | None,
    diff: bool,
    output_format: str,
    output_file: Path | None,
    statistics: bool,
    quiet: bool,
    color: str,
    config: Path | None,
    isolated: bool,
    stdin_filename: Path | None,
    force_exclude: bool,
    exit_zero: bool,
    jobs: int | None,
    no_cache: bool,
    cache_dir: Path | None,
) -> int:
    """Lint PATHS: files, folders, or `-` for stdin. Without any: this folder.

    Looks at .py, .pyi and .ipynb files. Hints are printed when they are selected by --select, --extend-select or the
    settings, and never fail a run.

    \b
    Exit status:
      0  nothing of level warning or error was found
      1  something was found (with --diff: there is something to fix)
      2  could not run: bad settings, an unknown rule, a file that cannot be read
    """
    if config is not None and isolated:
        raise click.UsageError("--config and --isolated exclude each other.")
    reads_stdin = Path("-") in paths
    if reads_stdin and len(paths) > 1:
        raise click.UsageError("`-` (stdin) cannot be combined with other paths.")
    if stdin_filename is not None and not reads_stdin:
        raise click.UsageError("--stdin-filename needs `-` as the only path.")
    action = Action.DIFF if diff else Action.FIX if fix else Action.REPORT
    with ExitStack() as stack:
        # What replaces stdin goes to stdout, and the report makes room for it.
        report_stream = sys.stderr if reads_stdin and action is Action.FIX else sys.stdout
        if (reads_stdin and sys.stdin is None) or sys.stdout is None or report_stream is None:  # as by `2>&-`
            raise click.ClickException("stdin, stdout and stderr have to be open.")
        if output_file is not None:
            report_stream = stack.enter_context(_opened(output_file))
        look = look_of(color, sys.stdout if action is Action.DIFF else report_stream)
        options = Options(selection(select, ignore, extend_select), config, isolated, unsafe_fixes)
        configuration = Configuration(options)
        cache = None if no_cache or reads_stdin else Cache(configuration.resolver, cache_dir)
        if cache is not None:
            stack.callback(cache.close)
        linting = Linting(Job(options, output_format, look, action), configuration, cache)
        run = Run(linting.job, report_stream, statistics=statistics, quiet=quiet)
        try:
            configuration.check_config()
            if reads_stdin:
                path = stdin_filename or Path("-")
                files = [path] if stdin_filename is None else _kept([path], linting, run, force_exclude=force_exclude)
                linter = linting.linter
                data = sys.stdin.buffer.read()
                outcomes: Iterator[Outcome] = map(partial(linter.lint_bytes, data), files)
                if not files and action is Action.FIX:
                    sys.stdout.buffer.write(data)
            else:
                named = _kept(paths or (Path(),), linting, run, force_exclude=force_exclude)
                files = list(discover(named, configuration.resolver, run.fail_folder))
                outcomes = linting.outcomes(files, jobs or default_jobs())
                if not files and not run.failed and not quiet:
                    run.say("There are no Python files or notebooks here.")
        except SettingsError as error:
            raise click.ClickException(str(error)) from None
        run.consume(outcomes, Progress(len(files), enabled=not quiet and not reads_stdin))
        run.close()
    return run.status(exit_zero=exit_zero)


def _kept(paths: Iterable[Path], linting: Linting, run: Run, *, force_exclude: bool) -> list[Path]:
    """The named paths, with ``force_exclude`` without those files that the settings exclude."""
    kept = []
    for path in paths:
        try:
            excluded = force_exclude and linting.configuration.resolver.settings_for(path).excludes(path)
        except SettingsError as error:
            run.fail([str(error)])
            continue
        if path.is_dir() or not excluded:
            kept.append(path)
    return kept


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(path), hint=error.strerror or str(error)) from None
