"""Which of a few variants is fastest at which sizes: a small decision tree, from estimates at many sizes.

source:    classification trees (Breiman et al., 1984), with what a choice loses in place of an impurity; dispatch over
           code variants by features of the input as in Petabricks (Ansel et al., PLDI 2009) and CLTune's selection
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from polydl.base.records import dataclass
from polydl.rank.ranker import FloatArray


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the sizes."""

    feature: int
    """Index of what is compared."""
    limit: float
    """The value from which on `large` is taken."""
    small: Tree
    large: Tree


Tree = Question | int
"""A question, or the variant that is taken."""


def few(losses: FloatArray, most: int, near: float) -> list[int]:
    """The fewest rows that together come near to the best one everywhere, chosen one after the other.

    `losses` (V, P): the logarithm of what variant v takes over what the best one takes at point p. Rows are added
    until the mean over the points of the least loss is `near` at most, or there are `most`.
    """
    chosen: list[int] = []
    least = np.full(losses.shape[1], math.inf)
    while len(chosen) < most and (not chosen or least.mean() > near):
        means = np.minimum(losses, least).mean(axis=1)
        best = int(np.argmin(means))
        if chosen and means[best] >= least.mean():
            break
        chosen.append(best)
        least = np.minimum(least, losses[best])
    return chosen


def tree(losses: FloatArray, features: FloatArray, *, depth: int = 4, gain: float = 0.005) -> Tree:
    """A tree over `features` (P, F) that chooses a row of `losses` (V, P) for each point, with little loss in the mean.

    A question has to lower the sum of the losses by `gain` per point of the whole table; its limit is a round number.
    """
    return _grown(losses, features, np.arange(losses.shape[1]), depth, gain * losses.shape[1])


def _grown(losses: FloatArray, features: FloatArray, points: np.ndarray, depth: int, gain: float) -> Tree:
    sums = losses[:, points].sum(axis=1)
    best = int(np.argmin(sums))
    if depth == 0:
        return best
    found: tuple[float, int, float] | None = None
    for feature in range(features.shape[1]):
        for limit in _limits(features[points, feature]):
            below = features[points, feature] < limit
            parts = points[below], points[~below]
            if not all(len(part) for part in parts):
                continue
            sum_ = sum(float(losses[:, part].sum(axis=1).min()) for part in parts)
            if found is None or sum_ < found[0] - 1e-12:
                found = sum_, feature, limit
    if found is None or found[0] > sums[best] - gain:
        return best
    _, feature, limit = found
    below = features[points, feature] < limit
    small, large = (_grown(losses, features, part, depth - 1, gain) for part in (points[below], points[~below]))
    return small if small == large else Question(feature, limit, small, large)


def _limits(values: np.ndarray) -> Iterator[float]:
    """Round numbers between neighbouring values."""
    distinct = np.unique(values)
    for low, high in pairwise(distinct):
        middle = math.sqrt(max(float(low), 1.0) * float(high))
        digits = 10.0 ** (math.floor(math.log10(middle)) - 1)
        yield max(1.0, round(middle / digits) * digits)


def taken(of: Tree, features: Sequence[float]) -> int:
    """The variant that a tree takes at sizes with these features."""
    while isinstance(of, Question):
        of = of.small if features[of.feature] < of.limit else of.large
    return of


def answers(of: Tree, features: Sequence[float]) -> tuple[bool, ...]:
    """The answers to a tree's questions at sizes with these features, True for large ones: they name a leaf."""
    found = []
    while isinstance(of, Question):
        found.append(features[of.feature] >= of.limit)
        of = of.large if found[-1] else of.small
    return tuple(found)


def leaves(of: Tree) -> Iterator[int]:
    """The variants that a tree takes, small sizes first."""
    if isinstance(of, Question):
        yield from leaves(of.small)
        yield from leaves(of.large)
    else:
        yield of


def renumbered(of: Tree, names: Sequence[int]) -> Tree:
    """The tree with the variant `names[v]` where it has v."""
    if isinstance(of, Question):
        return replace(of, small=renumbered(of.small, names), large=renumbered(of.large, names))
    return names[of]
