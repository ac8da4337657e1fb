"""`polydl train` and `polydl evaluate`: data in, weights, curve and card out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polydl.base.errors import InputError, PolyDLError, one_of
from polydl.learn.train.metrics import Judged, bootstrap, default_order, judge, random_choice, summary
from polydl.learn.train.training_data import DataSet, Group, load_data
from polydl.rank.dnn import agreed, load_dnn, log_scores
from polydl.rank.paper_model import load_paper, tournament
from polydl.rank.ranker import FloatArray
from polydl.rank.rankers import ANALYTIC
from polydl.rank.weights import Weights, save_weights

if TYPE_CHECKING:
    from polydl.learn.train.fit import Curve

KINDS = ("dnn", "dnn-paper")


def scores_of(weights: Weights, group: Group) -> FloatArray:
    """(V,) a learned ranker's scores of a group, lower is better."""
    if weights.header.kind == "dnn":
        each = log_scores(weights, group.features, group.traffic_seconds)
        return agreed(weights, each.mean(axis=0), np.log(group.traffic_seconds))
    theta = weights.header.numbers["theta"]
    return tournament(weights.members[0], group.working_sets, group.scores["cost"], theta)


def key_of(group: Group) -> str:
    """What tells a group from the others of a data set."""
    return f"{group.machine}/{group.workload}/{group.problem}"


def judged_by(name: str, groups: Sequence[Group], weights: Mapping[str, Weights]) -> dict[str, Judged]:
    """A ranker's judgement on each group, by machine, workload and problem (`key_of`). `default` leaves out problems
    for which it was not measured."""
    found: dict[str, Judged] = {}
    for group in groups:
        key = key_of(group)
        if name == "random":
            found[key] = random_choice(group)
        elif name == "default":
            one = default_order(group)
            if one is not None:
                found[key] = one
        elif name in weights:
            found[key] = judge(group, scores_of(weights[name], group))
        else:
            found[key] = judge(group, group.scores[name])
    return found


def train_command(
    data: Path,
    out: Path,
    *,
    kind: str,
    finetune: Path | None,
    seed: int,
    epochs: int | None,
    members: int | None,
    exclude: Sequence[str],
    quiet: bool = False,
) -> dict[str, Any]:
    """Train a ranker and write its weights, its learning curve (PNG) and its card (Markdown) side by side.

    Returns what the card says. Raises InputError, StoreError, ModelError; PolyDLError without torch or matplotlib.
    """
    if kind not in KINDS:
        raise InputError(f"no ranker of the kind '{kind}' to train", hint=one_of(kind, KINDS))
    if out.suffix != ".safetensors":
        raise InputError(f"--out {out}: weights are written as .safetensors", hint=f"--out {out}.safetensors")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent}", hint="make it, or name another")
    fit = _fit()
    start = time.perf_counter()
    tell = _silent if quiet else _Progress()
    # The paper's tournament breaks ties by equation 1.
    ties = ("cost",) if kind == "dnn-paper" else ()
    whole = load_data(data, lambda done, total: tell("features", done, total), ties)
    unknown = set(exclude) - {g.workload for g in whole.groups}
    if unknown:
        raise InputError(f"--exclude {', '.join(sorted(unknown))}: no such workload in the data")
    used = whole.where(lambda g: g.workload not in exclude)
    changes = {"seed": seed, "epochs": epochs, "members": members}
    named = {k: v for k, v in changes.items() if v is not None}
    if kind == "dnn":
        before = load_dnn(finetune) if finetune else None
        options = replace(fit.FINETUNING if before else fit.FitOptions(), **named)
        weights, curve = fit.fit_dnn(used, options, tell, before)
    else:
        if finetune:
            raise InputError("only 'dnn' can be finetuned", hint="leave out --finetune or --kind")
        options = fit.FitOptions(**named)
        weights, curve = fit.fit_paper(used, options, tell)
    save_weights(out, weights)
    draw_curve(curve, out.with_suffix(".png"), kind)
    report = {
        "kind": kind,
        "data": data.name,
        "digest": used.digest,
        "machines": list(used.machines),
        "problems": len(used.groups),
        "variants": used.variants,
        "excluded": list(exclude),
        "left_out": dict(used.left_out),
        "options": asdict(options),
        "epochs": [len(c) for c in curve.train],
        "validation_loss": [min(c) for c in curve.validation],
        "on_training_data": summary(list(judged_by(kind, used.groups, {kind: weights}).values())),
        "finetuned_from": str(finetune) if finetune else None,
        "features": list(weights.header.features),
        "seconds": round(time.perf_counter() - start, 1),
    }
    out.with_suffix(".md").write_text(card(report, weights), encoding="utf-8")
    if not quiet:
        sys.stderr.write(f"{out}: {len(used.groups)} problems, {used.variants} variants, {report['seconds']} s\n")
        sys.stderr.writelines(f"{count} rows left out: {reason}\n" for reason, count in used.left_out.items())
    return report


def evaluate_command(data: Path, models: Sequence[Path], workloads: Sequence[str]) -> dict[str, Any]:
    """Judge the analytic rankers, random, the default order and trained weights on the data.

    Whether the weights have seen the data is for the caller to know; `experiments/ranker_eval.py` keeps them apart.
    """
    whole = load_data(data, rankers=ANALYTIC)
    chosen = whole.where(lambda g: not workloads or g.workload in workloads)
    if not chosen.groups:
        known = sorted({g.workload for g in whole.groups})
        raise InputError(f"the data have no {', '.join(workloads)}", hint=f"they have {', '.join(known)}")
    weights: dict[str, Weights] = {}
    for path in models:
        loaded = load_either(path)
        weights[loaded.header.kind if loaded.header.kind not in weights else path.stem] = loaded
    names = [*chosen.groups[0].scores, *weights, "random", "default"]
    return evaluation(chosen, names, weights)


