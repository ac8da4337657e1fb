"""Speed-up of polydl over gcc -O3 and over Polly on the corpus of affine programs (tests/programs).

python experiments/programs.py --json programs.json [--only NAME]… [--resume] [--peers gcc,polly]

Every program is optimized for the sizes called `bench` in tests/programs/catalogue.toml (past the last-level cache).
The contenders are shared objects in one process that take turns on the same data, which are put back before each run;
every result is compared with gcc's. A contender whose first run takes more than 20 s is not run again: that run stands
for all. The figure is the median of the ratios within a round. Polly is clang's with `-mllvm -polly -mllvm
-polly-parallel` and gcc's OpenMP runtime, which all contenders share.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import geomean
from output import commit, machine

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import polydl  # noqa: E402
from polydl.base.errors import PolyDLError  # noqa: E402
from polydl.model.types import spelled  # noqa: E402
from tests.programs.corpus import FOLDER, Entry, argument_texts, catalogue, records  # noqa: E402

GCC = ("gcc", "-std=gnu11", "-O3", "-march=native", "-w")
FAST = ("gcc", "-std=gnu11", "-Ofast", "-march=native", "-w")
POLLY_COMPILERS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang")
POLLY = ("-std=gnu11", "-O3", "-march=native", "-w", "-mllvm", "-polly", "-mllvm", "-polly-parallel")
ROUNDING = {"double": 1e-9, "float": 1e-4}
"""Differences allowed on real data, relative to the array's largest magnitude: contraction of a * b + c differs."""
RUN_SECONDS = 300.0
"""That one run of a program may take."""
_SUPPORT = ROOT / "tests" / "programs" / "support.h"
_RUNNER = Path(__file__).parent / "kernels" / "programs_runner.h"


@dataclass(frozen=True, slots=True)
class Row:
    """A program measured."""

    name: str
    kind: str
    """`reuse` or `other`."""
    sizes: Mapping[str, int]
    times: Mapping[str, Sequence[float]]
    """Seconds of each contender's runs, in the order of the rounds."""
    variants: Sequence[str]
    """The recipe chosen for each scop; `original` where nothing was measurably faster."""
    search_seconds: float
    wrong: Sequence[str] = ()
    """What differed from gcc's result."""
    error: str = ""
    """Why polydl wrote nothing."""

    def ratio(self, peer: str) -> float | None:
        """Seconds of a peer over those of polydl: the median of the ratios within each round."""
        mine, theirs = self.times.get("polydl"), self.times.get(peer)
        return statistics.median(b / a for a, b in zip(mine, theirs, strict=True)) if mine and theirs else None


def driver(entry: Entry, values: Mapping[str, int]) -> str:
    """C text of the program that times the contenders of one program."""
    arrays = [a for a in entry.arguments if a.is_array]
    bounds = {a.name: max(entry.bound, ROUNDING.get(a.ctype, 0.0) * (entry.data_of(a.name) != "int")) for a in arrays}
    if entry.bound:
        bounds = {name: max(bound, entry.bound) for name, bound in bounds.items()}
    texts = argument_texts(entry, values)
    places = {a.name: i for i, a in enumerate(arrays)}
    types = ", ".join("void *" if a.is_array else a.ctype for a, _ in texts) or "void"
    call = ", ".join(f"arrays[{places[a.name]}].data" if a.is_array else text for a, text in texts)
    defines = [f"#define {name} {value}" for name, value in entry.defines(values).items()]
    parameters = [f"    long {name} = {value};" for name, value in entry.parameters(values).items()]
    lines = [
        "#define _GNU_SOURCE",
        f'#include "{_SUPPORT}"',
        "#include <stddef.h>",
        *defines,
        f"enum {{ CORPUS_ARRAYS = {len(arrays)} }};",
        f"typedef void (*corpus_function)({types});",
        "static struct corpus_array *corpus_arrays(void)",
        "{",
        *parameters,
        "    struct corpus_array arrays[] = {",
        *records(entry, {a.name: "(char *)1" for a in arrays if a.is_global}, bounds),
        "    };",
        "    struct corpus_array *kept = malloc(sizeof arrays);",
        "    memcpy(kept, arrays, sizeof arrays);",
        "    return kept;",
        "}",
        "static void corpus_subscripts(struct corpus_array *arrays)",
        "{",
        *parameters,
        *_subscripts(entry, [a.name for a in arrays]),
        "}",
        "static void corpus_call(corpus_function function, struct corpus_array *arrays)",
        "{",
        f"    function({call});",
        "}",
        f'#include "{_RUNNER}"',
    ]
    return "\n".join(lines) + "\n"


