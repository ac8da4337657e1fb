"""The command `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.base.flags import one_size
from polydl.cli.answer import Answer
from polydl.cli.arguments import At, File, takes_options
from polydl.options import Options


@takes_options
def rank(
    *,
    file: File,
    options: Options,
    top: Annotated[int, typer.Option("--top", min=1, help="Variants shown in the table.")] = 20,
    loops_file: Annotated[
        Path | None, typer.Option("--loops-file", metavar="FILE", help="Score these loop strings instead of a space.")
    ] = None,
    at: At = [],
    answer: Answer,
) -> None:
    """Rank the legal variants; nothing is compiled or run."""
    from polydl import pipeline
    from polydl.cli.progress import progress
    from polydl.inspect import documents, terminal
    from polydl.inspect.edges import edges_of_best
    from polydl.search.sizes.decision_tree import check_sizes

    asked = one_size(at)
    if asked and loops_file is not None:
        raise InputError("--at and --loops-file together", hint="leave out one: loop strings are for one size")
    program, options = pipeline.load_sized(file, options)
    if loops_file is not None:
        from polydl.inspect.loop_string_file import score_file

        scored = [score_file(scop, loops_file, options) for scop in program.scops]
        answer.give(documents.scored_json(scored), lambda: terminal.show_scored(scored))
        return
    for scop in program.scops:
        check_sizes(asked, scop)  # before what takes long
    with progress(quiet=answer.as_json) as report:
        rankings = [pipeline.rank(scop, options=options, progress=report) for scop in program.scops]
    there = [pipeline.at_other_sizes(one, options).at(asked) for one in rankings] if asked else []
    between = [edges_of_best(one, options) for one in rankings] if answer.as_json else []
    answer.give(documents.rank_json(rankings, there, between), lambda: terminal.show_rankings(rankings, top, there))
