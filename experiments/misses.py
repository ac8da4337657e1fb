"""Exact cache misses as a ranker, beside working sets, traffic and the clock: the paper's figure 15.

python experiments/misses.py --rows misses.jsonl                                # the shipped measurements
python experiments/misses.py --rows misses.jsonl --data own.sqlite              # those of polydl collect
python experiments/misses.py --rows misses.jsonl --network resnet,gemm --problems 20
python experiments/misses.py --rows misses.jsonl --shown                        # nothing is counted

Of some problems of each machine, spread evenly over the data, some measured variants are taken, spread evenly from
the fastest to the slowest one, and scored by PolyDL's equation 1 on working sets (`cost`), by `traffic`, and by exact
misses of fully associative caches (`misses`, after HayStack). Shown are, for each machine and ranker: the measured
speed of its first choice over the best of these variants (geometric mean and worst), and Kendall's tau with the
measured times; then tau of each two rankers, and what counting took. A row is a problem; rows are written as they
come, and those that the file has are not made again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from common import RowFile
from judging import tell

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.train.metrics import geometric, tau
from polydl.learn.train.training_data import Group, by_problems, groups_of, read_rows
from polydl.measure.store import StoredMeasurement

DATA = resources.trained_models() / "data"
RANKERS = ("cost", "traffic", "misses")
KEY = ("machine", "workload", "problem", "variants")


def spread(count: int, most: int) -> list[int]:
    """At most `most` of so many places, evenly, the ends included."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


def chosen(
    rows: Sequence[StoredMeasurement], networks: Sequence[str], problems: int, variants: int
) -> Iterator[list[StoredMeasurement]]:
    """The measurements that are looked at, problem by problem."""
    machines: dict[str, list[list[StoredMeasurement]]] = {}
    for some in by_problems(rows):
        usable = [r for r in some if r.verified and r.median is not None and r.variant != "original"]
        if len(usable) >= variants and (not networks or usable[0].workload in networks):
            usable.sort(key=lambda row: (row.median or 0.0, row.variant))
            machines.setdefault(usable[0].machine, []).append(usable)
    for several in machines.values():
        for place in spread(len(several), problems):
            yield [several[place][at] for at in spread(len(several[place]), variants)]


def row_of(group: Group, machine: str, asked: int, seconds: float) -> dict[str, Any]:
    """What is kept of a problem."""
    return {
        "machine": machine,
        "workload": group.workload,
        "problem": group.problem,
        "variants": asked,
        "log_seconds": group.log_seconds.tolist(),
        "scores": {name: group.scores[name].tolist() for name in RANKERS},
        "counting_seconds": seconds,
    }


def first_choice(row: Mapping[str, Any], ranker: str) -> float:
    """Speed of the first choice over the best of the row's variants; of equal ones the mean of fastest and slowest."""
    gaps, scores = np.array(row["log_seconds"]), np.array(row["scores"][ranker])
    first = gaps[scores == scores.min()] - gaps.min()
    return float(np.exp(-(first.min() + first.max()) / 2))


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table."""
    print("machine            ranker    problems  first choice  worst   tau with time")
    for machine in dict.fromkeys(row["machine"] for row in rows):
        some = [row for row in rows if row["machine"] == machine]
        for name in RANKERS:
            first = [first_choice(row, name) for row in some]
            order = np.mean([tau(np.array(row["scores"][name]), np.array(row["log_seconds"])) for row in some])
            print(f"{machine:18} {name:9} {len(some):8}  {geometric(first):12.3f}  {min(first):.3f}  {order:14.3f}")
        for one, other in combinations(RANKERS, 2):
            both = [tau(np.array(row["scores"][one]), np.array(row["scores"][other])) for row in some]
            print(f"{machine:18} tau of {one} and {other}: {np.mean(both):.3f}")
        counted = sum(len(row["log_seconds"]) for row in some)
        print(f"{machine:18} {sum(row['counting_seconds'] for row in some) / counted:.2f} s a variant")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="store, export, or folder of exports")
    options.add_argument("--rows", type=Path, required=True, metavar="JSONL", help="where rows are added")
    options.add_argument("--network", default="", help="only these of the data's networks, comma-separated")
    options.add_argument("--problems", type=int, default=12, help="of each machine")
    options.add_argument("--variants", type=int, default=24, help="of each problem")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is counted")
    given = options.parse_args()
    rows = RowFile(given.rows, (*KEY, "log_seconds", "scores", "counting_seconds"))
    networks = given.network.split(",") if given.network else []
    try:
        if not given.shown:
            known = {tuple(row[name] for name in KEY) for row in rows.rows()}
            for file in sorted(given.data.glob("*.parquet")) if given.data.is_dir() else [given.data]:
                measured, kernels, machines = read_rows(file)
                for some in chosen(measured, networks, given.problems, given.variants):
                    if (file.stem, some[0].workload, some[0].problem, given.variants) in known:
                        continue
                    start = time.perf_counter()
                    (group,) = groups_of(some, kernels, machines, rankers=RANKERS).groups
                    rows.add(row_of(group, file.stem, given.variants, time.perf_counter() - start))
                    tell(f"{file.stem}: {some[0].workload} {some[0].problem}: {time.perf_counter() - start:.0f} s")
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    found = rows.rows()
    if not found:
        sys.exit("the data have no problem with so many variants, of these networks")
    show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
