"""What address translation costs: pages that miss the levels of the TLB, counted like the bytes that miss a cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.locality.boxes import BoxNest, LoopBatch
from polydl.locality.contiguity import unit_footprints
from polydl.rank.ranker import FloatArray
from polydl.schedule.structure import Structure
from polydl.target import Machine


def page_footprints(nest: BoxNest, batch: LoopBatch, structures: Sequence[Structure], page_bytes: int) -> FloatArray:
    """(V, D + 1, A) pages that the loops at each depth and inside touch. A packed operand is read from its buffer,
    where what a block touches lies without gaps."""
    pages = unit_footprints(nest, batch, page_bytes).units.astype(np.float64)
    place = {name: a for a, name in enumerate(nest.arrays)}
    dense: FloatArray | None = None
    for v, structure in enumerate(structures):
        for pack in structure.packs:
            if dense is None:
                dense = np.ceil(unit_footprints(nest, batch, 1).units / page_bytes)
            array, depth = place[structure.operand(pack).array], structure.pack_depth(pack)
            pages[v, depth:, array] = np.minimum(pages[v, depth:, array], dense[v, depth:, array])
    return pages


def page_misses(pages: FloatArray, batch: LoopBatch, trips: FloatArray, entries: int) -> FloatArray:
    """(V,) translations that one thread brings into a TLB level of `entries`: a loop keeps what it reuses when one of
    its iterations touches no more pages than that. `trips` (V, D): iterations of each loop that the thread runs."""
    kept = pages[:, 1:, :].sum(axis=2) <= entries
    full = batch.trip.astype(np.float64)
    ratio = pages[:, :-1, :] / np.maximum(pages[:, 1:, :], 1.0)
    share = np.where(full > 1, (trips - 1) / np.maximum(full - 1, 1), 0.0)
    growth = 1.0 + (ratio - 1.0) * share[:, :, None]
    factors = np.where(kept[:, :, None], growth, trips[:, :, None])
    missed = (pages[:, -1, :] * np.prod(factors, axis=1)).sum(axis=1)
    return np.asarray(np.where(pages[:, 0, :].sum(axis=1) <= entries, 0.0, missed))


def translation_seconds(
    nest: BoxNest, batch: LoopBatch, structures: Sequence[Structure], trips: FloatArray, machine: Machine
) -> FloatArray:
    """(V,) seconds that one thread walks page tables: misses of the TLB's last level.

    What the second level answers is hidden by the work that goes on meanwhile: with its latency added, the first choice
    reaches 0.959 of the best measured, without 0.962 (117 problems of experiments/collect.py, Zen 5).
    """
    pages = page_footprints(nest, batch, structures, machine.tlb.page_bytes)
    walks = page_misses(pages, batch, trips, machine.tlb.l2_entries)
    return np.asarray(walks * machine.seconds(machine.tlb.walk_cycles))
