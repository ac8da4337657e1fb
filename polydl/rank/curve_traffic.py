"""Traffic of two parallel loops whose iterations run along a space-filling curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import HILBERT, NestLoops


def curve_positions(structures: Sequence[NestLoops]) -> dict[int, int]:
    """Position of the first of the two loops, for the structures that have a curve."""
    return {v: s.parallel_positions[0] for v, s in enumerate(structures) if s.omp_schedule == HILBERT}


def curve_factors(
    outside: FloatArray,
    between: FloatArray,
    inside: FloatArray,
    usable: float,
    rows: float,
    columns: float,
    steps: float,
) -> FloatArray:
    """(A,) by what the two loops multiply what one of their iterations brings into a cache.

    A stretch of the curve fills squares. With k the side, in iterations, of the largest square whose data the cache
    keeps, each square of k x k iterations brings k new slices of what only one of the loops moves; so of T iterations
    an operand that one loop moves is brought T / k times, one that both move T times, and one that neither moves once,
    or T times where the cache does not keep what one iteration touches. `outside`, `between`, `inside` (A,) bytes that
    the first loop, the second and one of their iterations touch; `usable` bytes of the cache; `rows` and `columns`
    iterations of the loops, `steps` of both together in one thread.
    """
    if inside.sum() > usable:
        return np.full(len(inside), steps)
    by_row, by_column = outside > between, between > inside
    one, both, still = inside[by_row ^ by_column].sum(), inside[by_row & by_column].sum(), inside.sum()
    left = usable - (still - one - both)
    k = (-one + np.sqrt(one * one + 4 * max(both, 1e-9) * max(left, 0.0))) / (2 * max(both, 1e-9))
    k = float(np.clip(np.floor(k), 1.0, max(1.0, min(np.sqrt(steps), rows, columns))))
    return np.where(by_row & by_column, steps, np.where(by_row | by_column, steps / k, 1.0))
