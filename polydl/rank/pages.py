"""The cost of address translation: pages that miss the levels of the TLB, counted like the bytes that miss a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polydl.locality.boxes import BoxNest, LoopBatch
from polydl.locality.contiguity import unit_footprints
from polydl.rank.curve_traffic import curve_factors
from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import NestLoops


def page_footprints(
    nest: BoxNest, batch: LoopBatch, structures: Sequence[NestLoops], page_bytes: int, dense: FloatArray
) -> FloatArray:
    """(V, D + 1, A) pages that the loops at each depth and inside touch. A packed operand is read from its buffer,
    where what a block touches lies without gaps: `dense` (V, D + 1, A) bytes of its elements."""
    pages = unit_footprints(nest, batch, page_bytes).units.astype(np.float64)
    place = {name: a for a, name in enumerate(nest.arrays)}
    for operand in ("A", "B"):
        packs = [
            (v, structure.pack_depth(pack), place[structure.operand(pack.operand).array])
            for v, structure in enumerate(structures)
            for pack in structure.packs
            if pack.operand == operand
        ]
        if packs:
            rows, depths, arrays = (np.array(column) for column in zip(*packs, strict=True))
            found, packed = pages[rows, :, arrays], np.ceil(dense[rows, :, arrays] / page_bytes)
            inside = np.arange(found.shape[1]) >= depths[:, None]
            pages[rows, :, arrays] = np.where(inside, np.minimum(found, packed), found)
    return pages


def page_misses(
    pages: FloatArray, full: FloatArray, mine: FloatArray, entries: int, curves: Mapping[int, int]
) -> FloatArray:
    """(V,) translations that one thread brings into a TLB level of `entries`: a loop keeps what it reuses when one of
    its iterations touches no more pages than that. `full` and `mine` (V, D): iterations of each loop, and those that
    the thread runs; `curves`: see rank.curve_traffic.

    Only misses of the TLB's last level cost time (`Resources`): what the second level answers is hidden by the work
    that goes on meanwhile. With its latency added, the first choice reaches 0.959 of the best measured, without 0.962
    (117 problems of experiments/collect.py, Zen 5).
    """
    kept = pages[:, 1:, :].sum(axis=2) <= entries
    ratio = pages[:, :-1, :] / np.maximum(pages[:, 1:, :], 1.0)
    share = np.where(full > 1, (mine - 1) / np.where(full > 1, full - 1, 1.0), 0.0)
    growth = 1.0 + (ratio - 1.0) * share[:, :, None]
    factors = np.where(kept[:, :, None], growth, mine[:, :, None])
    for v, p in curves.items():
        rows, columns, steps = float(full[v, p]), float(full[v, p + 1]), float(mine[v, p] * mine[v, p + 1])
        outside, between, inside = pages[v, p : p + 3]
        factors[v, p] = curve_factors(outside, between, inside, float(entries), rows, columns, steps)
        factors[v, p + 1] = 1.0
    missed = (pages[:, -1, :] * np.prod(factors, axis=1)).sum(axis=1)
    return np.asarray(np.where(pages[:, 0, :].sum(axis=1) <= entries, 0.0, missed))
