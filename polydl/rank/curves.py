"""Traffic of two parallel loops whose iterations run along a space-filling curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.locality.boxes import LoopBatch
from polydl.rank.ranker import FloatArray
from polydl.schedule.structure import HILBERT, Structure
from polydl.target import CacheLevel


def curve_positions(structures: Sequence[Structure]) -> dict[int, int]:
    """Position of the first of the two loops, for the structures that have a curve."""
    return {v: s.parallel_positions[0] for v, s in enumerate(structures) if s.omp_schedule == HILBERT}


def along_curves(
    factors: FloatArray,
    footprint: FloatArray,
    bytes_of: FloatArray,
    batch: LoopBatch,
    mine: FloatArray,
    curves: dict[int, int],
    cache: CacheLevel,
    sharers: int,
) -> None:
    """Replace the factors (V, D, A) of the two loops of each curve.

    A stretch of the curve fills squares. With k the side, in iterations, of the largest square whose data the cache
    keeps, each square of k x k iterations brings k new slices of what only one of the loops moves; so of T iterations
    an operand that one loop moves is brought T / k times, one that both move T times. `footprint` (V, D + 1, A)
    elements, `mine` (V, D) iterations of one thread.
    """
    usable = cache.bytes * (cache.ways - 1) / cache.ways / sharers
    for v, p in curves.items():
        inside = footprint[v, p + 2] * bytes_of
        by_row = footprint[v, p] > footprint[v, p + 1]
        by_column = footprint[v, p + 1] > footprint[v, p + 2]
        one, both, still = inside[by_row ^ by_column].sum(), inside[by_row & by_column].sum(), inside.sum()
        left = usable - (still - one - both)
        k = (-one + np.sqrt(one * one + 4 * max(both, 1e-9) * max(left, 0.0))) / (2 * max(both, 1e-9))
        rows, columns = float(batch.trip[v, p]), float(batch.trip[v, p + 1])
        steps = float(mine[v, p] * mine[v, p + 1])
        side = np.sqrt(steps)
        k = float(np.clip(np.floor(k), 1.0, max(1.0, min(side, rows, columns))))
        factors[v, p] = np.where(by_row & by_column, steps, np.where(by_row | by_column, steps / k, 1.0))
        factors[v, p + 1] = 1.0
