"""`--format`: how the diagnostics of a run are written."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from polydl.base.errors import InputError, PolyDLError
from polydl.cli.reading import print_json

if TYPE_CHECKING:
    from polydl.cli.diagnostics import Diagnostic


class Style(StrEnum):
    """A way to write diagnostics."""

    TEXT = "text"
    """For people: the line of the source and a caret, notes with the results."""
    GCC = "gcc"
    """A line each on standard error, as compilers do; results as ever."""
    SARIF = "sarif"
    """One SARIF document on standard output, all else on standard error."""


Format = Annotated[Style, typer.Option("--format", help="Diagnostics for people, as gcc writes them, or as SARIF.")]


@contextmanager
def reported(style: Style, *, as_json: bool) -> Iterator[list[Diagnostic]]:
    """Write the diagnostics that are put into the list, the warnings and the errors of what is done inside.

    Raises InputError for SARIF together with JSON; ends the program with the exit code of an error that it wrote.
    """
    found: list[Diagnostic] = []
    if style is Style.TEXT:
        yield found
        return
    if style is Style.SARIF and as_json:
        raise InputError("--format sarif and --json both want standard output", hint="give one of them")
    from polydl.cli.diagnostics import Diagnostic, Level, gcc, of_error, sarif

    def keep(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        found.append(Diagnostic(Level.WARNING, category.__name__, str(message)))

    code = 0
    before = warnings.showwarning
    warnings.showwarning = keep
    try:
        with redirect_stdout(sys.stderr if style is Style.SARIF else sys.stdout):
            yield found
    except PolyDLError as error:
        found += of_error(error)
        code = error.exit_code
    finally:
        warnings.showwarning = before
    if style is Style.SARIF:
        print_json(sarif(found, code, sys.argv[1:]))
    else:
        sys.stderr.write(gcc(found))
    if code:
        raise typer.Exit(code)
