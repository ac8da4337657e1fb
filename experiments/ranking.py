"""How well the rankers order variants: a broad sample of each problem's space is measured, each ranker chooses.

python experiments/ranking.py --network resnet,fastrcnn,maskrcnn --gemm --json ranking.json --plot ranking.png

Per ranker and over all problems: top1 (measured speed of its first choice over the best measured, geometric mean),
top5 (best of its first five), top5pct (best of its first 5 %), worst (least top1), tau (Kendall's, mean).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from conv import SOURCE as CONV
from conv import defines as conv_defines
from native import KERNELS
from sizes import DATA, conv_layers, gemm_sizes

from polydl.codegen.emit import generate
from polydl.dependences.scalars import in_place
from polydl.measure import MeasureOptions, Report, Toolchain, measure, original_candidate
from polydl.options import Options
from polydl.pipeline import candidate, load, rank, terms
from polydl.results import Ranking

GEMM = KERNELS / "gemm.c"


@dataclass(frozen=True, slots=True)
class Case:
    """One problem."""

    name: str
    source: Path
    defines: dict[str, int]


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The problems asked for."""
    for layer in conv_layers(given.layers, tuple(n for n in given.network.split(",") if n)) if given.network else []:
        yield Case(layer.name, CONV, conv_defines(layer, given.threads))
    for size in gemm_sizes(given.sizes) if given.gemm else []:
        yield Case(size.name, GEMM, {"M": size.M, "N": size.N, "K": size.K})


def chosen_sample(rankings: dict[str, Ranking], count: int, rng: np.random.Generator) -> list[str]:
    """Ids of variants to measure: the first of every ranker, and others spread evenly over the `traffic` order."""
    first = [v.id for r in rankings.values() for v in r.variants[:5]]
    order = [v.id for v in next(iter(rankings.values())).variants]
    # Half of the rest from the better tenth, where differences matter; half from everywhere.
    tenth = order[: max(1, len(order) // 10)]
    rest = [*rng.permutation(tenth)[: count // 2], *rng.permutation(order)[: count // 2]]
    return list(dict.fromkeys([*first, *(str(v) for v in rest)]))[: max(count, len(first))]


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's tau-b of two score vectors; 0 where one of them is constant."""
    upper = np.triu_indices(len(a), 1)
    x = np.sign(a[:, None] - a[None, :])[upper]
    y = np.sign(b[:, None] - b[None, :])[upper]
    norm = math.sqrt(float(np.abs(x).sum()) * float(np.abs(y).sum()))
    return float((x * y).sum()) / norm if norm else 0.0


def measured_case(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    """Measure a sample of one problem: seconds by variant id, and each ranker's score of it."""
    options = Options(defines={k: str(v) for k, v in case.defines.items()}, threads=given.threads, space=given.space)
    program = load(case.source, options)
    scop = in_place(program.scops[0])
    rankings = {name: rank(scop, options.changed(ranker=name)) for name in given.rankers.split(",")}
    sample = chosen_sample(rankings, given.sample, np.random.default_rng(given.seed))
    by_id = {v.id: v for v in next(iter(rankings.values())).variants}
    candidates = [candidate(i, scop, generate(scop, by_id[i].structures)) for i in sample if i in by_id]
    report: Report = measure(
        scop,
        candidates,
        original_candidate(scop, terms(scop)),
        Toolchain(),
        MeasureOptions(threads=given.threads),
        None,
    )
    seconds = {m.id: m.median for m in report.measurements if m.verified and math.isfinite(m.median)}
    scores = {name: {v.id: v.score for v in r.variants if v.id in seconds} for name, r in rankings.items()}
    recipes = {i: str(by_id[i].recipe) for i in seconds}
    features = {i: dict(by_id[i].features) for i in seconds}
    return {
        "name": case.name,
        "defines": case.defines,
        "seconds": seconds,
        "original": report.original.median,
        "noise": report.noise,
        "scores": scores,
        "space_size": rankings[next(iter(rankings))].space_size,
        "recipes": recipes,
        "features": features,
        "rank_seconds": {name: r.seconds for name, r in rankings.items()},
        "failed": [m.id for m in report.measurements if not m.verified],
        "warnings": list(report.warnings),
    }


def judged(row: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Per ranker: top1, top5, top5pct and tau on one problem. `random` is the mean over the sample."""
    seconds: dict[str, float] = row["seconds"]
    best = min(seconds.values())
    result = {}
    for name, scores in row["scores"].items():
        ids = sorted(scores, key=lambda i: (scores[i], i))
        share = max(1, math.ceil(0.05 * len(ids)))
        times = np.array([seconds[i] for i in ids])
        result[name] = {
            "top1": best / times[0],
            "top5": best / times[:5].min(),
            "top5pct": best / times[:share].min(),
            "tau": kendall(np.array([scores[i] for i in ids]), times),
        }
    every = np.array(list(seconds.values()))
    mean = float(np.exp(np.mean(np.log(best / every))))
    result["random"] = {"top1": mean, "top5": mean, "top5pct": mean, "tau": 0.0}
    return result


def geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Over all problems."""
    judgements = [judged(row) for row in rows]
    result = {}
    for name in judgements[0]:
        tops = [j[name]["top1"] for j in judgements]
        result[name] = {
            "top1": geometric(tops),
            "top5": geometric([j[name]["top5"] for j in judgements]),
            "top5pct": geometric([j[name]["top5pct"] for j in judgements]),
            "worst": min(tops),
            "tau": float(np.mean([j[name]["tau"] for j in judgements])),
        }
    return result


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Best, worst and each ranker's choice of every problem, relative to the best (the paper's figures 10 and 14)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(max(6, 0.4 * len(rows)), 4))
    places = range(len(rows))
    axes.vlines(places, [min(r["seconds"].values()) / max(r["seconds"].values()) for r in rows], 1, color="0.8", lw=6)
    for name in rows[0]["scores"]:
        axes.plot(places, [judged(r)[name]["top1"] for r in rows], "o", label=name, ms=4)
    axes.set_xticks(list(places), [r["name"] for r in rows], rotation=90, fontsize=7)
    axes.set_ylabel("speed / best measured")
    axes.set_ylim(0, 1.03)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--layers", type=Path, default=DATA / "conv_layers.csv", metavar="CSV")
    options.add_argument("--network", default="", help="comma-separated networks of --layers")
    options.add_argument("--gemm", action="store_true", help="the sizes of --sizes too")
    options.add_argument("--sizes", type=Path, default=DATA / "gemm_sizes.csv", metavar="CSV")
    options.add_argument("--rankers", default="traffic,cost")
    options.add_argument("--sample", type=int, default=60, help="variants measured per problem")
    options.add_argument("--space", default="default")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--plot", type=Path, metavar="PNG")
    given = options.parse_args()
    rows: list[dict[str, Any]] = []
    for case in cases(given):
        rows.append(measured_case(case, given))
        shown = {name: {k: round(v, 3) for k, v in j.items()} for name, j in judged(rows[-1]).items()}
        sys.stderr.write(f"{case.name}: {shown}\n")
        if given.json:
            document = {"command": sys.argv, "rankers": summary(rows), "rows": rows, "per_size": {
                r["name"]: judged(r) for r in rows}}  # fmt: skip
            given.json.write_text(json.dumps(document, indent=1))
    if not rows:
        sys.exit("nothing to measure: give --network or --gemm")
    for name, figures in summary(rows).items():
        sys.stdout.write(f"{name:10} " + "  ".join(f"{k} {v:.3f}" for k, v in figures.items()) + "\n")
    if given.plot:
        plot(rows, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
