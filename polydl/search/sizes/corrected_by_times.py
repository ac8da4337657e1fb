"""Estimates of ways at many sizes, corrected by times at a few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from polydl.rank.ranker import FloatArray

_APART = math.log(2)
"""How far apart sizes are of which both are timed, as logarithms of what they are told apart by."""
_NOISE = 0.05
"""Differences between times and estimates that are taken for noise."""


def closest(
    estimated: FloatArray, places: FloatArray, most: int, able: Callable[[int], bool] = lambda point: True
) -> list[int]:
    """The points at which the best two of several ways are closest to each other, at most so many, of those that are
    `able`.

    `estimated` (V, P): logarithms of seconds; `places` (P, F): logarithms of what sizes are told apart by. Of points
    that are less than a factor of two apart, one is taken.
    """
    if len(estimated) < 2:
        return []
    ordered = np.sort(estimated, axis=0)
    found: list[int] = []
    for p in np.argsort(np.round(ordered[1] - ordered[0], 9), kind="stable"):
        if all(np.linalg.norm(places[p] - places[q]) >= _APART for q in found) and able(int(p)):
            found.append(int(p))
        if len(found) == most:
            break
    return found


def moved_by_times(estimated: FloatArray, places: FloatArray, at: Sequence[int], measured: FloatArray) -> FloatArray:
    """Estimates (V, P) moved by what was measured at the points `at`, (V, Q) seconds; NaN where nothing was timed.

    By how much a way was slower than its estimate, relative to the mean of all ways, holds where it was timed. What its
    points have in common holds everywhere, q / (q + 1) of it where q were timed; the rest fades, the farther a point
    lies: e^-1 of it is left at a factor of e. A point at which one of the ways has no time counts for nothing.
    """
    known = [q for q in range(len(at)) if np.isfinite(measured[:, q]).all() and (measured[:, q] > 0).all()]
    if not known:
        return estimated
    ratios = np.log(measured[:, known]) - estimated[:, [at[q] for q in known]]
    ratios = ratios - ratios.mean(axis=0)
    ratios = np.where(np.abs(ratios) < _NOISE, 0.0, ratios)
    common = ratios.mean(axis=1, keepdims=True) * len(known) / (len(known) + 1)
    there = places[[at[q] for q in known]]
    weights = np.exp(-np.linalg.norm(places[:, None, :] - there[None, :, :], axis=2))
    weights = weights / np.maximum(1.0, weights.sum(axis=1, keepdims=True))
    moved: FloatArray = estimated + common + (ratios - common) @ weights.T
    return moved
