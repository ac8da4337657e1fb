"""How well every ranker orders variants of problems that the learned ones were not trained on.

python experiments/ranker_eval.py --json ranker_eval.json --figures figures
python experiments/ranker_eval.py --layers mine.csv --store mine.sqlite --json mine.json     # networks of your own

Splits are by problem, never by variant or pair: a network is held out with all its layers (leave one network out), a
matrix product with all its variants (in five folds by size). `--split 70-30` splits the problems at random, as near
to the paper's 70/30 split as is honest. Per ranker, over all held-out problems: top1 (measured speed of its first
choice over the best measured, geometric mean), top5 (the best of its first five), top5pct (of its first 5 %), worst
(least top1), tau (Kendall's), pair_accuracy. `default` is the order of loops as written around a microkernel,
`random` the expectation of choosing at random.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from judging import ANALYTIC, Judgements, draw, figures_of, judged, merged, show, tell
from output import commit, machine

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.collect import CollectOptions, collect, read_problems
from polydl.learn.train.metrics import summary
from polydl.learn.train.train_command import judged_by, key_of, load_either
from polydl.learn.train.training_data import DataSet, Group, load_data
from polydl.measure.store import Store
from polydl.rank.weights import Weights

DATA = resources.trained_models() / "data"
MATRIX_FOLDS = 5
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Parts of the training problems for the curve of quality against the number of samples."""


def fold_of(group: Group) -> str:
    """What is held out together: a network, or a fifth of the matrix products."""
    if group.kernel != "matmul":
        return group.workload
    return f"matrix products {zlib.crc32(group.problem.encode()) % MATRIX_FOLDS + 1} of {MATRIX_FOLDS}"


def only(data: DataSet, keys: Collection[str]) -> DataSet:
    """The groups with these keys."""
    return data.where(lambda g: key_of(g) in keys)


def without(data: DataSet, keys: Collection[str]) -> DataSet:
    """The other groups."""
    return data.where(lambda g: key_of(g) not in keys)


def splits(data: DataSet, how: str, seed: int) -> Iterator[tuple[str, DataSet, DataSet]]:
    """(name, training, test)."""
    if how == "70-30":
        for number in range(3):
            order = np.random.default_rng([seed, number]).permutation(len(data.groups))
            held = {key_of(data.groups[i]) for i in order[: round(0.3 * len(order))]}
            yield f"70/30, {number + 1}", without(data, held), only(data, held)
        return
    for fold in sorted({fold_of(g) for g in data.groups}):
        held = {key_of(g) for g in data.groups if fold_of(g) == fold}
        yield fold, without(data, held), only(data, held)


def trained(
    data: DataSet, given: argparse.Namespace, kinds: Sequence[str] = ("dnn", "dnn-paper")
) -> dict[str, Weights]:
    """The learned rankers, trained on some data."""
    from polydl.learn.train import fit

    options = fit.FitOptions(seed=given.seed, **({"members": given.members} if given.members else {}))
    found = {}
    if "dnn" in kinds:
        found["dnn"] = fit.fit_dnn(data, options, silent)[0]
    if "dnn-paper" in kinds:
        found["dnn-paper"] = fit.fit_paper(data, options, silent)[0]
    return found


def silent(stage: str, done: int, total: int) -> None:
    pass


