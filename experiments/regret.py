"""What `polydl optimize` leaves behind: its choice with default options over the best of a broad measurement.

python experiments/regret.py --rows regret.jsonl --folder DIR --prepare      # builds samples; may share the machine
python experiments/regret.py --rows regret.jsonl --folder DIR                # times them; wants the machine for itself
python experiments/regret.py --rows regret.jsonl --folder DIR --seconds 160  # begins no row after so many seconds
python experiments/regret.py --rows regret.jsonl --shown                     # what the file has, nothing is run

Thirty products of matrices and layers, drawn at random (`--seed`), none of them of `experiments/data`. Of the space of
each a sample is built (`--count` variants: each ranker's favourites, the loops as written around a microkernel, the
rest at random, half of it from the better tenth of the order), and `polydl optimize` runs as a user runs it, but for
`--no-learn`. All are timed in turns in one process, four times; then the seven quickest, the tool's choice, its first
rank and the loops as written, twelve times in turns. A row is a problem: seconds of each of these, and of the best
other one that was found; who is quickest of the first times has had luck with them, so those of the second count.

Rows are written as they come; those that the file has are not made again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import RowFile
from native import FLAGS, KERNELS
from output import machine
from sizes import DATA, conv_layers, gemm_sizes

import polydl
from polydl.learn.collect.sample import chosen_sample, is_default
from polydl.rank import rankers

CHOICE, FIRST, WRITTEN, BEST = "choice", "first", "written", "best"
"""What the tool wrote, what it ranks first, the loops as written around a microkernel, the best that was found."""
FIELDS = ("machine", "problem", "threads", "variants", "space", "tool_seconds", CHOICE, FIRST, WRITTEN, BEST, "over")
FINALISTS, ROUNDS, FINAL_ROUNDS = 7, 4, 12
TURN, FINAL_TURN = 0.005, 0.02
"""Seconds of a turn."""
DRAWS = 2000
"""Of the bootstrap."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A C function with its sizes."""

    name: str
    source: Path
    function: str
    defines: Mapping[str, int]
    extents: tuple[tuple[int, ...], ...]
    """Of its arrays, in the order of its arguments."""
    output: int
    """Which of them it writes."""

    @property
    def macros(self) -> list[str]:
        """Flags of a compiler."""
        return [f"-D{name}={value}" for name, value in self.defines.items()]


def product(m: int, n: int, k: int) -> Problem:
    defines = {"M": m, "N": n, "K": k}
    return Problem(f"{m}x{n}x{k}", KERNELS / "gemm.c", "matmul", defines, ((m, k), (k, n), (m, n)), 2)


def layer(channels: int, filters: int, size: int, kernel: int) -> Problem:
    block_in, block_out = (next(b for b in (64, 32, 16) if n % b == 0) for n in (channels, filters))
    defines = {"NIMG": 2, "NOFM": filters, "NIFM": channels, "OFH": size, "OFW": size, "KH": kernel, "KW": kernel,
               "STRIDE_H": 1, "STRIDE_W": 1, "OFM_BLOCK": block_out, "IFM_BLOCK": block_in}  # fmt: skip
    reach = size + kernel - 1
    outputs, inputs = filters // block_out, channels // block_in
    extents = ((2, outputs, size, size, block_out), (2, inputs, reach, reach, block_in),
               (outputs, inputs, kernel, kernel, block_in, block_out))  # fmt: skip
    name = f"conv_{channels}_{filters}_{size}_{kernel}"
    return Problem(name, KERNELS / "conv.c", "conv2d", defines, extents, 0)