def has_data(entry: Entry) -> bool:
    """Whether there is data for all of a program's arguments: none is made for structures."""
    known = all(spelled(a.ctype.removesuffix(" complex")) is not None for a in entry.arguments)
    return known and (bool(entry.elements) or all(a.extents is not None for a in entry.arguments))


def _subscripts(entry: Entry, arrays: Sequence[str]) -> list[str]:
    """Statements that give arrays of subscripts elements that are inside of what they are subscripts of."""
    lines = []
    for place, name in enumerate(arrays):
        value = f"floor(corpus_number(at + {place + 1}000000000u) * (double)({entry.below.get(name, 0)}))"
        if name in entry.apart:
            value = f"(double)at * {entry.apart[name]}"
        if name in {*entry.below, *entry.apart}:
            lines.append(f"    for (size_t at = 0; at < arrays[{place}].elements; at++)")
            lines.append(f"        corpus_set(&arrays[{place}], at, {value});")
    return lines


def in_parallel(entry: Entry) -> str:
    """The program with the obvious pragma before each of the function's outermost loops."""
    text, name = entry.text, entry.name
    begin = re.search(rf"\b{name}\([^;{{]*\)\s*\{{", text)
    assert begin is not None
    head, body = text[: begin.end()], text[begin.end() :]
    return head + re.sub(r"^    for \(", "#pragma omp parallel for\n    for (", body, flags=re.MULTILINE)


def build(command: Sequence[str], source: Path, defines: Mapping[str, str | int], output: Path) -> None:
    """A shared object. Raises CalledProcessError."""
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    arguments = [*command, *macros, "-shared", "-fPIC", "-Wl,-Bsymbolic", str(source), "-o", str(output)]
    subprocess.run([*arguments, "-lm", "-lgomp"], check=True)


def taken(
    entry: Entry, values: Mapping[str, int], contenders: Mapping[str, Path], given: argparse.Namespace, folder: Path
) -> tuple[dict[str, list[float]], list[str]]:
    """Let shared objects take turns, the reference first: the seconds of each one's runs, and what differed from the
    reference."""
    source, program = folder / "driver.c", folder / "driver"
    source.write_text(driver(entry, values))
    subprocess.run(["gcc", "-O2", "-w", str(source), "-o", str(program), "-ldl", "-lm", "-lgomp"], check=True)
    arguments = [str(program), str(given.rounds), str(given.seconds), entry.name, *map(str, contenders.values())]
    environment = {**os.environ, "OMP_NUM_THREADS": str(given.threads)}
    done_run = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    wrong = []
    for line in done_run.stdout.splitlines():
        first, rest = line.split(" ", 1)
        if first == "wrong":
            number, what = rest.split(":", 1)
            wrong.append(f"{names[int(number)]}:{what}")
        else:
            times[names[int(first)]].append(float(rest))
    return times, wrong


def measure(entry: Entry, given: argparse.Namespace, folder: Path) -> Row:
    """Optimize a program, build all contenders, let them take turns."""
    values = {name: int(given.sizes.get(name, value)) for name, value in entry.bench.items()}
    defines = entry.defines(values)
    written = (given.made or given.keep or folder) / f"{entry.name}.polydl.c"
    error, variants, search = "", [], 0.0
    try:
        done = given.made is None and polydl.optimize(
            entry.path,
            written,
            defines=defines,
            sizes=entry.parameters(values),
            threads=given.threads,
            top_k=given.top_k,
            timeout=RUN_SECONDS,
            budget=given.budget,
        )
        if done:
            search = done.seconds["total"]
            variants = [str(one.chosen.recipe) if one.chosen else "original" for one in done.scops]
        if not written.exists():
            error = "nothing verified"
    except PolyDLError as failed:
        error = str(failed)
    contenders: dict[str, Path] = {}
    for name in given.peers.split(","):
        contenders[name] = folder / f"{name}.so"
        commands = {"gcc": GCC, "fast": FAST, "parallel": (*FAST, "-fopenmp"), "polly": (given.polly, *POLLY)}
        source = entry.path
        if name == "parallel":
            source = folder / "parallel.c"
            source.write_text(in_parallel(entry))
        try:
            build(commands[name], source, defines, contenders[name])
        except subprocess.CalledProcessError:
            if name != "parallel":
                raise
            # OpenMP takes only some loops: none with `i + 4 <= n`.
            sys.stderr.write(f"{entry.name}: its outermost loops cannot have the pragma: no such contender\n")
            del contenders[name]
    if not error:
        contenders["polydl"] = folder / "polydl.so"
        build((*GCC, "-fopenmp"), written, defines, contenders["polydl"])
    times, wrong = taken(entry, values, contenders, given, folder)
    return Row(entry.name, entry.kind, values, times, variants, search, wrong, error)


