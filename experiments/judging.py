"""What ranking.py and ranker_eval.py share: judging rankers on measured variants, showing and drawing what came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polydl.learn.train.metrics import Judged, advantage, bootstrap, summary
from polydl.learn.train.train_command import judged_by, key_of
from polydl.learn.train.training_data import DataSet
from polydl.rank.weights import Weights

ANALYTIC = ("traffic", "trace", "cost")
NAMES = ("dnn", *ANALYTIC, "dnn-paper", "random", "default")

Judgements = dict[str, dict[str, Judged]]
"""By ranker, then by problem."""


def judged(test: DataSet, weights: Mapping[str, Weights], names: Sequence[str] = NAMES) -> Judgements:
    return {name: judged_by(name, test.groups, weights) for name in names}


def merged(parts: Sequence[Judgements]) -> Judgements:
    result: Judgements = {}
    for part in parts:
        for name, found in part.items():
            result.setdefault(name, {}).update(found)
    return result


def figures_of(found: Judgements) -> dict[str, dict[str, Any]]:
    """Per ranker the metrics and their intervals; where `dnn` is among them, how much better it is."""
    result: dict[str, dict[str, Any]] = {}
    for name, problems in found.items():
        if not problems:
            continue
        several = list(problems.values())
        result[name] = summary(several) | {"problems": len(several), "intervals": bootstrap(several)}
        if name != "dnn" and "dnn" in found:
            ratio, low, high = advantage(found["dnn"], problems)
            result[name]["dnn_over_this"] = {"top1": ratio, "low": low, "high": high}
    return result


def draw(
    data: DataSet, found: Judgements, folder: Path, curve: Sequence[Mapping[str, float]] = (), held_out: bool = False
) -> None:
    """A figure a network with the measured spread and each ranker's choice of every problem (what the paper's figures
    10, 12, 14 and 19 show), one of the quality against the number of variants timed (its figure 15), the curve."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    colours = {"dnn": "C3", "traffic": "C0", "trace": "C2", "cost": "C1", "dnn-paper": "C4", "default": "k"}
    for network in sorted({g.workload for g in data.groups}):
        groups = [g for g in data.groups if g.workload == network]
        figure, axes = plt.subplots(figsize=(max(6.0, 0.32 * len(groups) + 1), 4))
        places = range(len(groups))
        axes.vlines(places, [float(np.exp(-g.gaps.max())) for g in groups], 1, color="0.85", lw=6)
        for name, colour in colours.items():
            here = [(i, found[name][key_of(g)].top1) for i, g in enumerate(groups) if key_of(g) in found.get(name, {})]
            if here:
                axes.plot(*zip(*here, strict=True), "_" if name == "default" else "o", ms=4, color=colour, label=name)
        axes.set_xticks(list(places), [g.problem for g in groups], rotation=90, fontsize=6)
        axes.set_ylabel("speed / best measured")
        axes.set_ylim(0, 1.03)
        when = ", held out" if held_out else ""
        axes.set_title(f"{network}{when}: first choices, and the spread of the measured variants", fontsize=9)
        axes.legend(fontsize=7, ncols=3)
        figure.tight_layout()
        figure.savefig(folder / f"choices_{network}.png", dpi=130)
        plt.close(figure)
    figure, axes = plt.subplots(figsize=(5.5, 3.8))
    for name, colour in colours.items():
        several = list(found.get(name, {}).values())
        if several and name != "default":
            s = summary(several)
            axes.plot([1, 5], [s["top1"], s["top5"]], "o-", color=colour, label=name)
    axes.set_xticks([1, 5])
    axes.set_xlabel("variants timed")
    axes.set_ylabel("speed of the best of them / best measured")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(folder / "timed.png", dpi=130)
    plt.close(figure)
    if curve:
        figure, axes = plt.subplots(figsize=(5.5, 3.8))
        for metric in ("top1", "top5", "pair_accuracy"):
            axes.semilogx([row["variants"] for row in curve], [row[metric] for row in curve], "o-", label=metric)
        axes.set_xlabel("measured variants trained on")
        axes.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(folder / "samples.png", dpi=130)
        plt.close(figure)


def tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(figures: Mapping[str, Mapping[str, Any]]) -> None:
    more_title = "  dnn's top1 over this" if "dnn" in figures else ""
    sys.stdout.write("ranker     top1 (95 % interval)     top5   top5pct  worst  tau    pairs" + more_title + "\n")
    for name, m in figures.items():
        low, high = m["intervals"]["top1"]
        over = m.get("dnn_over_this")
        more = f"{over['top1']:.3f} ({over['low']:.3f}-{over['high']:.3f})" if over else ""
        sys.stdout.write(
            f"{name:10} {m['top1']:.3f} ({low:.3f}-{high:.3f})     {m['top5']:.3f}  {m['top5pct']:.3f}    "
            f"{m['worst']:.3f}  {m['tau']:.3f}  {m['pair_accuracy']:.3f}  {more}\n"
        )