def problems(seed: int) -> list[Problem]:
    """Fifteen products and fifteen layers of 20 to 400 million operations, in turns."""
    rng = np.random.default_rng(seed)
    lists = (DATA / name for name in ("gemm_sizes.csv", "gemm_random.csv"))
    known = {(size.M, size.N, size.K) for path in lists for size in gemm_sizes(path)}
    layers = {(one.C, one.K, one.ofw, one.kw) for one in conv_layers()}
    found: list[Problem] = []
    while len(found) < 30:
        if len(found) % 2 == 0:
            m, n, k = (round(2 ** rng.uniform(4, 11)) for _ in range(3))
            if 2e7 <= 2.0 * m * n * k <= 4e8 and (m, n, k) not in known:
                found.append(product(m, n, k))
        else:
            channels, filters = (16 * round(2 ** rng.uniform(0, 4)) for _ in range(2))
            size, kernel = int(rng.integers(7, 57)), int(rng.choice([1, 3]))
            if 2e7 <= 4.0 * channels * filters * (size * kernel) ** 2 <= 4e8:
                if (channels, filters, size, kernel) not in layers:
                    found.append(layer(channels, filters, size, kernel))
    return found


def compiled(source: Path, output: Path, macros: Sequence[str]) -> Path:
    """A shared object."""
    subprocess.run(["cc", *FLAGS, "-w", *macros, "-shared", "-fPIC", str(source), "-o", str(output), "-lm"], check=True)
    return output


def prepare(problem: Problem, folder: Path, given: argparse.Namespace) -> None:
    """The sample of a problem, built in a folder, which has a list of it then."""
    if (folder / "sample.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    ranking = polydl.rank(
        problem.source, defines={n: str(v) for n, v in problem.defines.items()}, threads=given.threads
    )
    rng = np.random.default_rng([given.seed, *map(ord, problem.name)])
    others = {name: rankers.named(name) for name in ("trace", "dnn")}
    sample = [(v, why) for v, why in chosen_sample(ranking, others, given.count, rng) if v.illegal is None]
    first = ranking.variants[0].id
    for variant, _ in sample:
        text = folder / f"{variant.id}.c"
        text.write_text(variant.code())
        compiled(text, text.with_suffix(".so"), problem.macros)
    written = next((v.id for v, _ in sample if is_default(v)), None)
    listed = {"variants": [v.id for v, _ in sample], "space": len(ranking.variants), FIRST: first, WRITTEN: written}
    (folder / "sample.json").write_text(json.dumps(listed))


def tool(problem: Problem, folder: Path, given: argparse.Namespace) -> tuple[Path, float]:
    """What `polydl optimize` writes, compiled, and its seconds."""
    written = folder / "choice.c"
    command = [sys.executable, "-m", "polydl", "optimize", str(problem.source), "-o", str(written), *problem.macros]
    environment = {**os.environ, "POLYDL_CACHE": str(folder / "cache")}
    begin = time.perf_counter()
    subprocess.run(
        [*command, "--threads", str(given.threads), "--no-learn"], check=True, env=environment, capture_output=True
    )
    seconds = time.perf_counter() - begin
    return compiled(written, folder / "choice.so", problem.macros), seconds


