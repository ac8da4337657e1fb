"""One output for every size of programs of the corpus, beside the output tuned for each size.

python experiments/any_size_programs.py --json any_size_programs.json [--only NAME]… [--sizes 5] [--rounds 9]
python experiments/any_size_programs.py --programs tests/everyday --only mean_variance --only trapezoid_rule
python experiments/any_size_programs.py --programs tests/everyday --no-run

The macros that a program of tests/programs has for its sizes become integer parameters of its function. One output is
made for the sizes called `bench` in tests/programs/catalogue.toml; at others, which were not tuned, it takes turns
with gcc's code and with an output that is made for these sizes, on the same data and in one process. The figures are
medians of the ratios within a round: `tuned` is the time of the output for the size over that of the one for every
size, so that 1 means that nothing is lost, `gcc` that of the original. With `--no-run` nothing is measured: what each
program of the catalogue runs at other sizes is said, and how many go on with their original loops.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import programs
from bench import geomean
from output import commit, machine

import polydl
from polydl.base.errors import PolyDLError
from tests.programs.corpus import Entry, catalogue

PROGRAMS = (
    "gemver", "atax", "bicg", "gesummv", "mvt", "symv", "lu", "cholesky", "trisolv", "durbin", "jacobi_2d", "seidel_2d",
    "fdtd_2d", "adi", "floyd_warshall", "blur", "sobel", "softmax", "layernorm", "transpose",
)  # fmt: skip
"""Those that are run where none are named: of every kind of the corpus, without products of matrices
(experiments/every_size.py)."""
FACTORS = (0.13, 0.71, 0.31, 1.17, 0.47)
"""Of the tuned sizes: those that are tried, made odd."""


@dataclass(frozen=True, slots=True)
class Point:
    """One program at one size."""

    name: str
    sizes: Mapping[str, int]
    times: Mapping[str, Sequence[float]]
    """Seconds of each contender's runs, in the order of the rounds: `gcc`, `tuned`, `any`."""
    other_sizes: str
    """What the output says of the sizes that it is not tuned for."""
    wrong: Sequence[str] = ()
    """What differed from gcc's result."""

    def ratio(self, peer: str) -> float:
        """Seconds of a peer over those of the output for every size: the median of the ratios within each round."""
        pairs = zip(self.times[peer], self.times["any"], strict=True)
        return statistics.median(theirs / mine for theirs, mine in pairs)


def with_parameters(entry: Entry, folder: Path) -> Entry:
    """The program with its sizes as parameters, in a file of this folder. Raises InputError where it is none then."""
    names = [name for name in entry.sizes[0] if name not in entry.runtime]
    text = entry.text
    for name in names:
        text = re.sub(rf"#ifndef {name}\n#define {name} .*\n#endif\n", "", text)
    head = re.search(rf"\b{entry.name}\((?=[^;{{]*\)\s*\{{)", text)
    assert head is not None
    more = "".join(f"int {name}, " for name in names)
    made = replace(entry, folder=folder)
    made.path.write_text(text[: head.end()] + more + text[head.end() :], encoding="utf-8")
    polydl.load(made.path, require_sizes=False)
    return made


def output(
    entry: Entry, values: Mapping[str, int], name: str, given: argparse.Namespace, folder: Path
) -> tuple[Path, str]:
    """A shared object of what polydl writes for these sizes, and what that says of others. Raises PolyDLError."""
    written = (given.keep or folder) / f"{entry.name}.{name}.c"
    done = polydl.optimize(
        entry.path, written, sizes=entry.parameters(values), threads=given.threads, top_k=given.top_k, budget=None
    )
    library = folder / f"{name}.so"
    programs.build((*programs.GCC, "-fopenmp"), done.output or entry.path, {}, library)
    return library, str(done.scops[0].other_sizes)