def geomeans(rows: Sequence[Row], peers: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Geometric means of the speed-ups over each peer, by class and over all; a program without output counts as 1."""
    found: dict[str, dict[str, float | None]] = {}
    for kind in ("reuse", "other", "all"):
        chosen = [row for row in rows if kind in (row.kind, "all")]
        found[kind] = {
            peer: geomean([r for row in chosen if (r := 1.0 if row.error else row.ratio(peer)) is not None])
            for peer in peers
        }
    return found


def document(rows: Sequence[Row], given: argparse.Namespace) -> dict[str, object]:
    """What the JSON file holds."""
    peers = given.peers.split(",")
    return {
        "machine": machine(),
        "commit": commit(),
        "command": shlex.join(sys.argv),
        "threads": given.threads,
        "rows": [
            {**asdict(row), "ratio": {peer: row.ratio(peer) for peer in peers}}
            for row in sorted(rows, key=lambda row: row.name)
        ],
        "geomean": geomeans(rows, peers),
    }


def shown(row: Row, peers: Sequence[str]) -> str:
    """One line for people."""
    ratios = ", ".join(f"{r:.2f}x {peer}" for peer in peers if (r := row.ratio(peer)) is not None)
    best = "; ".join(row.variants)
    wrong = f"  WRONG {row.wrong}" if row.wrong else ""
    seconds = {name: statistics.median(row.times[name]) for name in ("gcc", "polydl") if row.times.get(name)}
    taken = ", ".join(f"{name} {1e3 * one:.2f} ms" for name, one in seconds.items())
    return f"{row.name:20s} {row.kind:5s} {taken}  {ratios or row.error}  [{best}]{wrong}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--only", metavar="NAME", action="append")
    options.add_argument("--kind", choices=("reuse", "other"))
    options.add_argument("--resume", action="store_true", help="keep the programs that FILE has")
    options.add_argument(
        "--peers",
        default="gcc,polly",
        help="of gcc (-O3), fast (gcc -Ofast), parallel (that, and omp parallel for), polly; gcc comes first",
    )
    options.add_argument("--programs", type=Path, default=FOLDER, metavar="DIR", help="a folder with a catalogue.toml")
    options.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="instead of the size in the catalogue's `bench`",
    )
    options.add_argument("--rounds", type=int, default=9, help="at most; at least three")
    options.add_argument("--seconds", type=float, default=15, help="for the rounds of a program")
    options.add_argument("--top-k", type=int, default=5)
    options.add_argument("--budget", type=float, metavar="SECONDS", help="for each search; none unless given")
    options.add_argument("--keep", type=Path, metavar="DIR", help="keep what polydl writes there")
    options.add_argument("--made", type=Path, metavar="DIR", help="time what it wrote there before, without a search")
    given = options.parse_args()
    given.sizes = dict(one.split("=", 1) for one in given.size)
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    peers = given.peers.split(",")
    if peers[0] != "gcc" or set(peers) - {"gcc", "fast", "parallel", "polly"}:
        sys.exit("--peers is gcc, and of fast, parallel and polly what is wanted")
    given.polly = next((c for c in POLLY_COMPILERS if shutil.which(c)), None)
    if "polly" in peers and given.polly is None:
        sys.exit("there is no clang: install one with Polly, or give --peers gcc")
    rows: list[Row] = []
    if given.resume and given.json and given.json.exists():
        for one in json.loads(given.json.read_text())["rows"]:
            rows.append(Row(**{name: one[name] for name in Row.__dataclass_fields__}))
    entries = [e for e in catalogue(given.programs).values() if given.only is None or e.name in given.only]
    entries = [e for e in entries if given.kind in (None, e.kind)]
    if given.only and (unknown := set(given.only) - {e.name for e in entries}):
        sys.exit(f"no program is called {', '.join(sorted(unknown))}")
    # Programs with large arrays of their own have them on the stack.
    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    without = []
    for number, entry in enumerate(entries, start=1):
        if any(row.name == entry.name for row in rows):
            continue
        if not has_data(entry):
            print(f"[{number}/{len(entries)}] {entry.name}: not run, no data is made for structures", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="polydl-programs-") as folder:
            try:
                rows.append(measure(entry, given, Path(folder)))
            except subprocess.CalledProcessError as failed:
                without.append(entry.name)
                print(f"[{number}/{len(entries)}] {entry.name}: FAILED, {failed}", flush=True)
                continue
        print(f"[{number}/{len(entries)}] {shown(rows[-1], peers)}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(document(rows, given), indent=1) + "\n")
    for kind, means in geomeans(rows, peers).items():
        print(kind, {peer: round(mean, 3) for peer, mean in means.items() if mean})
    return 1 if without or any(row.wrong or row.error for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