def bound(problem: Problem, library: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> Callable[[], object]:
    """A call of a library's function."""
    entry = getattr(ctypes.CDLL(str(library)), problem.function)
    entry.restype = None
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return lambda: entry(*pointers)


def turn(call: Callable[[], object], seconds: float) -> float:
    """Median seconds of a call, over as many as take so long; the first warms up."""
    call()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def in_turns(calls: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Seconds of each, a figure for each round, in which each has a turn."""
    names, times = list(calls), {name: list[float]() for name in calls}
    for number in range(rounds):
        for name in (*names[number % len(names) :], *names[: number % len(names)]):
            times[name].append(turn(calls[name], seconds))
    return times


def measured(problem: Problem, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """A row."""
    listed = json.loads((folder / "sample.json").read_text())
    choice, tool_seconds = tool(problem, folder, given)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, size=extent).astype(np.float32) for extent in problem.extents]
    libraries = {CHOICE: choice, **{name: folder / f"{name}.so" for name in listed["variants"]}}
    calls = {name: bound(problem, library, arrays) for name, library in libraries.items()}
    expected: np.ndarray[Any, Any] | None = None
    for name, call in calls.items():
        arrays[problem.output][...] = 1
        call()
        expected = arrays[problem.output].copy() if expected is None else expected
        if not np.array_equal(arrays[problem.output], expected):
            sys.exit(f"{problem.name}: {name} computes something else than {CHOICE}")
    times = in_turns(calls, ROUNDS, TURN)
    others = sorted(listed["variants"], key=lambda name: statistics.median(times[name]))
    finalists = dict.fromkeys([CHOICE, *others[:FINALISTS], listed[FIRST], *filter(None, [listed[WRITTEN]])])
    final = in_turns({name: calls[name] for name in finalists}, FINAL_ROUNDS, FINAL_TURN)
    medians = {name: statistics.median(several) for name, several in final.items()}
    best = min((name for name in finalists if name != CHOICE), key=lambda name: medians[name])
    over = [a / b for a, b in zip(final[CHOICE], final[best], strict=True)]
    return {
        "machine": machine()["cpu"], "problem": problem.name, "threads": given.threads,
        "variants": len(listed["variants"]), "space": listed["space"], "tool_seconds": tool_seconds,
        CHOICE: medians[CHOICE], FIRST: medians[listed[FIRST]],
        WRITTEN: medians[listed[WRITTEN]] if listed[WRITTEN] else None, BEST: medians[best],
        "over": statistics.median(over), "spread": [min(over), max(over)],
    }  # fmt: skip


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of what these are the logarithms of, with a 95 % interval over problems (bootstrap)."""
    rng, values = np.random.default_rng(0), np.array(logs)
    means = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return math.exp(values.mean()), math.exp(low), math.exp(high)


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows in Markdown, and what they say together."""
    print("| problem | choice, µs | best found, µs | choice over best | first rank | as written | tool, s |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        written = f"{row[WRITTEN] / row[BEST]:.3f}" if row[WRITTEN] else "-"
        print(
            f"| {row['problem']} | {1e6 * row[CHOICE]:.1f} | {1e6 * row[BEST]:.1f} | {row['over']:.3f} "
            f"({row['spread'][0]:.2f} to {row['spread'][1]:.2f}) | {row[FIRST] / row[BEST]:.3f} | {written} "
            f"| {row['tool_seconds']:.1f} |"
        )
    for name, logs in (
        ("choice over the best found", [math.log(row["over"]) for row in rows]),
        ("choice over the best of both", [max(0.0, math.log(row["over"])) for row in rows]),
        ("first rank over the best found", [math.log(row[FIRST] / row[BEST]) for row in rows]),
        ("as written over the choice", [math.log(row[WRITTEN] / row[CHOICE]) for row in rows if row[WRITTEN]]),
    ):
        if logs:
            mean, low, high = interval(logs)
            print(f"{name}: {mean:.3f} ({low:.3f} to {high:.3f}), geometric mean of {len(logs)}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=Path, required=True, metavar="JSONL", help="where rows are added")
    options.add_argument("--folder", type=Path, metavar="DIR", help="where samples are built and kept")
    options.add_argument("--prepare", action="store_true", help="build the samples; nothing is timed")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is run")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--count", type=int, default=40, help="variants of a sample")
    options.add_argument("--seed", type=int, default=43, help="of the problems and samples")
    options.add_argument("--seconds", type=float, default=math.inf, help="begins none after so many")
    given = options.parse_args()
    rows = RowFile(given.rows, FIELDS)
    if given.shown:
        show(rows.rows())
        return 0
    if given.folder is None:
        sys.exit("--folder DIR: where shall the samples be?")
    begin = time.perf_counter()
    known = {(row["machine"], row["problem"]) for row in rows.rows()}
    for problem in problems(given.seed):
        folder = given.folder.resolve() / problem.name
        ready = (folder / "sample.json").exists()
        if (machine()["cpu"], problem.name) in known or time.perf_counter() - begin > given.seconds:
            continue
        if given.prepare or not ready:
            prepare(problem, folder, given)
        if not given.prepare:
            rows.add(measured(problem, folder, given))
            print(json.dumps(rows.rows()[-1]), file=sys.stderr, flush=True)
    show(rows.rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
