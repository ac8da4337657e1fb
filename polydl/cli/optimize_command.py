"""The command `optimize`."""

from __future__ import annotations

from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli.answer import Answer
from polydl.cli.arguments import Cluster, CompileCommands, File, For, Output, takes_options
from polydl.options import Options

_POINTS = 8
"""Sizes of the curve of a recorded run whose sizes are ranges."""


@takes_options
def optimize(
    *,
    file: File,
    output: Output = None,
    options: Options,
    compile_commands: CompileCommands = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Rank only; with -o, write the best ranked.")] = False,
    depfile: Annotated[
        str | None, typer.Option("--depfile", metavar="FILE.d", help="Write what the output depends on, for Make.")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="RUN.json", help="Record the run, for `polydl report`.")
    ] = None,
    cluster: Cluster = None,
    for_: For = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure anew, even where an earlier run's result is cached.")
    ] = False,
    answer: Answer,
) -> None:
    """Write a faster FILE.c that computes the same, checked and timed against it."""
    if depfile is not None and no_run and output is None:
        raise InputError("--depfile without an output", hint="name one with -o")
    if save is not None and no_run:
        raise InputError("--save and --no-run together", hint="a record is of what was measured: leave one out")
    if for_ and cluster is None:
        raise InputError("--for without --cluster", hint="it chooses among the machines of a cluster")
    if cluster is not None:
        if options.curve:
            raise InputError("--curve and --cluster together", hint="times of a curve are of this machine")
        if options.data:
            raise InputError("--data and --cluster together", hint="the files of the data are on this machine")
        from polydl.cli import on_cluster

        if no_run or depfile is not None or save is not None:
            refused = "--no-run" if no_run else "--save" if save is not None else "--depfile"
            raise InputError(f"{refused} and --cluster together", hint="leave one of them out")
        on_cluster.optimize(file, output, options, answer, cluster, for_)
        return
    from polydl.cli.depfile import Depfile
    from polydl.cli.optimize_here import optimize_here

    if save is not None and not options.curve and any(isinstance(v, range) for v in options.sizes.values()):
        options = options.changed(curve=_POINTS)
    rule = Depfile.at(file, depfile, compile_commands) if depfile is not None else None
    optimize_here(file, output, options, answer, run=not no_run, fresh=fresh, depfile=rule, save=save)