def matrix(data: DataSet, given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """`dnn` and `dnn-paper` trained on some machines and judged on each, by "trained on > judged on". Networks are held
    out as well: what is judged has a network, or matrix sizes, that no machine's training data had; in three parts."""
    machines = sorted({g.machine for g in data.groups})
    folds = sorted({fold_of(g) for g in data.groups})
    sets = [*((m,) for m in machines), *(tuple(m for m in machines if m != left) for left in machines), tuple(machines)]
    found: dict[str, list[Judgements]] = {}
    for part in range(PARTS):
        held = set(folds[part::PARTS])
        rest = data.where(lambda g, held=held: fold_of(g) not in held)
        for some in dict.fromkeys(sets):
            weights = trained(rest.where(lambda g, some=some: g.machine in some), given)
            for judge_on in machines:
                test = data.where(lambda g, on=judge_on, held=held: g.machine == on and fold_of(g) in held)
                if test.groups:
                    name = f"{' + '.join(some)} > {judge_on}"
                    found.setdefault(name, []).append(judged(test, weights, tuple(weights)))
            tell(f"part {part + 1} of {PARTS}: trained on {', '.join(some)}")
    return {name: figures_of(merged(parts)) for name, parts in found.items()}


PARTS = 3
"""Parts in which `matrix` holds networks out."""


def learning_curve(data: DataSet, given: argparse.Namespace) -> list[dict[str, float]]:
    """Quality of `dnn` on two held-out folds against the part of the other problems that it was trained on."""
    rows = []
    folds = [f for f in ("resnet", f"matrix products 1 of {MATRIX_FOLDS}") if any(fold_of(g) == f for g in data.groups)]
    for share in SHARES:
        parts, variants = [], 0
        for name in folds:
            rest = [g for g in data.groups if fold_of(g) != name]
            order = np.random.default_rng(given.seed).permutation(len(rest))
            kept = {key_of(rest[i]) for i in order[: max(4, round(share * len(rest)))]}
            training = only(data, kept)
            variants += training.variants
            test = only(data, {key_of(g) for g in data.groups if fold_of(g) == name})
            parts.append(judged(test, trained(training, given, ("dnn",)), ("dnn",)))
        one = list(merged(parts)["dnn"].values())
        rows.append({"share": share, "variants": variants / len(folds), **summary(one)})
        tell(f"curve: {share:.0%} of the training problems: top 1 {rows[-1]['top1']:.3f}")
    return rows


def finetuning(data: DataSet, given: argparse.Namespace, rng_seed: int = 0) -> dict[str, Any]:
    """What a few hundred measurements of the user's own add: `dnn` without a network, then finetuned on six of its
    layers, judged on the network's other layers."""
    from polydl.learn.train import fit

    rows = {}
    for network in sorted({g.workload for g in data.groups if g.kernel != "matmul"}):
        own = [g for g in data.groups if g.workload == network]
        if len(own) < 12:
            continue
        order = np.random.default_rng(rng_seed).permutation(len(own))
        mine = {key_of(own[i]) for i in order[:6]}
        everything = {key_of(g) for g in own}
        test = only(data, everything - mine)
        before = trained(without(data, everything), given, ("dnn",))["dnn"]
        options = replace(fit.FINETUNING, seed=given.seed)
        after, _ = fit.fit_dnn(only(data, mine), options, silent, before)
        one, two = (list(judged_by("dnn", test.groups, {"dnn": w}).values()) for w in (before, after))
        samples = sum(len(g) for g in own if key_of(g) in mine)
        rows[network] = {"samples": samples, "before": summary(one), "after": summary(two)}
        tell(f"finetuned on 6 layers of {network}: top 1 {rows[network]['before']['top1']:.3f} -> "
             f"{rows[network]['after']['top1']:.3f}")  # fmt: skip
    return rows


def own_layers(given: argparse.Namespace, data: DataSet) -> tuple[DataSet, dict[str, Weights]]:
    """The user's layers, measured, and rankers that have not seen their networks or shapes: the shipped ones, or newly
    trained ones where the shipped data hold them."""
    images = given.images or given.threads
    problems = [p for path in given.layers for p in read_problems(path, images)]
    with tempfile.TemporaryDirectory() as scratch:
        path = given.store or Path(scratch, "layers.sqlite")
        with Store(path) as store:
            tally = collect(
                problems,
                store,
                CollectOptions(count=given.samples, threads=given.threads, seed=given.seed),
                lambda now, line: tell(f"[{now.done}/{now.problems}] {line}"),
            )
            for line in tally.failed:
                tell(line)
        measured = load_data(path, rankers=ANALYTIC)
    sizes = {json.dumps(dict(p.macros), sort_keys=True) for p in problems}
    measured = measured.where(lambda g: g.sizes in sizes)
    seen = {g.sizes for g in measured.groups}
    workloads = {g.workload for g in measured.groups}

    def known(g: Group) -> bool:
        return g.sizes in seen or (g.workload in workloads and g.kernel != "matmul")

    if any(known(g) for g in data.groups):
        tell("the shipped rankers have seen these: training anew without them")
        return measured, trained(data.where(lambda g: not known(g)), given)
    folder = resources.trained_models()
    return measured, {name: load_either(folder / f"{name}.safetensors") for name in ("dnn", "dnn-paper")}


def show_matrix(found: dict[str, dict[str, Any]]) -> None:
    """A table on standard output."""
    print(f"{'trained on > judged on':58} ranker     top1   top5   worst")
    for name, rankers in found.items():
        for ranker, m in rankers.items():
            print(f"{name:58} {ranker:10} {m['top1']:.3f}  {m['top5']:.3f}  {m['worst']:.3f}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="store (SQLite) or its export (Parquet)")
    options.add_argument("--split", choices=("networks", "70-30"), default="networks")
    options.add_argument(
        "--layers", type=Path, action="append", default=[], metavar="CSV", help="judge on these layers"
    )
    options.add_argument("--store", type=Path, metavar="SQLITE", help="keep their measurements here")
    options.add_argument("--samples", type=int, default=72, help="variants measured of each of --layers")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--images", type=int)
    options.add_argument("--members", type=int, help="networks in the ensemble; default: as shipped")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--curve", action="store_true", help="quality against the number of training samples")
    options.add_argument("--finetune", action="store_true", help="what finetuning on six layers of a network adds")
    options.add_argument("--machines", action="store_true", help="trained on some machines, judged on each")
    options.add_argument("--figures", type=Path, metavar="DIR")
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    try:
        data = load_data(given.data, rankers=ANALYTIC)
        if given.machines:
            across = matrix(data, given)
            show_matrix(across)
            if given.json:
                given.json.write_text(json.dumps({"commit": commit(), "machines": across}, indent=1) + "\n")
            return 0
        if given.layers:
            test, weights = own_layers(given, data)
            folds = {"layers": judged(test, weights)}
        else:
            test, folds = data, {}
            for name, training, held in splits(data, given.split, given.seed):
                folds[name] = judged(held, trained(training, given))
                top1 = {n: summary(list(j.values()))["top1"] for n, j in folds[name].items() if j}
                tell(f"{name}: {len(held.groups)} problems, " + ", ".join(f"{n} {v:.3f}" for n, v in top1.items()))
        curve = learning_curve(data, given) if given.curve else []
        tuned = finetuning(data, given) if given.finetune else {}
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    found = merged(list(folds.values()))
    figures = figures_of(found)
    show(figures)
    if given.json:
        document = {
            "machine": machine(),
            "commit": commit(),
            "command": sys.argv,
            "data": data.digest,
            "problems": len(test.groups),
            "variants": test.variants,
            "rankers": figures,
            "folds": {name: figures_of(part) for name, part in folds.items()},
            "curve": curve,
            "finetuning": tuned,
            "choices": {name: {p: j.top1 for p, j in part.items()} for name, part in found.items()},
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if given.figures:
        draw(test, found, given.figures, curve, held_out=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
