"""Times of contenders that took turns: what disturbs a whole round is told apart from what a contender takes itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polydl.base.records import dataclass

_SWEEPS = 50
"""Most times that rows and columns are polished in turn; ten are usual."""
_SETTLED = 1e-7
"""Change of the logarithms below which another sweep would change nothing that counts."""
_LEAST = 1e-12
"""Seconds that a sample takes at least: what a clock does not resolve has no logarithm."""
_FEWEST = 3
"""Samples whose spread says anything."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What C contenders take while nothing disturbs them."""

    seconds: Array
    """(C,) NaN without samples."""
    error: Array
    """(C,) standard errors of the logarithms of `seconds`, one against the other; NaN for less than three samples."""


def undisturbed(samples: Sequence[Mapping[int, float]]) -> Undisturbed:
    """What contenders take, from the samples of each by round, in seconds.

    The logarithm of a sample is taken as the sum of what its contender and what its round add to it (median polish:
    Tukey, "Exploratory data analysis", 1977, chapter 11). Another program that takes one of two cores lengthens all
    samples of a round alike, so that contenders differ as they do on a quiet machine; their own quantiles would say who
    was lucky. The level of all is that of the quietest tenth of the rounds.

    The error is that of a median of n nearly normal values, 1.2533 · σ/√n, with σ from what is left of the samples,
    1.4826 · MAD.
    """
    place = {number: i for i, number in enumerate(sorted({number for one in samples for number in one}))}
    seconds, error = np.full(len(samples), math.nan), np.full(len(samples), math.nan)
    if not place:
        return Undisturbed(seconds, error)
    table = np.full((len(samples), len(place)), math.nan)
    for row, one in enumerate(samples):
        for number, value in one.items():
            table[row, place[number]] = math.log(max(value, _LEAST))
    known = np.flatnonzero(~np.isnan(table).all(axis=1))
    own, level = _polished(table[known])
    seconds[known] = np.exp(own + np.percentile(level, 10))
    left = np.abs(table[known] - own[:, None] - level[None, :])
    count = (~np.isnan(left)).sum(axis=1)
    deviation = 1.4826 * np.nanmedian(left, axis=1)
    error[known] = np.where(count >= _FEWEST, 1.2533 * deviation / np.sqrt(count), math.nan)
    return Undisturbed(seconds, error)


def _polished(table: Array) -> tuple[Array, Array]:
    """(C,) what each row adds and (R,) what each column adds to a table (C, R) with gaps, none of them empty."""
    own = np.asarray(np.nanmedian(table, axis=1))
    for _ in range(_SWEEPS):
        level = np.nanmedian(table - own[:, None], axis=0)
        before, own = own, np.asarray(np.nanmedian(table - level[None, :], axis=1))
        if float(np.abs(own - before).max()) < _SETTLED:
            break
    return own, np.asarray(np.nanmedian(table - own[:, None], axis=0))
