"""What several commands take, and how its text becomes `Options`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydl.cli import completion
from polydl.errors import InputError

if TYPE_CHECKING:
    from polydl.options import Options

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


def _sizes(texts: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in (p for text in texts for p in text.split(",") if p.strip()):
        name, equals, value = (word.strip() for word in part.partition("="))
        try:
            number = int(value, 0)
        except ValueError:
            number, equals = 0, ""
        if not equals or not name.isidentifier():
            raise InputError(f"--size {part}: not NAME=INTEGER", hint="for example --size M=1024,N=512")
        if sizes.setdefault(name, number) != number:
            raise InputError(f"--size: {name} is {sizes[name]} and {number}", hint="give each name one value")
    return sizes


def _defines(texts: list[str]) -> dict[str, str]:
    defines = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise InputError(f"-D {text}: not NAME or NAME=VALUE", hint="for example -D N=1024")
        defines[name] = value if equals else "1"
    return defines


def _words(option: str, texts: list[str]) -> tuple[str, ...]:
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise InputError(f"--{option}: {error}", hint="every quotation mark needs its partner") from None


def options(file: Path, compile_commands: Path | None, **given: Any) -> Options:
    """The options of a command on a file. Raises InputError."""
    from polydl.options import Options

    if compile_commands is not None:
        from polydl.compile_commands import flags_for

        given["preprocessor_flags"] = flags_for(file, compile_commands)

    given["defines"] = _defines(given.pop("define"))
    given["sizes"] = _sizes(given.pop("size"))
    for name in ("cflags", "ldflags"):
        if name in given:
            given[name] = _words(name, given[name])
    ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return Options(**ready, command=shlex.join(["polydl", *sys.argv[1:]]))


def print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