def evaluation(data: DataSet, names: Sequence[str], weights: Mapping[str, Weights]) -> dict[str, Any]:
    """Per ranker the metrics with their intervals."""
    rankers: dict[str, Any] = {}
    for name in names:
        judged = list(judged_by(name, data.groups, weights).values())
        if judged:
            rankers[name] = summary(judged) | {"intervals": bootstrap(judged), "problems": len(judged)}
    return {"problems": len(data.groups), "variants": data.variants, "rankers": rankers}


def load_either(path: Path) -> Weights:
    """Weights of either kind. Raises ModelError."""
    from polydl.rank.weights import kind_of

    return load_paper(path) if kind_of(path) == "dnn-paper" else load_dnn(path)


def draw_curve(curve: Curve, path: Path, title: str) -> None:
    """Losses by epoch. Raises PolyDLError without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise PolyDLError(
            "the learning curve needs matplotlib, which is not installed", hint="pip install 'polydl[train]'"
        ) from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5))
    for number, (train, held) in enumerate(zip(curve.train, curve.validation, strict=True)):
        label = number == 0
        axes.plot(range(1, len(train) + 1), train, color="tab:blue", lw=0.8, label="training" if label else None)
        axes.plot(range(1, len(held) + 1), held, color="tab:orange", lw=0.8, label="validation" if label else None)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    axes.set_title(title)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def card(report: Mapping[str, Any], weights: Weights) -> str:
    """The model card."""
    metrics = report["on_training_data"]
    lines = [
        f"# Ranker `{report['kind']}`",
        "",
        (
            "Orders loop variants by predicted speed. Weights in the safetensors file beside this card; the learning "
            "curve is the PNG."
        ),
        "",
        f"- Trained on `{report['data']}`: {report['problems']} problems, {report['variants']} variants, data digest "
        f"`{report['digest'][:16]}`, machine {', '.join(report['machines'])}"
        + (f"; without {', '.join(report['excluded'])}" if report["excluded"] else ""),
        (
            f"- Made by polydl {weights.header.polydl}, torch {weights.header.notes.get('torch', '?')}, in "
            f"{report['seconds']} s, with {report['options']}"
        ),
        f"- Epochs {report['epochs']}, best validation loss {[round(v, 4) for v in report['validation_loss']]}",
        *([f"- Finetuned from `{report['finetuned_from']}`"] if report["finetuned_from"] else []),
        "",
        "On the data that it was trained on (held-out figures: `experiments/ranker_eval.py`, results in "
        "`experiments/README.md`): " + ", ".join(f"{name} {value:.3f}" for name, value in metrics.items()),
        "",
        (
            "Limits: these machines, fp32, two threads, convolutions and matrix products. For another element type it "
            "is untested; on another machine see `experiments/ranker_eval.py --machines`. Finetune it there "
            "(`polydl train --finetune`), or rank with `traffic`."
        ),
        "",
        f"Inputs ({len(report['features'])}): {', '.join(f'`{name}`' for name in report['features'])}",
        "",
    ]
    return "\n".join(lines)


def show_evaluation(found: Mapping[str, Any]) -> None:
    """A table on standard output."""
    sys.stdout.write(f"{found['problems']} problems, {found['variants']} variants; speed over the best measured\n")
    header = ("ranker", "top 1", "", "top 5", "top 5 %", "worst", "tau", "pairs")
    sys.stdout.write("{:10} {:>6} {:13} {:>6} {:>8} {:>6} {:>6} {:>6}\n".format(*header))
    for name, m in found["rankers"].items():
        low, high = m["intervals"]["top1"]
        sys.stdout.write(
            f"{name:10} {m['top1']:6.3f} ({low:.3f}-{high:.3f}) {m['top5']:6.3f} {m['top5pct']:8.3f} {m['worst']:6.3f} "
            f"{m['tau']:6.3f} {m['pair_accuracy']:6.3f}\n"
        )


def _fit() -> Any:
    try:
        from polydl.learn.train import fit
    except ImportError as error:
        raise PolyDLError(
            f"training needs torch, which cannot be loaded: {error}", hint="pip install 'polydl[train]'"
        ) from error
    return fit


def _silent(stage: str, done: int, total: int) -> None:
    """No progress."""


class _Progress:
    """A line on standard error, rewritten at most five times a second; on files only the last one of a stage."""

    def __init__(self) -> None:
        self._last = 0.0
        self._start: dict[str, float] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        begin = self._start.setdefault(stage, now)
        if done < total and (now - self._last < 0.2 or not sys.stderr.isatty()):
            return
        self._last = now
        left = (now - begin) / max(done, 1) * (total - done)
        filled = 24 * done // max(total, 1)
        end = "\n" if done >= total else "\r"
        sys.stderr.write(f"{stage:9} [{'#' * filled}{'.' * (24 - filled)}] {done}/{total}, {left:.0f} s left {end}")
        sys.stderr.flush()


Tell = Callable[[str, int, int], None]
