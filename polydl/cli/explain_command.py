"""The command `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError, PolyDLError
from polydl.base.flags import one_size
from polydl.cli import completion
from polydl.cli.answer import print_json
from polydl.cli.arguments import At, File, Json, read_options, takes_options
from polydl.options import Options

_MOST_COMPLETED = 10
"""Variants that are completed by their ids."""


def variants_of_file(ctx: typer.Context, incomplete: str) -> list[str]:
    """`best`, `original`, and the ids of the best variants of the file that was named before."""
    from polydl import pipeline

    words = ["best", "original"]
    typed = {name: value for name, value in ctx.params.items() if value is not None}
    if isinstance(typed.get("file"), Path):
        try:
            options = read_options(typed)
            program, options = pipeline.load_sized(typed["file"], options)
            ranking = pipeline.rank(pipeline.only_scop(program), options=options)
        except PolyDLError:
            return completion.starting(words, incomplete)  # the command itself will say what is wrong
        words += [variant.id for variant in ranking.variants[:_MOST_COMPLETED]]
    return completion.starting(words, incomplete)


@takes_options
def explain(
    *,
    file: File,
    variant: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID [ID]",
            show_default=False,
            help="Id or its beginning, best, original, loop string; none: only what runs at which sizes.",
            autocompletion=variants_of_file,
        ),
    ] = None,
    options: Options,
    measure: Annotated[bool, typer.Option("--measure", help="Check and time them too.")] = False,
    at: At = [],
    json_: Json = False,
) -> None:
    """Show why a variant ranks where it does: its loops, working sets and predictions; two side by side. Show what the
    output runs at which sizes."""
    from polydl import pipeline
    from polydl.cli.progress import progress
    from polydl.inspect import explain as explaining
    from polydl.inspect.explain_table import show_explained

    named = variant or []
    if len(named) > 2:
        raise InputError("explain takes one or two variants", hint="quote a loop string that has blocks: 'aBc c=8'")
    if measure and not named:
        raise InputError("--measure without a variant", hint="name one, as in: polydl explain FILE.c best --measure")
    program, options = pipeline.load_sized(file, options)
    asked = one_size(at)
    with progress(quiet=json_) as report:
        scop = pipeline.only_scop(program)
        found = explaining.explain(scop, named, options, run=measure, at=asked, progress=report)
    if json_:
        print_json(found.to_data())
    else:
        show_explained(found)
