"""Seconds and memory to enumerate, analyse and rank N variants: a 4096^3 GEMM and a convolution, one core.

python experiments/ranking_speed.py --json ranking_speed.json --plot ranking_speed.png
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from native import KERNELS

from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import nests
from polydl.frontend import load
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.rankers import named
from polydl.schedule.limits import SPACES, Limits
from polydl.search.space import legal_structures
from polydl.target import detect

PROBLEMS = {
    "gemm 4096^3": (KERNELS / "gemm.c", {"M": 4096, "N": 4096, "K": 4096}),
    "convolution 14x14, 256 channels, 3x3": (
        KERNELS / "conv.c",
        {"NIMG": 2, "NOFM": 256, "NIFM": 256, "OFH": 14, "OFW": 14, "KH": 3, "KW": 3, "STRIDE_H": 1, "STRIDE_W": 1,
         "OFM_BLOCK": 64, "IFM_BLOCK": 64},
    ),
}  # fmt: skip


def timed_ranking(problem: str, ranker: str, count: int) -> dict[str, Any]:
    """Rank `count` variants of the wide space."""
    source, macros = PROBLEMS[problem]
    scop = load(source, defines={k: str(v) for k, v in macros.items()}).scops[0]
    machine = detect()
    start = time.perf_counter()
    found = dependences(scop, reads=False)
    nest = nests(scop, found)[0]
    legality = nest_legality(nest, found)
    space = replace(SPACES["wide"], limit=count)
    structures = list(legal_structures(Limits(nest, legality, space, register_blocks_for(machine), 2)))
    enumerated = time.perf_counter()
    scores = named(ranker).rank(scop, nest, structures, machine, 2).scores
    scores.argsort()
    end = time.perf_counter()
    return {
        "problem": problem,
        "ranker": ranker,
        "variants": len(structures),
        "enumeration_seconds": enumerated - start,
        "analysis_seconds": end - enumerated,
        "seconds": end - start,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--counts", default="1000,3000,10000,30000,100000")
    options.add_argument("--rankers", default="traffic,cost")
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--plot", type=Path, metavar="PNG")
    given = options.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    for problem in PROBLEMS:
        for ranker in given.rankers.split(","):
            for count in (int(c) for c in given.counts.split(",")):
                row = timed_ranking(problem, ranker, count)
                rows.append(row)
                sys.stdout.write(
                    f"{problem:40} {ranker:8} {row['variants']:7} variants  {row['seconds']:7.2f} s "
                    f"(enumeration {row['enumeration_seconds']:.2f} s)  {row['peak_megabytes']:.0f} MB\n"
                )
                sys.stdout.flush()
                if row["variants"] < count:
                    break
    if given.json:
        given.json.write_text(json.dumps({"command": sys.argv, "rows": rows}, indent=1))
    if given.plot:
        plot(rows, given.plot)
    return 0


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time against variants."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    for key in dict.fromkeys((r["problem"], r["ranker"]) for r in rows):
        line = [r for r in rows if (r["problem"], r["ranker"]) == key]
        axes.loglog([r["variants"] for r in line], [r["seconds"] for r in line], "o-", label=", ".join(key))
    axes.set_xlabel("variants")
    axes.set_ylabel("seconds")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    sys.exit(main())
