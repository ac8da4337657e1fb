"""How good an order is, given what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polydl.learn.train.training_data import Group
from polydl.rank.ranker import FloatArray


@dataclass(frozen=True, slots=True)
class Judged:
    """One ranker on one problem. Ratios are speed over the best measured speed, at most 1."""

    top1: float
    """Of its first choice."""
    top5: float
    """Of the best of its first five."""
    top5pct: float
    """Of the best of its first 5 %, at least one."""
    tau: float
    """Kendall's tau-b with the measured times."""
    pair_accuracy: float
    """Of the pairs whose measured times differ by more than the noise, the share that it orders rightly; a tie of
    scores counts half."""


def judge(group: Group, scores: FloatArray) -> Judged:
    """Judge scores, lower is better. Equal scores are ordered by the measured time, half best first and half worst
    first: neither luck nor the order of the data counts."""
    gaps = group.gaps
    first, last = (np.lexsort((sign * gaps, scores)) for sign in (1, -1))
    share = max(1, math.ceil(0.05 * len(gaps)))

    def best_of(count: int) -> float:
        return float(np.exp(-(gaps[first[:count]].min() + gaps[last[:count]].min()) / 2))

    apart = gaps[:, None] - gaps[None, :]
    noise = 1.96 * np.hypot(group.noise[:, None], group.noise[None, :])
    upper = np.triu(np.ones(apart.shape, dtype=bool), 1)
    clear = upper & (np.abs(apart) > noise)
    agreement = np.sign(scores[:, None] - scores[None, :])[clear] * np.sign(apart[clear])
    accuracy = float(((agreement + 1) / 2).mean()) if agreement.size else 1.0
    return Judged(best_of(1), best_of(5), best_of(share), tau(scores, gaps), accuracy)


def tau(one: FloatArray, other: FloatArray) -> float:
    """Kendall's tau-b of two orders of the same things; 0 where one has them all equal."""
    upper = np.triu(np.ones((len(one), len(one)), dtype=bool), 1)
    x, y = (np.sign(some[:, None] - some[None, :])[upper] for some in (one, other))
    norm = math.sqrt(float(np.abs(x).sum()) * float(np.abs(y).sum()))
    return float((x * y).sum()) / norm if norm else 0.0


def random_choice(group: Group) -> Judged:
    """What choosing at random comes to: exact expectations, of the logarithms of the ratios."""
    gaps = np.sort(group.gaps)

    def best_of(count: int) -> float:
        # The best of `count` drawn without replacement is the i-th of n with probability
        # (n - i - 1 over count - 1) / (n over count).
        n, total = len(gaps), math.comb(len(gaps), min(count, len(gaps)))
        count = min(count, n)
        weights = [math.comb(n - i - 1, count - 1) / total for i in range(n - count + 1)]
        return math.exp(-math.fsum(w * g for w, g in zip(weights, gaps, strict=False)))

    return Judged(best_of(1), best_of(5), best_of(max(1, math.ceil(0.05 * len(gaps)))), 0.0, 0.5)


def default_order(group: Group) -> Judged | None:
    """The loops as they are written around a microkernel; None where no such variant was measured."""
    found = [i for i, why in enumerate(group.origins) if "default" in why.split(",")]
    if not found:
        return None
    ratio = float(np.exp(-group.gaps[found[0]]))
    return Judged(ratio, ratio, ratio, 0.0, 0.5)


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    """Over problems: geometric means of the ratios, the worst first choice, means of the others."""
    return {
        "top1": geometric([j.top1 for j in judged]),
        "top5": geometric([j.top5 for j in judged]),
        "top5pct": geometric([j.top5pct for j in judged]),
        "worst": min(j.top1 for j in judged),
        "tau": float(np.mean([j.tau for j in judged])),
        "pair_accuracy": float(np.mean([j.pair_accuracy for j in judged])),
    }


def bootstrap(judged: Sequence[Judged], seed: int = 0, draws: int = 2000) -> dict[str, tuple[float, float]]:
    """95 % intervals of `summary` under drawing the problems anew (Efron's percentile bootstrap). The worst has none:
    a minimum is not what the bootstrap can tell."""
    rng = np.random.default_rng(seed)
    table = np.array(
        [[math.log(j.top1), math.log(j.top5), math.log(j.top5pct), j.tau, j.pair_accuracy] for j in judged]
    )
    means = table[rng.integers(0, len(table), (draws, len(table)))].mean(axis=1)
    means[:, :3] = np.exp(means[:, :3])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    keys = ("top1", "top5", "top5pct", "tau", "pair_accuracy")
    return {key: (float(low[i]), float(high[i])) for i, key in enumerate(keys)}


def advantage(
    ours: Mapping[str, Judged], theirs: Mapping[str, Judged], seed: int = 0, draws: int = 2000
) -> tuple[float, float, float]:
    """(ratio, low, high): geometric mean over the common problems of our top 1 over theirs, with its 95 % interval
    (paired bootstrap)."""
    common = sorted(set(ours) & set(theirs))
    gains = np.array([math.log(ours[name].top1 / theirs[name].top1) for name in common])
    rng = np.random.default_rng(seed)
    means = gains[rng.integers(0, len(gains), (draws, len(gains)))].mean(axis=1)
    low, high = np.exp(np.percentile(means, [2.5, 97.5]))
    return float(np.exp(gains.mean())), float(low), float(high)
