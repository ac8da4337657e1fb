"""The page cli.md of the documentation, made from the command line itself: a hook of mkdocs (see mkdocs.yml).

python docs/gen_cli.py prints the page.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import typer

from polydl.cli import app

HEAD = """\
# Command line

This page is made from the code when the site is built; `polydl COMMAND --help` prints the same.

Exit codes: 0 done, 1 could not do it (no compiler, nothing verified), 2 the input is at fault, 130 interrupted.
`--json` prints one JSON document on standard output and nothing else; what people read goes to standard error then.
`polydl --install-completion` sets up completion for the shell that runs it.
"""

_TYPES = {int: "INTEGER", float: "NUMBER", str: "TEXT"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or option of a command."""

    is_option: bool
    spelling: str
    """As it is written: `-k, --top-k INTEGER`."""
    repeatable: bool
    default: Any
    """inspect.Parameter.empty where it must be given."""
    help: str


def commands(group: typer.Typer, prefix: str = "polydl") -> Iterator[tuple[str, Callable[..., Any]]]:
    """(what is typed, the function that does it) of every command that is not hidden, in the order of --help."""
    for info in group.registered_commands:
        if not info.hidden and info.callback is not None:
            yield f"{prefix} {info.name or info.callback.__name__.replace('_', '-')}", info.callback
    for inner in group.registered_groups:
        if not inner.hidden and inner.typer_instance is not None:
            yield from commands(inner.typer_instance, f"{prefix} {inner.name}")


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """What a command takes, in order."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        plain, *notes = typing.get_args(hints[name])
        info = next(note for note in notes if hasattr(note, "param_decls"))
        if info.hidden:
            continue
        kinds = set(typing.get_args(plain)) | {plain}
        repeatable = typing.get_origin(plain) is list
        is_option = type(info).__name__ == "OptionInfo"
        value = info.metavar or next((text for kind, text in _TYPES.items() if kind in kinds), name.upper())
        spelling = value
        if is_option:
            # Of names given to typer.Option in an annotation, the first is stored as the default, which it can't have.
            first = [info.default] if isinstance(info.default, str) else []
            declared = [*first, *(info.param_decls or ())] or [f"--{name.strip('_').replace('_', '-')}"]
            spelling = ", ".join(declared) if bool in kinds else f"{', '.join(declared)} {value}"
        yield Parameter(is_option, spelling, repeatable, parameter.default, info.help or "")


def page() -> str:
    """The page in Markdown: a section for each command, a table of its arguments and options."""
    return HEAD + "".join(_section(name, function) for name, function in commands(app))


def _section(name: str, function: Callable[..., Any]) -> str:
    taken = list(parameters(function))
    said = inspect.cleandoc(function.__doc__ or "")
    arguments = [p.spelling for p in taken if not p.is_option]
    lines = ["", f"## {name}", "", said, "", "```text", " ".join([name, *arguments, "[OPTIONS]"]), "```", ""]
    lines += ["| argument or option | default | |", "|---|---|---|"]
    for p in taken:
        again = " (repeatable)" if p.repeatable else ""
        lines.append(f"| `{_cell(p.spelling)}`{again} | {_default(p.default)} | {_cell(p.help)} |")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return "" if value is None or value is False or value in ("", []) else f"`{value}`"


def _cell(text: str) -> str:
    """Text in a cell of a table: a bar would end it."""
    return " ".join(text.split()).replace("|", r"\|")


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the site; mkdocs calls this."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "cli.md", content=page()))
    return files


if __name__ == "__main__":
    sys.stdout.write(page())
