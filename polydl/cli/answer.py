"""How a command answers: results for people or as JSON, diagnostics for people, as gcc writes them, or as SARIF."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
import typer

from polydl.base.errors import InputError, InputWarning, PolyDLError

if TYPE_CHECKING:
    from polydl.cli.diagnostics import Diagnostic


class Style(StrEnum):
    """A way to write diagnostics."""

    TEXT = "text"
    """For people: the line of the source and a caret, notes with the results."""
    GCC = "gcc"
    """One line for each on standard error, as compilers do; results as without it."""
    SARIF = "sarif"
    """One SARIF document on standard output, all else on standard error."""


@dataclass(slots=True)
class Answer:
    """The answer of a command about a C file."""

    file: Path
    as_json: bool
    """Whether `--json` asks for a document."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    """What there is to say about the file, for `--format`."""

    def give(self, document: Mapping[str, Any], show: Callable[[], object]) -> None:
        """Print the result: the document with `--json`, else what `show` prints. Adds what the document says about the
        file to the diagnostics."""
        self.note(document)
        if self.as_json:
            print_json(document)
        else:
            show()

    def note(self, document: Mapping[str, Any]) -> None:
        """Add what a document says about the file to the diagnostics."""
        from polydl.cli.diagnostics import of_document

        self.diagnostics += of_document(document, self.file)


@contextmanager
def answering(file: Path, style: Style, *, as_json: bool) -> Iterator[Answer]:
    """Write the diagnostics of what is done inside: those of its answer, its warnings and its errors.

    Raises InputError for SARIF together with JSON; ends the program with the exit code of an error that it wrote.
    """
    answer = Answer(file, as_json)
    if style is Style.TEXT:
        yield answer
        return
    if style is Style.SARIF and as_json:
        raise InputError("--format sarif and --json both want standard output", hint="give one of them")
    from polydl.cli.diagnostics import Diagnostic, Level, gcc, of_error, sarif

    found = answer.diagnostics

    def add_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, InputWarning):
            found.append(Diagnostic(Level.WARNING, "InputWarning", message.reason, message.span, message.hint))
        else:
            found.append(Diagnostic(Level.WARNING, category.__name__, str(message)))

    code = 0
    before = warnings.showwarning
    warnings.showwarning = add_warning
    try:
        with redirect_stdout(sys.stderr if style is Style.SARIF else sys.stdout):
            yield answer
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


def print_json(document: object) -> None:
    """Write one JSON document on standard output. Raises ValueError for a number that JSON does not have."""
    # With an indent Python's own encoder is Python: ten times as slow.
    sys.stdout.write(msgspec.json.format(json.dumps(document, allow_nan=False), indent=2) + "\n")
