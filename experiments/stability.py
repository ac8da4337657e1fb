"""How stable is the choice: the same search again and again, and what each chose timed together.

python experiments/stability.py --json stability.json [--searches 10] [--isa avx2] [--only NAME]…

Five convolutions spread over experiments/data/conv_layers.csv and three matrix products of gemm_sizes.csv. The searches
take turns (the first of each problem, then the second …), so that those of one problem lie minutes apart; none keeps
anything for the next. Outputs with the same text (but for the comment at their head) are one contender. All that were
chosen for a problem take turns in one process; a row's spread is the slowest choice over the fastest, by the medians of
their ratios within the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import conv
import gemm
from bench import POLYDL, Problem, Settings, measure, pairwise_ratio
from common import define_flags, prepare
from output import commit, machine
from same_as import _HEADER, ROOT, Task, of_problem, searched
from sizes import DATA, ConvLayer, GemmSize, conv_layers, gemm_sizes

_Size = TypeVar("_Size")
LAYERS, PRODUCTS = 5, 3
BAR = 1.05
"""Slowest choice over the fastest, at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """A problem, searched several times."""

    name: str
    chosen: Sequence[str]
    """The recipe's id, a search."""
    search_seconds: Sequence[float]
    times: Sequence[float]
    """By text that was chosen, the most frequent first: seconds over those of the fastest text."""
    counts: Sequence[int]
    """How often each text was chosen."""

    @property
    def spread(self) -> float:
        return max(self.times)


@dataclass(frozen=True, slots=True)
class _Searched:
    """A problem with the outputs of its searches."""

    task: Task
    size: ConvLayer | GemmSize
    texts: list[str]
    chosen: list[str]
    seconds: list[float]


def spread_over(items: Sequence[_Size], count: int) -> list[_Size]:
    """`count` of them at even distances."""
    return [items[int((k + 0.5) * len(items) / count)] for k in range(count)]


def problems(given: argparse.Namespace) -> list[_Searched]:
    """What is searched."""
    sizes: list[ConvLayer | GemmSize] = [
        *spread_over(conv_layers(DATA / "conv_layers.csv", ()), LAYERS),
        *spread_over(gemm_sizes(DATA / "gemm_sizes.csv"), PRODUCTS),
    ]
    found = []
    for size in sizes:
        source = conv.SOURCE if isinstance(size, ConvLayer) else gemm.SOURCE
        task = of_problem(size.name, source, _macros(size, given), lambda older, now: None)
        if given.isa:
            task = replace(task, flags=[*task.flags, "--isa", given.isa])
        found.append(_Searched(task, size, [], [], []))
    return found


def _macros(size: ConvLayer | GemmSize, given: argparse.Namespace) -> dict[str, int]:
    if isinstance(size, ConvLayer):
        return conv.defines(size, given.threads)
    return {"M": size.M, "N": size.N, "K": size.K}


def timed(one: _Searched, given: argparse.Namespace, folder: Path) -> Row:
    """All that was chosen for a problem, timed together. Raises WrongResult."""
    counts = Counter(_HEADER.sub("", text) for text in one.texts).most_common()
    flags = define_flags(_macros(one.size, given))
    contenders = []
    for number, (text, _) in enumerate(counts):
        path = folder / f"{one.task.name.replace('/', '_')}-{number}.c"
        path.write_text(text)
        name = POLYDL if number == 0 else str(number)
        size = one.size
        contenders.append(
            conv.from_c(name, size, path, flags) if isinstance(size, ConvLayer) else gemm.from_c(name, path, flags)
        )
    if isinstance(one.size, ConvLayer):
        layer, images = one.size, given.threads
        problem = Problem(
            layer.name, layer.operations(images), layer.bytes(images),
            lambda rng, integral: conv.data(layer, images, rng, integral), contenders,
        )  # fmt: skip
    else:
        product = one.size
        problem = Problem(
            product.name, product.operations, product.bytes,
            lambda rng, integral: gemm.data(product, rng, integral), contenders,
        )  # fmt: skip
    row = measure(problem, Settings(rounds=15, allocations=3, cold_rounds=0))
    over = [pairwise_ratio(row.timings[c.name], row.timings[POLYDL]) or 1.0 for c in contenders]
    least = min(over)
    return Row(one.task.name, one.chosen, one.seconds, [o / least for o in over], [count for _, count in counts])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--searches", type=int, default=10)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--top-k", type=int, default=5)
    options.add_argument("--isa", help="avx512, avx2 or generic; default: the widest of this machine")
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--only", metavar="NAME", action="append")
    given = options.parse_args()
    prepare(given.threads, given.isa)
    wanted = [one for one in problems(given) if given.only is None or one.task.name in given.only]
    if given.only and (unknown := set(given.only) - {one.task.name for one in wanted}):
        sys.exit(f"no problem is called {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="polydl-stability-") as name:
        folder = Path(name)
        for number in range(given.searches):
            for one in wanted:
                output = folder / f"{number}-{one.task.name.replace('/', '_')}.c"
                done = searched(one.task, ROOT, output, given)
                if done.error:
                    sys.exit(f"{one.task.name}: {done.error}")
                one.texts.append(output.read_text())
                one.chosen.append(",".join(done.chosen))
                one.seconds.append(done.seconds)
            print(f"search {number + 1} of {given.searches} done", file=sys.stderr, flush=True)
        for one in wanted:
            rows.append(timed(one, given, folder))
            row = rows[-1]
            times = ", ".join(f"{count} x {time:.3f}" for time, count in zip(row.times, row.counts, strict=True))
            print(f"{row.name:24s} slowest over fastest {row.spread:.3f}: {times}", flush=True)
    if given.json:
        document = {
            "machine": machine(),
            "commit": commit(),
            "command": shlex.join(sys.argv),
            "threads": given.threads,
            "rows": [{**asdict(row), "spread": row.spread} for row in rows],
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(row.spread > BAR for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
