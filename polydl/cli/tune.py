"""The commands that search: optimize, rank, explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError
from polydl.cli import completion
from polydl.cli.arguments import (
    Cc,
    Cluster,
    CompileCommands,
    Define,
    FastMath,
    File,
    Flags,
    For,
    Function,
    Include,
    Json,
    LdFlags,
    Link,
    MachineFile,
    NoReassociate,
    Prepack,
    Ranker,
    ScheduleFile,
    Seed,
    Size,
    SpaceName,
    StrictAlias,
    Threads,
    Timeout,
    TopK,
    Undefine,
)
from polydl.cli.reading import options as read_options
from polydl.cli.reading import print_json
from polydl.cli.reporting import Format, Style, reported


def optimize(
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.c", show_default=False)] = None,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    ranker: Ranker = "traffic",
    top_k: TopK = 5,
    threads: Threads = None,
    space: SpaceName = "default",
    machine: MachineFile = None,
    strict_alias: StrictAlias = False,
    no_reassociate: NoReassociate = False,
    fast_math: FastMath = False,
    seed: Seed = 0,
    cc: Cc = "cc",
    cflags: Flags = [],
    ldflags: LdFlags = [],
    link: Link = [],
    timeout: Timeout = 60.0,
    cold: Annotated[bool, typer.Option("--cold", help="Time with flushed caches.")] = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="Rank only; with -o, write the best ranked.")] = False,
    loops: Annotated[str, typer.Option("--loops", metavar="STRING", help="This loop string, as bcaBCb.")] = "",
    blocks: Annotated[str, typer.Option("--blocks", metavar="B", help="Its sizes, as b=12,4;c=8;mk=14x32:k.")] = "",
    schedule: ScheduleFile = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Read the variants' C back and prove it equivalent, before any runs.")
    ] = False,
    no_fuse: Annotated[bool, typer.Option("--no-fuse", help="Leave the nests apart.")] = False,
    prepack: Prepack = [],
    depfile: Annotated[
        str | None, typer.Option("--depfile", metavar="FILE.d", help="Write what the output depends on, for Make.")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="RUN.json", help="Record the run, for `polydl report`.")
    ] = None,
    cluster: Cluster = None,
    for_: For = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew, whatever was kept of an earlier run.")] = False,
    format_: Format = Style.TEXT,
    json_: Json = False,
) -> None:
    """Write a faster FILE.c that computes the same, checked and timed against it."""
    from polydl.cli.optimize_command import depfile_of, optimize_command

    with reported(format_, as_json=json_) as notes:
        options = read_options(
            file, compile_commands, define=define, undefines=undefine,
            include_dirs=include, size=size, function=function, ranker=ranker,
            top_k=top_k, threads=threads, space=space, machine=machine, strict_alias=strict_alias,
            reassociate=not no_reassociate, fuse=not no_fuse, fast_math=fast_math, seed=seed, cc=cc, cflags=cflags,
            ldflags=ldflags, link=link, timeout=timeout, cold=cold, loops=loops, blocks=blocks, schedule=schedule,
            prepack=prepack, prove=prove,
        )  # fmt: skip
        if depfile is not None and no_run and output is None:
            raise InputError("--depfile without an output", hint="name one with -o")
        if save is not None and no_run:
            raise InputError("--save and --no-run together", hint="a record is of what was measured: leave one out")
        if for_ and cluster is None:
            raise InputError("--for without --cluster", hint="it chooses among the machines of a cluster")
        if cluster is not None:
            from polydl.cli import on_cluster

            if no_run or depfile is not None or save is not None:
                refused = "--no-run" if no_run else "--save" if save is not None else "--depfile"
                raise InputError(f"{refused} and --cluster together", hint="leave one of them out")
            on_cluster.optimize_command(file, output, options, cluster, for_, as_json=json_, notes=notes)
            return
        wanted = depfile_of(file, depfile, compile_commands) if depfile is not None else None
        optimize_command(
            file, output, options, run=not no_run, fresh=fresh, as_json=json_, depfile=wanted, notes=notes, save=save
        )


def rank(
    file: File,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    ranker: Ranker = "traffic",
    threads: Threads = None,
    space: SpaceName = "default",
    machine: MachineFile = None,
    strict_alias: StrictAlias = False,
    no_reassociate: NoReassociate = False,
    cc: Cc = "cc",
    top: Annotated[int, typer.Option("--top", min=1, help="Variants shown in the table.")] = 20,
    schedule: ScheduleFile = None,
    loops_file: Annotated[
        Path | None, typer.Option("--loops-file", metavar="FILE", help="Score these loop strings instead of a space.")
    ] = None,
    format_: Format = Style.TEXT,
    json_: Json = False,
) -> None:
    """Rank the legal variants; nothing is compiled or run."""
    from polydl import pipeline
    from polydl.cli import present
    from polydl.cli.diagnostics import of_document

    with reported(format_, as_json=json_) as notes:
        options = read_options(
            file, compile_commands, define=define, undefines=undefine,
            include_dirs=include, size=size, function=function, ranker=ranker,
            threads=threads, space=space, machine=machine, strict_alias=strict_alias,
            reassociate=not no_reassociate, cc=cc, schedule=schedule,
        )  # fmt: skip
        program = pipeline.load(file, options)
        if loops_file is not None:
            from polydl.search.loop_string_file import score_file

            scored = [score_file(scop, loops_file, options) for scop in program.scops]
            if json_:
                print_json(present.given_json(scored))
            else:
                present.show_given(scored)
            return
        with present.progress(quiet=json_) as progress:
            rankings = [pipeline.rank(scop, options=options, progress=progress) for scop in program.scops]
        document = present.rank_json(rankings)
        notes += of_document(document, file)
        if json_:
            print_json(document)
        else:
            present.show_rankings(rankings, top)


def explain(
    file: File,
    variant: Annotated[
        list[str],
        typer.Argument(
            metavar="ID [ID]",
            show_default=False,
            help="Id or its beginning, best, original, loop string.",
            autocompletion=completion.variants,
        ),
    ],
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    compile_commands: CompileCommands = None,
    size: Size = [],
    function: Function = None,
    ranker: Ranker = "traffic",
    threads: Threads = None,
    space: SpaceName = "default",
    machine: MachineFile = None,
    strict_alias: StrictAlias = False,
    no_reassociate: NoReassociate = False,
    seed: Seed = 0,
    cc: Cc = "cc",
    cflags: Flags = [],
    ldflags: LdFlags = [],
    link: Link = [],
    timeout: Timeout = 60.0,
    cold: Annotated[bool, typer.Option("--cold", help="Time with flushed caches.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Check and time them too.")] = False,
    json_: Json = False,
) -> None:
    """Show why a variant ranks where it does: its loops, working sets and predictions; two side by side."""
    from polydl import pipeline
    from polydl.cli import present
    from polydl.cli.side_by_side import show_explained
    from polydl.inspect.explain import explain as run

    options = read_options(
        file, compile_commands, define=define, undefines=undefine,
        include_dirs=include, size=size, function=function, ranker=ranker,
        threads=threads, space=space, machine=machine, strict_alias=strict_alias,
        reassociate=not no_reassociate, seed=seed, cc=cc, cflags=cflags, ldflags=ldflags, link=link,
        timeout=timeout, cold=cold,
    )  # fmt: skip
    if len(variant) > 2:
        raise InputError("explain takes one or two variants", hint="quote a loop string that has blocks: 'aBc c=8'")
    scop = pipeline.only_scop(pipeline.load(file, options))
    with present.progress(quiet=json_) as progress:
        found = run(scop, variant, options, run=measure, progress=progress)
    if json_:
        print_json(found.to_data())
    else:
        show_explained(found)
