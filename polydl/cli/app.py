"""The command line: its commands and its entry point.

Commands import what is heavy when they run, so that `polydl --help` is quick.
"""

from __future__ import annotations

import io
import signal
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer

from polydl.base.errors import InputWarning, PolyDLError
from polydl.base.recursion import deep
from polydl.base.version import __version__
from polydl.cli import (
    analyze,
    doctor,
    export,
    include,
    init,
    learn,
    machine,
    misses,
    rank,
    report,
    why,
)
from polydl.cli import (
    explain_command as explain,
)
from polydl.cli import (
    fuse_command as fuse,
)
from polydl.cli import (
    optimize_command as optimize,
)

_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

app = typer.Typer(
    name="polydl",
    help="Optimise C loop nests: extract, rank the legal variants, measure the best few, write C.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (
    optimize.optimize, rank.rank, explain.explain, learn.collect, fuse.fuse, learn.train, learn.evaluate,
    analyze.analyze, misses.misses, export.export, machine.machine, doctor.doctor, init.init, include.include, why.why,
    report.report,
):  # fmt: skip
    app.command()(command)


def _version(value: bool) -> None:
    """Print the version and end."""
    if value:
        sys.stdout.write(f"polydl {__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _terminated(signal_number: int, frame: object) -> NoReturn:
    """Leave through `finally` blocks, as Ctrl-C does, so that processes and temporary files are cleaned up."""
    sys.exit(128 + signal_number)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning for people, without the place in the code that Python would add."""
    sys.stderr.write(f"{message}\n" if isinstance(message, InputWarning) else f"warning: {message}\n")


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 could not do it, 2 the input is at fault, 3 a mistake in polydl, whose region
    stays as it was written, 130 interrupted."""
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name may be no text, and a terminal may lack a character: both are shown as escapes.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    try:
        with deep():
            app(standalone_mode=True, prog_name="polydl")
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.stderr.write("interrupted: nothing was written\n")
        raise
    sys.exit(0)