def points(entry: Entry, given: argparse.Namespace, folder: Path) -> list[Point]:
    """Measure a program at sizes that were not tuned."""
    entry = with_parameters(entry, folder)
    once, said = output(entry, entry.bench, "any", given, folder)
    original = folder / "gcc.so"
    programs.build(programs.GCC, entry.path, {}, original)
    found = []
    for factor in FACTORS[: given.sizes]:
        values = {name: max(1, round(value * factor)) | 1 for name, value in entry.bench.items()}
        tuned, _ = output(entry, values, "tuned", given, folder)
        contenders = {"gcc": original, "tuned": tuned, "any": once}
        times, wrong = programs.taken(entry, values, contenders, given, folder)
        found.append(Point(entry.name, values, times, said, wrong))
        print(shown(found[-1]), flush=True)
    return found


def shown(point: Point) -> str:
    """One line for people."""
    sizes = ",".join(f"{name}={value}" for name, value in point.sizes.items())
    wrong = f"  WRONG {point.wrong}" if point.wrong else ""
    return f"{point.name:16s} {sizes:24s} tuned {point.ratio('tuned'):.2f}  gcc {point.ratio('gcc'):.2f}{wrong}"


def said_of(entries: Mapping[str, Entry], names: Sequence[str], threads: int) -> int:
    """Print what programs run at sizes that were not tuned. Returns the exit code."""
    other, original, refused = 0, 0, 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="polydl-any-size-") as folder:
            try:
                entry = with_parameters(entries[name], Path(folder))
                sizes = entry.parameters(entry.bench)
                done = polydl.optimize(entry.path, None, sizes=sizes, threads=threads, run=False, space="small")
            except PolyDLError as error:
                refused += 1
                print(f"{name:24s} refused: {str(error).splitlines()[0]}", flush=True)
                continue
        said = [scop.other_sizes for scop in done.scops]
        whole = all(not isinstance(one, str) for one in said)
        other, original = other + whole, original + (not whole)
        print(f"{name:24s} {'; '.join(map(str, said))}", flush=True)
    print(f"{other} have code for other sizes, {original} keep their loops, {refused} are refused with parameters")
    return 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--programs", type=Path, metavar="DIR", help="with a catalogue.toml; default: tests/programs")
    options.add_argument(
        "--only", metavar="NAME", action="append", help=f"of the catalogue; default: {', '.join(PROGRAMS)}"
    )
    options.add_argument("--sizes", type=int, default=len(FACTORS), help=f"at most {len(FACTORS)}")
    options.add_argument("--rounds", type=int, default=9, help="at most; at least three")
    options.add_argument("--seconds", type=float, default=15, help="for the rounds of a program at one size")
    options.add_argument("--top-k", type=int, default=5)
    options.add_argument("--keep", type=Path, metavar="DIR", help="keep what polydl writes there")
    options.add_argument("--no-run", action="store_true", help="say what runs at other sizes, of all of the catalogue")
    given = options.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    entries = catalogue(given.programs) if given.programs else catalogue()
    names = given.only or (list(entries) if given.no_run else PROGRAMS)
    if unknown := set(names) - set(entries):
        sys.exit(f"no program is called {', '.join(sorted(unknown))}")
    if given.no_run:
        return said_of(entries, names, given.threads)
    found: list[Point] = []
    failed: dict[str, str] = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="polydl-any-size-") as folder:
            try:
                found += points(entries[name], given, Path(folder))
            except PolyDLError as error:
                failed[name] = str(error)
                print(f"{name}: {error}", flush=True)
        if given.json:
            rows = [{**asdict(p), "ratio": {peer: p.ratio(peer) for peer in ("gcc", "tuned")}} for p in found]
            about = {
                "machine": machine(),
                "commit": commit(),
                "command": shlex.join(sys.argv),
                "threads": given.threads,
            }
            given.json.write_text(json.dumps({**about, "points": rows, "failed": failed}, indent=1) + "\n")
    for peer in ("tuned", "gcc") if found else ():
        ratios = [point.ratio(peer) for point in found]
        print(f"{peer}: geometric mean {geomean(ratios):.3f}, least {min(ratios):.3f}, {len(ratios)} points")
    return 1 if failed or any(point.wrong for point in found) else 0


if __name__ == "__main__":
    sys.exit(main())
