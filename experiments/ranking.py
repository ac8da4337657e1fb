"""How well the rankers that need no training order variants: the paper's figures 10, 12, 14 and 19.

python experiments/ranking.py --json ranking.json --figures figures     # on the shipped measurements
python experiments/ranking.py --data measurements.sqlite                # on those of experiments/collect.py
python experiments/ranking.py --layers mine.csv --store mine.sqlite     # measures what the store lacks

Per ranker, over all problems and for each: top1 (measured speed of its first choice over the best measured, geometric
mean), top5 (the best of its first five), top5pct (of its first 5 %), worst (least top1), tau (Kendall's). `default` is
the order of loops as written around a microkernel, `random` the expectation of choosing at random. The scores are
those of the rankers as they are now, whatever they were when the variants were measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from judging import ANALYTIC, draw, figures_of, judged, show, tell
from output import commit, machine

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.collect import CollectOptions, collect, read_problems
from polydl.learn.train.training_data import DataSet, load_data
from polydl.measure.store import Store

DATA = resources.trained_models() / "data"


def measured(given: argparse.Namespace) -> DataSet:
    """The problems of --layers, measured now as far as the store lacks them. Raises PolyDLError."""
    problems = [p for path in given.layers for p in read_problems(path, given.images or given.threads)]
    options = CollectOptions(count=given.samples, threads=given.threads, seed=given.seed)
    with Store(given.store) as store:
        tally = collect(problems, store, options, lambda now, line: tell(f"[{now.done}/{now.problems}] {line}"))
    for line in tally.failed:
        tell(line)
    asked = {json.dumps(dict(p.macros), sort_keys=True) for p in problems}
    return load_data(given.store, rankers=ANALYTIC).where(lambda g: g.sizes in asked)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="store (SQLite) or its export (Parquet)")
    options.add_argument("--layers", type=Path, action="append", default=[], metavar="CSV", help="measure these layers")
    options.add_argument("--store", type=Path, metavar="SQLITE", help="for --layers: where their measurements are kept")
    options.add_argument("--network", default="", help="only these of the data's networks, comma-separated")
    options.add_argument("--samples", type=int, default=72, help="variants measured of each of --layers")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--images", type=int, help="of each of --layers; default: one a thread")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--figures", type=Path, metavar="DIR")
    given = options.parse_args()
    if given.layers and not given.store:
        sys.exit("--layers needs --store FILE.sqlite, where the measurements are kept")
    try:
        data = measured(given) if given.layers else load_data(given.data, rankers=ANALYTIC)
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    if given.network:
        networks = given.network.split(",")
        data = data.where(lambda g: g.workload in networks)
    if not data.groups:
        sys.exit("nothing measured to judge by")
    found = judged(data, {}, (*ANALYTIC, "random", "default"))
    figures = figures_of(found)
    show(figures)
    if given.json:
        document = {
            "machine": machine(),
            "commit": commit(),
            "command": sys.argv,
            "data": data.digest,
            "problems": len(data.groups),
            "variants": data.variants,
            "rankers": figures,
            "sizes": {name: {problem: asdict(one) for problem, one in some.items()} for name, some in found.items()},
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if given.figures:
        draw(data, found, given.figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
