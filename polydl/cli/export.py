"""The command `export`."""

from __future__ import annotations

from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli.arguments import (
    Cc,
    CompileCommands,
    Define,
    File,
    Function,
    Include,
    Json,
    NoReassociate,
    Size,
    StrictAlias,
    Undefine,
)
from polydl.cli.reading import options as read_options
from polydl.cli.reading import print_json
from polydl.cli.reporting import Format, Style, reported


def export(
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.yaml", show_default=False)] = None,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    strict_alias: StrictAlias = False,
    no_reassociate: NoReassociate = False,
    cc: Cc = "cc",
    tree: Annotated[bool, typer.Option("--tree", help="Only the schedule tree, as isl and ppcg read it.")] = False,
    openscop: Annotated[
        bool, typer.Option("--openscop", help="OpenScop instead, as Clan, Pluto, CLooG have it.")
    ] = False,
    format_: Format = Style.TEXT,
    json_: Json = False,
) -> None:
    """Write domains, accesses, dependences and the schedule tree for other polyhedral tools: YAML with isl's text."""
    import sys

    from polydl import pipeline
    from polydl.base.files import output_path, write
    from polydl.exchange.export import documents
    from polydl.exchange.openscop import openscop as as_openscop
    from polydl.exchange.yaml import dumps

    with reported(format_, as_json=json_):
        options = read_options(
            file, compile_commands, define=define, undefines=undefine, include_dirs=include, size=size,
            function=function, strict_alias=strict_alias, reassociate=not no_reassociate, cc=cc,
        )  # fmt: skip
        if openscop and (tree or json_):
            raise InputError("--openscop is a format of its own", hint="leave out --tree and --json")
        target = output_path(file, output) if output is not None else None
        scops = pipeline.load(file, options, require_sizes=False).scops
        if openscop:
            made, text = [], as_openscop(scops, reassociate=options.reassociate)
        else:
            made = documents(scops, reassociate=options.reassociate)
            made = [document["schedule"] for document in made] if tree else made
            text = dumps(made)
        if target is not None:
            write(target, text)
        if json_:
            print_json({"output": output, "scops": made})
        elif target is None:
            sys.stdout.write(text)
