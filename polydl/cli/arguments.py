"""The arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydl.cli import completion

File = Annotated[
    Path,
    typer.Argument(metavar="FILE.c", show_default=False, readable=False, autocompletion=completion.sources),
]
Define = Annotated[list[str], typer.Option("-D", metavar="NAME[=VALUE]", help="Define a macro, as for the compiler.")]
Undefine = Annotated[list[str], typer.Option("-U", metavar="NAME", help="Undefine a macro.")]
Include = Annotated[list[str], typer.Option("-I", metavar="DIR", help="Search a folder for headers.")]
CompileCommands = Annotated[
    Path | None,
    typer.Option("--compile-commands", metavar="DIR|FILE", help="Take -D, -I, -std… from this compile_commands.json."),
]
Size = Annotated[
    list[str], typer.Option("--size", metavar="N=V,…", help="Tune for these values of function parameters.")
]
Function = Annotated[str | None, typer.Option("--function", metavar="F", help="Only this function's scops.")]
Ranker = Annotated[
    str, typer.Option("--ranker", metavar="R", help="How variants are ranked.", autocompletion=completion.rankers)
]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, help="Variants compiled, checked and timed.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; default: all cores.")]
SpaceName = Annotated[
    str,
    typer.Option("--space", metavar="small|default|wide", help="How many variants.", autocompletion=completion.spaces),
]
MachineFile = Annotated[
    str | None,
    typer.Option("--machine", metavar="TOML", help="Machine file or preset.", autocompletion=completion.machines),
]
StrictAlias = Annotated[bool, typer.Option("--strict-alias", help="Refuse arrays that might overlap.")]
NoReassociate = Annotated[bool, typer.Option("--no-reassociate", help="Keep the order of every sum.")]
FastMath = Annotated[
    bool, typer.Option("--fast-math", help="Approximate exp, tanh and erf in vectors (relative error 2^-12).")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the input data.")]
Cc = Annotated[str, typer.Option("--cc", help="C compiler.")]
Flags = Annotated[list[str], typer.Option("--cflags", metavar="FLAGS", help="More compiler flags.")]
LdFlags = Annotated[list[str], typer.Option("--ldflags", metavar="FLAGS", help="More linker flags.")]
Link = Annotated[list[str], typer.Option("--link", metavar="FILE.o", help="Object or library with your microkernel.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds one run of the nest may take.")]
ScheduleFile = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="FILE.yaml",
        help="The order of this schedule tree (isl's YAML).",
        autocompletion=completion.schedules,
    ),
]
Prepack = Annotated[
    list[str], typer.Option("--prepack", metavar="ARRAY", help="Packed once, by a function FUNCTION_pack, untimed.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Measure on the workers of this Dask scheduler.")
]
For = Annotated[
    str, typer.Option("--for", metavar="FINGERPRINT", help="Of the cluster, only machines that are this (or begin so).")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
