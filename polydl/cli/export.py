"""The command `export`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli.answer import Answer, print_json
from polydl.cli.arguments import File, takes_options
from polydl.options import Options


@takes_options
def export(
    *,
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.yaml", show_default=False)] = None,
    options: Options,
    tree: Annotated[bool, typer.Option("--tree", help="Only the schedule tree, as isl and ppcg read it.")] = False,
    openscop: Annotated[
        bool, typer.Option("--openscop", help="OpenScop instead, as Clan, Pluto, CLooG have it.")
    ] = False,
    answer: Answer,
) -> None:
    """Write domains, accesses, dependences and the schedule tree for other polyhedral tools: YAML with isl's text."""
    from polydl import pipeline
    from polydl.base.output_files import output_path, write
    from polydl.exchange.isl_document import documents
    from polydl.exchange.openscop import openscop as as_openscop
    from polydl.exchange.yaml import dumps

    if openscop and (tree or answer.as_json):
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
    if answer.as_json:
        print_json({"output": output, "scops": made})
    elif target is None:
        sys.stdout.write(text)
