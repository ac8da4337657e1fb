"""The command `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError, PolyDLError
from polydl.cli import completion
from polydl.cli.answer import print_json
from polydl.cli.arguments import File, Json, read_options, takes_options
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
            ranking = pipeline.rank(pipeline.only_scop(pipeline.load(typed["file"], options)), options=options)
        except PolyDLError:
            return completion.starting(words, incomplete)  # the command itself will say what is wrong
        words += [variant.id for variant in ranking.variants[:_MOST_COMPLETED]]
    return completion.starting(words, incomplete)


@takes_options
def explain(
    *,
    file: File,
    variant: Annotated[
        list[str],
        typer.Argument(
            metavar="ID [ID]",
            show_default=False,
            help="Id or its beginning, best, original, loop string.",
            autocompletion=variants_of_file,
        ),
    ],
    options: Options,
    measure: Annotated[bool, typer.Option("--measure", help="Check and time them too.")] = False,
    json_: Json = False,
) -> None:
    """Show why a variant ranks where it does: its loops, working sets and predictions; two side by side."""
    from polydl import pipeline
    from polydl.cli.progress import progress
    from polydl.inspect import explain as explaining
    from polydl.inspect.explain_table import show_explained

    if len(variant) > 2:
        raise InputError("explain takes one or two variants", hint="quote a loop string that has blocks: 'aBc c=8'")
    scop = pipeline.only_scop(pipeline.load(file, options))
    with progress(quiet=json_) as report:
        found = explaining.explain(scop, variant, options, run=measure, progress=report)
    if json_:
        print_json(found.to_data())
    else:
        show_explained(found)
