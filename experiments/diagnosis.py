"""What the first choice of `traffic` loses on each measured pair, and to which term of the estimate.

python experiments/diagnosis.py                                  # all machines of trained_models/data
python experiments/diagnosis.py --data trained_models/data/zen3.parquet --pairs --json diagnosis.json
python experiments/diagnosis.py --halves                         # how well the times themselves are known

A loss is laid to the term whose smallest change, by a factor, would have put a variant within 3 % of the best measured
one first: compute, a cache level, memory, translation of addresses, waiting (imbalance), copies, forks. `none`: no
change of a single term by up to eight does, so what tells the variants apart is not in the estimate. `noise`: the loss
is within two standard errors of the two times. `residual` is the standard deviation of what the logarithm of the
estimate lacks, over variants up to 1.6 times the best.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from judging import tell
from output import commit

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.train import parquet
from polydl.learn.train.training_data import Group, load_data
from polydl.measure.rounds import undisturbed
from polydl.measure.store import StoredMeasurement
from polydl.rank.ranker import FloatArray

DATA = resources.trained_models() / "data"
FACTORS = tuple(sorted((2.0**k for k in np.arange(-3, 3.01, 0.25) if k), key=lambda f: abs(math.log(f))))
"""Changes of a term, the smallest first."""
NEAR = 0.03
"""Loss of a choice that is as good as the best."""
NEARBY = 1.6
FEWEST, FEWEST_VARIANTS = 6, 4
"""Samples, and variants, of a pair whose halves say anything."""


def term_of(group: Group) -> tuple[float, str]:
    """(loss of the first choice, 0 for none; the term that it is laid to)."""
    gaps = group.gaps
    best, first = int(gaps.argmin()), int(np.argsort(group.traffic_seconds, kind="stable")[0])
    loss = 1 - math.exp(-float(gaps[first]))
    if loss <= NEAR:
        return loss, ""
    if gaps[first] <= 2 * math.hypot(group.noise[first], group.noise[best]):
        return loss, "noise"
    terms = group.terms
    for factor in FACTORS:
        for name, seconds in terms.items():
            changed = group.traffic_seconds + (factor - 1) * seconds
            if math.exp(-float(gaps[int(np.argsort(changed, kind="stable")[0])])) >= 1 - NEAR:
                return loss, name
    return loss, "none"


def residual(group: Group) -> float:
    """See the module's documentation."""
    near = group.gaps < math.log(NEARBY)
    return float(np.std((group.log_seconds - np.log(group.traffic_seconds))[near]))


def own_quantile(samples: Sequence[Mapping[int, float]]) -> FloatArray:
    """(V,) the tenth percentile of each variant's own samples."""
    return np.array([np.percentile(list(one.values()), 10) for one in samples])


def halves(path: Path) -> None:
    """Print how near to the best, by every other round, the variant is that is the best by the rounds in between:
    with the tenth percentile of each variant's own samples, and with the rounds told apart (measure.rounds)."""
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        pairs: dict[object, list[StoredMeasurement]] = defaultdict(list)
        for row in parquet.read(file).rows:
            if row.verified and len(row.samples) >= FEWEST and row.variant != "original":
                pairs[row.kernel, tuple(sorted(row.sizes.items()))].append(row)
        said = []
        for name, known in (("own quantile", own_quantile), ("rounds", lambda some: undisturbed(some).seconds)):
            reached = []
            for rows in pairs.values():
                best = min(np.percentile(r.samples, 10) for r in rows)
                near = [r for r in rows if np.percentile(r.samples, 10) < 1.5 * best]
                if len(near) >= FEWEST_VARIANTS:
                    parts = [[dict(list(enumerate(r.samples))[half::2]) for r in near] for half in (0, 1)]
                    one, other = known(parts[0]), known(parts[1])
                    reached.append(math.log(other.min() / other[int(one.argmin())]))
            said.append(f"{name} {math.exp(float(np.mean(reached))):.4f}")
        print(f"{file.stem}: {', '.join(said)}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="store, export, or folder of exports")
    options.add_argument("--pairs", action="store_true", help="each pair, too")
    options.add_argument("--halves", action="store_true", help="the times by every other round against the others")
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    try:
        if given.halves:
            halves(given.data)
            return 0
        data = load_data(given.data, lambda done, total: None)
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows = []
    for group in data.groups:
        loss, term = term_of(group)
        found[group.machine][term or "none lost"].append(loss)
        rows.append({"machine": group.machine, "pair": f"{group.workload}/{group.problem}", "loss": loss, "term": term})
    for machine, terms in found.items():
        pairs = sum(len(losses) for losses in terms.values())
        whole = sum(math.log(1 - loss) for losses in terms.values() for loss in losses) / pairs
        spread = np.mean([residual(g) for g in data.groups if g.machine == machine])
        print(f"{machine}: {pairs} pairs, first choice {math.exp(whole):.3f} of the best, residual {spread:.3f}")
        print("  term         pairs   share of the loss   worst")
        for term, losses in sorted(terms.items(), key=lambda item: sum(math.log(1 - x) for x in item[1])):
            share = sum(math.log(1 - loss) for loss in losses) / pairs / whole if whole else 0.0
            print(f"  {term:12} {len(losses):5} {share:14.0%} {1 - max(losses):14.3f}")
    if given.pairs:
        for row in sorted(rows, key=lambda row: (row["machine"], -float(str(row["loss"])))):
            print(f"{row['machine']} {row['pair']:32} {row['loss']:.3f} {row['term']}")
    if given.json:
        given.json.write_text(json.dumps({"commit": commit(), "pairs": rows}, indent=1) + "\n", encoding="utf-8")
    tell(f"{len(rows)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
