"""The command line. Heavy imports happen inside the commands, so that `polydl --help` is quick."""

from __future__ import annotations

import io
import json
import shlex
import signal
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

from polydl._version import __version__
from polydl.errors import InputError, PolyDLError

if TYPE_CHECKING:
    from polydl.options import Options

_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

app = typer.Typer(
    name="polydl",
    help="Optimise C loop nests: extract, rank the legal variants, measure the best few, write C.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[Path, typer.Argument(metavar="FILE.c", show_default=False, readable=False)]
Define = Annotated[list[str], typer.Option("-D", metavar="NAME[=VALUE]", help="Define a macro, as for the compiler.")]
Undefine = Annotated[list[str], typer.Option("-U", metavar="NAME", help="Undefine a macro.")]
Include = Annotated[list[str], typer.Option("-I", metavar="DIR", help="Search a folder for headers.")]
Size = Annotated[
    list[str], typer.Option("--size", metavar="N=V,…", help="Tune for these values of function parameters.")
]
Function = Annotated[str | None, typer.Option("--function", metavar="F", help="Only this function's scops.")]
Ranker = Annotated[str, typer.Option("--ranker", metavar="R", help="How variants are ranked.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, help="Variants compiled, checked and timed.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; default: all cores.")]
SpaceName = Annotated[str, typer.Option("--space", metavar="small|default|wide", help="How many variants.")]
MachineFile = Annotated[str | None, typer.Option("--machine", metavar="TOML", help="Machine file or preset.")]
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
Prepack = Annotated[
    list[str], typer.Option("--prepack", metavar="ARRAY", help="Packed once, by a function FUNCTION_pack, untimed.")
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


def _options(**given: Any) -> Options:
    from polydl.options import Options

    given["defines"] = _defines(given.pop("define"))
    given["sizes"] = _sizes(given.pop("size"))
    for name in ("cflags", "ldflags"):
        if name in given:
            given[name] = _words(name, given[name])
    ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return Options(**ready, command=shlex.join(["polydl", *sys.argv[1:]]))


@app.command()
def optimize(
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.c", show_default=False)] = None,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
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
    no_fuse: Annotated[bool, typer.Option("--no-fuse", help="Leave the nests apart.")] = False,
    prepack: Prepack = [],
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew, whatever was kept of an earlier run.")] = False,
    json_: Json = False,
) -> None:
    """Write a faster FILE.c that computes the same, checked and timed against it."""
    from polydl.optimize_command import optimize_command

    options = _options(
        define=define, undefines=undefine, include_dirs=include, size=size, function=function, ranker=ranker,
        top_k=top_k, threads=threads, space=space, machine=machine, strict_alias=strict_alias,
        reassociate=not no_reassociate, fuse=not no_fuse, fast_math=fast_math, seed=seed, cc=cc, cflags=cflags,
        ldflags=ldflags, link=link, timeout=timeout, cold=cold, loops=loops, blocks=blocks, prepack=prepack,
    )  # fmt: skip
    optimize_command(file, output, options, run=not no_run, fresh=fresh, as_json=json_)


@app.command()
def rank(
    file: File,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
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
    loops_file: Annotated[
        Path | None, typer.Option("--loops-file", metavar="FILE", help="Score these loop strings instead of a space.")
    ] = None,
    json_: Json = False,
) -> None:
    """Rank the legal variants; nothing is compiled or run."""
    from polydl import pipeline, present

    options = _options(
        define=define, undefines=undefine, include_dirs=include, size=size, function=function, ranker=ranker,
        threads=threads, space=space, machine=machine, strict_alias=strict_alias,
        reassociate=not no_reassociate, cc=cc,
    )  # fmt: skip
    program = pipeline.load(file, options)
    if loops_file is not None:
        from polydl.given import score_file

        scored = [score_file(scop, loops_file, options) for scop in program.scops]
        if json_:
            _print_json(present.given_json(scored))
        else:
            present.show_given(scored)
        return
    with present.progress(quiet=json_) as progress:
        rankings = [pipeline.rank(scop, options, progress=progress) for scop in program.scops]
    if json_:
        _print_json(present.rank_json(rankings))
    else:
        present.show_rankings(rankings, top)


@app.command()
def explain(
    file: File,
    variant: Annotated[
        list[str],
        typer.Argument(metavar="ID [ID]", show_default=False, help="Id or its beginning, best, original, loop string."),
    ],
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
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
    from polydl import pipeline, present
    from polydl.explain import explain as run
    from polydl.side_by_side import show_explained

    options = _options(
        define=define, undefines=undefine, include_dirs=include, size=size, function=function, ranker=ranker,
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
        _print_json(found.to_data())
    else:
        show_explained(found)


@app.command()
def collect(
    layers: Annotated[list[Path], typer.Option("--layers", metavar="CSV", help="Layers or matrix sizes; repeatable.")],
    store: Annotated[Path, typer.Option("--store", metavar="SQLITE", help="Where the measurements go.")],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Variants measured of each size.")] = 72,
    images: Annotated[int | None, typer.Option("--images", min=1, help="Default: as many as threads.")] = None,
    most: Annotated[float, typer.Option("--most-gflop", min=0.0, help="Leave larger sizes out.")] = 1e9,
    workload: Annotated[list[str], typer.Option("--workload", metavar="NAME", help="Only these networks.")] = [],
    threads: Threads = None,
    space: SpaceName = "default",
    seed: Seed = 0,
    scratch: Annotated[
        Path | None, typer.Option("--scratch", metavar="DIR", help="Build here; kept until it is measured.")
    ] = None,
    prepare_only: Annotated[bool, typer.Option("--prepare-only", help="Build in --scratch, measure nothing.")] = False,
) -> None:
    """Measure many variants of many sizes, to train rankers on; goes on where it was interrupted."""
    from polydl.collect.command import collect_command

    collect_command(
        layers, store, samples=samples, images=images, most_operations=most * 1e9, workloads=workload, threads=threads,
        space=space, seed=seed, scratch=scratch, prepare_only=prepare_only,
    )  # fmt: skip


@app.command()
def fuse(
    file: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="OUT.c", show_default=False)] = None,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    size: Size = [],
    function: Function = None,
    strict_alias: StrictAlias = False,
    cc: Cc = "cc",
    json_: Json = False,
) -> None:
    """Fuse element-wise nests into heavy ones and neighbouring nests into one, and say why not where not."""
    from polydl import pipeline
    from polydl.show_fused import fuse_json, show_fused

    options = _options(
        define=define, undefines=undefine, include_dirs=include, size=size, function=function,
        strict_alias=strict_alias, cc=cc,
    )  # fmt: skip
    result = pipeline.fuse(file, output, options)
    if json_:
        _print_json(fuse_json(result))
    else:
        show_fused(result)


@app.command()
def train(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Store (SQLite) or its export (Parquet).")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.safetensors", help="The weights; card and curve beside.")],
    kind: Annotated[str, typer.Option("--kind", metavar="dnn|dnn-paper", help="Which ranker.")] = "dnn",
    finetune: Annotated[
        Path | None, typer.Option("--finetune", metavar="FILE.safetensors", help="Go on from these weights.")
    ] = None,
    exclude: Annotated[list[str], typer.Option("--exclude", metavar="NETWORK", help="Keep out of training.")] = [],
    epochs: Annotated[int | None, typer.Option("--epochs", min=1)] = None,
    members: Annotated[int | None, typer.Option("--members", min=1, help="Networks in the ensemble.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Train a ranker on measurements that `polydl collect` made."""
    from polydl.train.command import train_command

    train_command(data, out, kind=kind, finetune=finetune, seed=seed, epochs=epochs, members=members, exclude=exclude)


@app.command()
def evaluate(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Store (SQLite) or its export (Parquet).")],
    model: Annotated[
        list[Path], typer.Option("--model", metavar="FILE.safetensors", help="Judge these weights; repeatable.")
    ] = [],
    workload: Annotated[list[str], typer.Option("--workload", metavar="NETWORK", help="Only these networks.")] = [],
    json_: Json = False,
) -> None:
    """Judge rankers on measurements: how fast is what each of them would choose?"""
    from polydl.train.command import evaluate_command, show_evaluation

    found = evaluate_command(data, model, workload)
    if json_:
        _print_json(found)
    else:
        show_evaluation(found)


@app.command()
def analyze(
    file: File,
    define: Define = [],
    undefine: Undefine = [],
    include: Include = [],
    size: Size = [],
    function: Function = None,
    machine: MachineFile = None,
    strict_alias: StrictAlias = False,
    cc: Cc = "cc",
    json_: Json = False,
) -> None:
    """Show what was extracted: domains, accesses, dependences, parallel loops, working sets."""
    from polydl import pipeline, present
    from polydl.analysis import analyze as run

    options = _options(
        define=define, undefines=undefine, include_dirs=include, size=size, function=function, machine=machine,
        strict_alias=strict_alias, cc=cc,
    )  # fmt: skip
    program = pipeline.load(file, options, require_sizes=False)
    results = [run(scop, options.target()) for scop in program.scops]
    if json_:
        _print_json({"scops": [r.to_data() for r in results]})
    else:
        present.show_analyses(results)


@app.command(name="machine")
def show_machine(
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure it (under 20 s), keep it.")] = False,
    name: MachineFile = None,
    json_: Json = False,
) -> None:
    """Show what the machine is taken to be."""
    from polydl import present
    from polydl.machine import calibrate as measure_machine
    from polydl.options import Options

    found = measure_machine() if calibrate else Options(machine=name).target()
    if json_:
        _print_json(present.machine_json(found))
    else:
        present.show_machine(found)


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"polydl {__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Version.")] = False,
) -> None:
    pass


def _terminated(signal_number: int, frame: object) -> NoReturn:
    """End as Ctrl-C does, so that processes and temporary files are cleaned up."""
    sys.exit(128 + signal_number)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """As people read it: without a place in our code."""
    sys.stderr.write(f"warning: {message}\n")


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 could not do it, 2 the input is at fault, 130 interrupted."""
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names need not be text, and terminals need not know every character.
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    try:
        app(standalone_mode=True)
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.stderr.write("interrupted: nothing was written\n")
        raise
    sys.exit(0)
