"""The commands that show and rewrite without a search: analyze, fuse, machine."""

from __future__ import annotations

from typing import Annotated

import typer

from polydl.cli.arguments import (
    Cc,
    CompileCommands,
    Define,
    File,
    Function,
    Include,
    Json,
    MachineFile,
    Size,
    StrictAlias,
    Undefine,
)
from polydl.cli.reading import options as read_options
from polydl.cli.reading import print_json
from polydl.cli.reporting import Format, Style, reported


def analyze(
    file: File,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    machine: MachineFile = None,
    strict_alias: StrictAlias = False,
    cc: Cc = "cc",
    format_: Format = Style.TEXT,
    json_: Json = False,
) -> None:
    """Show what was extracted: domains, accesses, dependences, parallel loops, working sets."""
    from polydl import pipeline
    from polydl.cli import present
    from polydl.cli.diagnostics import of_document
    from polydl.inspect.analysis import analyze as run

    with reported(format_, as_json=json_) as notes:
        options = read_options(
            file, compile_commands, define=define, undefines=undefine,
            include_dirs=include, size=size, function=function, machine=machine,
            strict_alias=strict_alias, cc=cc,
        )  # fmt: skip
        program = pipeline.load(file, options, require_sizes=False)
        results = [run(scop, options.target()) for scop in program.scops]
        document = {"scops": [r.to_data() for r in results]}
        notes += of_document(document, file)
        if json_:
            print_json(document)
        else:
            present.show_analyses(results)


def fuse(
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.c", show_default=False)] = None,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    strict_alias: StrictAlias = False,
    cc: Cc = "cc",
    format_: Format = Style.TEXT,
    json_: Json = False,
) -> None:
    """Fuse element-wise nests into heavy ones and neighbouring nests into one, and say why not where not."""
    from polydl import pipeline
    from polydl.cli.diagnostics import of_document
    from polydl.cli.show_fused import fuse_json, show_fused

    with reported(format_, as_json=json_) as notes:
        options = read_options(
            file, compile_commands, define=define, undefines=undefine,
            include_dirs=include, size=size, function=function,
            strict_alias=strict_alias, cc=cc,
        )  # fmt: skip
        result = pipeline.fuse(file, output, options)
        document = fuse_json(result)
        notes += of_document(document, file)
        if json_:
            print_json(document)
        else:
            show_fused(result)


def show_machine(
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure it (under 20 s), keep it.")] = False,
    name: MachineFile = None,
    json_: Json = False,
) -> None:
    """Show what the machine is taken to be."""
    from polydl.cli import present
    from polydl.options import Options
    from polydl.target import calibrate as measure_machine

    found = measure_machine() if calibrate else Options(machine=name).target()
    if json_:
        print_json(present.machine_json(found))
    else:
        present.show_machine(found)
