"""The command `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.cli.answer import Answer
from polydl.cli.arguments import File, takes_options
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
    answer: Answer,
) -> None:
    """Rank the legal variants; nothing is compiled or run."""
    from polydl import pipeline
    from polydl.cli.progress import progress
    from polydl.inspect import documents, terminal

    program = pipeline.load(file, options)
    if loops_file is not None:
        from polydl.inspect.loop_string_file import score_file

        scored = [score_file(scop, loops_file, options) for scop in program.scops]
        answer.give(documents.scored_json(scored), lambda: terminal.show_scored(scored))
        return
    with progress(quiet=answer.as_json) as report:
        rankings = [pipeline.rank(scop, options=options, progress=report) for scop in program.scops]
    answer.give(documents.rank_json(rankings), lambda: terminal.show_rankings(rankings, top))
