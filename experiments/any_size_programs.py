"""One output for every size of programs of the corpus, beside the output tuned for each size.

python experiments/any_size_programs.py --rows any.jsonl --outputs DIR [--only NAME]… [--sizes 5] [--tuned 5]
python experiments/any_size_programs.py --rows any.jsonl --outputs DIR --search      # makes outputs, times nothing
python experiments/any_size_programs.py --rows any.jsonl --outputs DIR --until 80    # begins no size after 80 s
python experiments/any_size_programs.py --rows any.jsonl --outputs DIR --shown       # what the file has
python experiments/any_size_programs.py --programs tests/everyday --no-run

The macros that a program of tests/programs has for its sizes become integer parameters of its function. One output is
made for the sizes called `bench` in tests/programs/catalogue.toml; at others, which were not tuned, it takes turns
with gcc's code and, at the first `--tuned` of them, with an output that is made for these sizes, on the same data and
in one process. Outputs stay in a folder and rows are written as they come, a row per program and size, so that it goes
on where it was stopped. The figures are medians of the ratios within a round: `tuned` is the time of the output for
the size over that of the one for every size, so that 1 means that nothing is lost, `gcc` that of the original. With
`--no-run` nothing is measured: what each program of the catalogue runs at other sizes is said, and how many go on with
their original loops.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import programs
from bench import geomean
from common import RowFile
from output import commit

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
LOST, CARRIED = 0.95, 0.8
"""Below the first of gcc's speed a size is lost; from the second of the tuned output's speed on a gain carries over."""


@dataclass(frozen=True, slots=True)
class Point:
    """One program at one size."""

    name: str
    sizes: Mapping[str, int]
    times: Mapping[str, Sequence[float]]
    """Seconds of each contender's runs, in the order of the rounds: `gcc`, `tuned`, `any`."""
    other_sizes: str
    """What the output says of the sizes that it is not tuned for."""
    commit: str
    """Of polydl."""
    wrong: Sequence[str] = ()
    """What differed from gcc's result."""

    def ratio(self, peer: str) -> float | None:
        """Seconds of a peer over those of the output for every size: the median of the ratios within each round; None
        where it was not timed."""
        theirs = self.times.get(peer)
        pairs = zip(theirs or (), self.times["any"] if theirs else (), strict=True)
        return statistics.median(t / mine for t, mine in pairs) if theirs else None


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


def output(entry: Entry, values: Mapping[str, int], name: str, given: argparse.Namespace) -> tuple[Path, str]:
    """What polydl writes for these sizes, and what that says of others; of an earlier run, where there is one. The
    program itself where nothing is written. Raises PolyDLError."""
    written = given.outputs / f"{entry.name}.{name}.c"
    said = written.with_suffix(".txt")
    if not said.exists():
        done = polydl.optimize(
            entry.path, written, sizes=entry.parameters(values), threads=given.threads, top_k=given.top_k, budget=None
        )
        if done.output is None:
            shutil.copy(entry.path, written)
        said.write_text(str(done.scops[0].other_sizes), encoding="utf-8")
    return written, said.read_text(encoding="utf-8")


def points(entry: Entry, given: argparse.Namespace, folder: Path, known: Sequence[Point]) -> Iterator[Point]:
    """Measure a program at sizes that were not tuned and are not known, or with `--search` make the outputs alone."""
    entry = with_parameters(entry, folder)
    sources = {"gcc": entry.path}
    sources["any"], said = output(entry, entry.bench, "any", given)
    for place, factor in enumerate(FACTORS[: given.sizes]):
        values = {name: max(1, round(value * factor)) | 1 for name, value in entry.bench.items()}
        if any(point.name == entry.name and point.sizes == values for point in known):
            continue
        of_size = dict(sources)
        if place < given.tuned:
            of_size["tuned"], _ = output(entry, values, f"tuned-{factor}", given)
        if given.search:
            continue
        if time.perf_counter() - given.begin > given.until:
            return
        contenders = {name: folder / f"{name}.so" for name in of_size}
        for name, source in of_size.items():
            command = programs.GCC if name == "gcc" else (*programs.GCC, "-fopenmp")
            programs.build(command, source, {}, contenders[name])
        times, wrong = programs.taken(entry, values, contenders, given, folder)
        yield Point(entry.name, values, times, said, commit(), wrong)


