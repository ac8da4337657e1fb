"""The command `misses`."""

from __future__ import annotations

from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli.answer import Answer
from polydl.cli.arguments import File, takes_options
from polydl.options import Options


@takes_options
def misses(
    *,
    file: File,
    options: Options,
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant", metavar="ID", show_default=False, help="Of this variant: an id, best, a loop string."
        ),
    ] = None,
    stored_rows: Annotated[
        bool, typer.Option("--stored-rows", help="Lines may hold the end of a row and the beginning of the next.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Run through all accesses, with caches of sets and ways.")
    ] = False,
    answer: Answer,
) -> None:
    """Count the cache misses of the loops, exactly: compulsory and capacity misses of each array at each level."""
    from polydl import pipeline
    from polydl.inspect.miss_counts import misses as count
    from polydl.inspect.terminal import show_misses

    if variant is not None and options.loops:
        raise InputError("--variant and --loops together", hint="leave out one: both name a variant")
    program, options = pipeline.load_sized(file, options)
    named = variant or " ".join((options.loops, options.blocks)).strip() or None
    found = [count(s, named, options, stored_rows=stored_rows, simulated=simulate) for s in program.scops]
    answer.give({"scops": [one.to_data() for one in found]}, lambda: show_misses(found))
