"""Estimates of the variants of one program, corrected by the times of some of them: which one to time next.

A Gaussian process (Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 2.1) on what the
logarithms of the times exceed those of the estimates by. Two variants are expected to miss alike as far as their
recipes share words (`rank.aspects`) and their estimates use the same resources. Next comes what is expected to gain
most over the best time so far (expected improvement: Jones, Schonlau and Welch, "Efficient global optimization of
expensive black-box functions", 1998, equation 15). Nothing here is random, and nothing looks at a clock.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from polydl.base.records import dataclass
from polydl.rank.aspects import shared_words
from polydl.rank.ranker import FloatArray
from polydl.schedule.recipe import Recipe

_DIGITS = 9
"""Of a gain: vectorised arithmetic may differ in the last ones between two machines."""
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Prior:
    """How far estimates are trusted before anything is timed: standard deviations of logarithms of seconds.

    Round numbers that replays on the measurements of three machines bear out (`experiments/learning.py`): half and
    twice of each reach the same within the intervals; without `words` a search learns hardly anything.
    """

    scale: float = 1.0
    """Of what all variants of a program have in common, which decides nothing."""
    words: float = 0.2
    """Of what variants with the same words share."""
    resources: float = 0.15
    """Of what variants that use the same resources share."""
    near: float = 0.6
    """How different the use of resources is that still counts as alike: see `_amounts`."""
    noise: float = 0.02
    """Of a time."""


PRIOR = Prior()


@dataclass(frozen=True)
class Estimated:
    """V variants of one program: their estimates, and what they have in common."""

    log_seconds: FloatArray
    """(V,) natural logarithms of the estimates."""
    words: FloatArray
    """(V, W) of length 1 (`aspects.shared_words`)."""
    amounts: FloatArray
    """(V, R) see `_amounts`."""
    prior: Prior = PRIOR

    @staticmethod
    def of(
        seconds: FloatArray, resources: Mapping[str, FloatArray], recipes: Sequence[Recipe], prior: Prior = PRIOR
    ) -> Estimated:
        """Of `seconds` (V,) that are estimated, which `resources` (V,) each add up to, for V recipes."""
        return Estimated(np.log(seconds), shared_words(recipes), _amounts(seconds, resources), prior)

    @property
    def best(self) -> int:
        """The variant with the best estimate; of equal ones the first."""
        return int(np.argmin(self.log_seconds)) if len(self) else 0

    def moved(self, added: FloatArray) -> Estimated:
        """With something `added` (V,) to the logarithms of the estimates of all but the best, which stays the best."""
        floor = self.log_seconds.min(initial=math.inf)
        moved = np.maximum(self.log_seconds + added, floor + 1e-6)
        if len(self):
            moved[self.best] = floor
        return replace(self, log_seconds=moved)

    def __len__(self) -> int:
        return len(self.log_seconds)

    def alike(self, which: Sequence[int]) -> FloatArray:
        """(V, len(which)) covariance of what the estimates of all variants miss with that of some."""
        at, p = list(which), self.prior
        apart = ((self.amounts[:, None, :] - self.amounts[None, at, :]) ** 2).sum(axis=2)
        resources = p.resources**2 * np.exp(-apart / (2 * p.near**2))
        return np.asarray(p.scale**2 + p.words**2 * (self.words @ self.words[at].T) + resources)

    @cached_property
    def own(self) -> FloatArray:
        """(V,) variance of what the estimate of each misses."""
        p = self.prior
        return np.asarray(p.scale**2 + p.resources**2 + p.words**2 * (self.words**2).sum(axis=1))

    def corrected(self, timed: Mapping[int, float]) -> tuple[FloatArray, FloatArray]:
        """((V,), (V,)) means and standard deviations of the logarithms of the seconds, after some were `timed`: natural
        logarithms of seconds by variant."""
        at = list(timed)
        if not at:
            return self.log_seconds, np.sqrt(self.own)
        cross = self.alike(at)
        root = np.linalg.cholesky(cross[at] + self.prior.noise**2 * np.eye(len(at)))
        known = np.linalg.solve(root, cross.T)
        missed = np.linalg.solve(root, np.array(list(timed.values())) - self.log_seconds[at])
        variance = np.maximum(self.own - (known**2).sum(axis=0), 1e-12)
        return np.asarray(self.log_seconds + known.T @ missed), np.sqrt(variance)


def _amounts(seconds: FloatArray, resources: Mapping[str, FloatArray]) -> FloatArray:
    """(V, R) how much each variant uses each resource: ln(1 + 3 t / T), t its seconds there and T those that the best
    estimate has in all. Linear in what is little, logarithmic in what is much."""
    if not resources:
        return np.zeros((len(seconds), 0))
    return np.log1p(3 * np.maximum(0.0, np.stack(list(resources.values()), axis=1)) / float(np.min(seconds)))


@dataclass(frozen=True, slots=True)
class Next:
    """A variant to time next."""

    variant: int
    """Its index."""
    gain: float
    """By how much it is expected to be faster than the best so far, as a logarithm; infinite for the first of all."""
    expected: float
    """Logarithm of its seconds, after what was timed."""
    error: float
    """Standard deviation of that."""


def expected_gain(mean: FloatArray, deviation: FloatArray, best: float) -> FloatArray:
    """(V,) by how much values with these means and standard deviations are expected to lie below `best`, where they do
    (expected improvement)."""
    z = (best - mean) / deviation
    below = 0.5 * (1 + _erf(z / math.sqrt(2)))
    return np.asarray(deviation * (z * below + np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)))


def timed_next(estimated: Estimated, timed: Mapping[int, float], left_out: Collection[int] = ()) -> Next | None:
    """The variant that is expected to gain most over the best of those `timed` (logarithms of seconds by variant); the
    best estimate where nothing was; of equal ones the first. It is none of those timed or `left_out`. None: all are."""
    if len(estimated) == 0:
        return None
    mean, deviation = estimated.corrected(timed)
    gain = expected_gain(mean, deviation, min(timed.values())) if timed else -mean
    gain[[*timed, *left_out]] = -math.inf
    best = int(np.argmax(np.round(gain, _DIGITS)))
    if gain[best] == -math.inf:
        return None
    return Next(best, float(gain[best]) if timed else math.inf, float(mean[best]), float(deviation[best]))