def points_of(file: RowFile) -> list[Point]:
    """Those that a file has. Raises SystemExit for one that is no such file."""
    return [Point(**values) for values in file.rows()]


def shown(point: Point) -> str:
    """One line for people."""
    sizes = ",".join(f"{name}={value}" for name, value in point.sizes.items())
    wrong = f"  WRONG {point.wrong}" if point.wrong else ""
    ratios = "  ".join(f"{peer} {r:.2f}" for peer in ("gcc", "tuned") if (r := point.ratio(peer)) is not None)
    return f"{point.name:16s} {sizes:24s} {ratios}{wrong}"


def summary(found: Sequence[Point]) -> None:
    """Print means, lost sizes, and how many programs keep their gains."""
    for peer in ("tuned", "gcc"):
        ratios = [r for point in found if (r := point.ratio(peer)) is not None]
        if ratios:
            print(f"{peer}: geometric mean {geomean(ratios):.3f}, least {min(ratios):.3f}, {len(ratios)} points")
    lost = [point for point in found if (r := point.ratio("gcc")) is not None and r < LOST]
    print(f"under {LOST} of gcc: {len(lost)}", *map(shown, lost), sep="\n  ")
    of: dict[str, list[float]] = {}
    for point in found:
        if (ratio := point.ratio("tuned")) is not None:
            of.setdefault(point.name, []).append(ratio)
    means = {name: geomean(ratios) for name, ratios in of.items()}
    less = [f"{name} {mean:.2f}" for name, mean in means.items() if mean is not None and mean < CARRIED]
    if means:
        kept = f"{len(means) - len(less)} of {len(means)}"
        print(f"{kept} programs at {CARRIED} of tuned or more in the mean; not: {', '.join(less) or 'none'}")


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
    options.add_argument("--rows", type=Path, metavar="JSONL", help="where rows are added")
    options.add_argument("--outputs", type=Path, metavar="DIR", help="where what polydl writes is, and stays")
    options.add_argument("--programs", type=Path, metavar="DIR", help="with a catalogue.toml; default: tests/programs")
    options.add_argument(
        "--only", metavar="NAME", action="append", help=f"of the catalogue; default: {', '.join(PROGRAMS)}"
    )
    options.add_argument("--sizes", type=int, default=len(FACTORS), help=f"at most {len(FACTORS)}")
    options.add_argument("--tuned", type=int, default=len(FACTORS), help="of them with an output of their own")
    options.add_argument("--rounds", type=int, default=9, help="at most; at least three")
    options.add_argument("--seconds", type=float, default=15, help="for the rounds of a program at one size")
    options.add_argument("--top-k", type=int, default=5)
    options.add_argument("--search", action="store_true", help="make outputs, time nothing")
    options.add_argument("--until", type=float, default=float("inf"), help="seconds after which no size is begun")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is run")
    options.add_argument("--no-run", action="store_true", help="say what runs at other sizes, of all of the catalogue")
    given = options.parse_args()
    entries = catalogue(given.programs) if given.programs else catalogue()
    names = given.only or (list(entries) if given.no_run else PROGRAMS)
    if unknown := set(names) - set(entries):
        sys.exit(f"no program is called {', '.join(sorted(unknown))}")
    if given.no_run:
        return said_of(entries, names, given.threads)
    if given.rows is None or given.outputs is None:
        options.error("--rows and --outputs are needed, unless nothing is run")
    given.outputs.mkdir(parents=True, exist_ok=True)
    given.begin = time.perf_counter()
    file = RowFile(given.rows, tuple(field.name for field in fields(Point)))
    failed: dict[str, str] = {}
    for name in () if given.shown else names:
        if time.perf_counter() - given.begin > given.until:
            break
        with tempfile.TemporaryDirectory(prefix="polydl-any-size-") as folder:
            try:
                for point in points(entries[name], given, Path(folder), points_of(file)):
                    file.add(asdict(point))
                    print(shown(point), flush=True)
            except PolyDLError as error:
                failed[name] = str(error)
                print(f"{name}: {error}", flush=True)
    found = points_of(file)
    summary(found)
    return 1 if failed or any(point.wrong for point in found) else 0


if __name__ == "__main__":
    sys.exit(main())
