"""Assigns each working set to the cache level that serves it (Algorithm 2 of PolyDL, Tavarageri et al., TACO 2021)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.batch import BatchWorkingSets
from polydl.locality.boxes import BoxNest, IntArray
from polydl.locality.exact import WorkingSet
from polydl.model.counting import ZERO, Count
from polydl.target.model import Machine


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """Bytes of working sets by the level that serves them."""

    caches: tuple[Count, ...]
    """One per cache level, fastest first."""
    memory: Count


def level_of(size: Count, machine: Machine) -> int | None:
    """Index into `machine.caches` of the fastest cache that holds `size` bytes; None for memory.

    A size known between bounds only goes by its upper bound: the level that surely serves it.
    """
    for index, cache in enumerate(machine.caches):
        if size.upper <= cache.bytes:
            return index
    return None


def assign(working_sets: Iterable[WorkingSet], machine: Machine) -> LevelSizes:
    """Algorithm 2: each least and greatest working set, in bytes, added to the fastest cache it fits, else memory.

    As in the authors' program, dependences with the same pair of sizes count once (the four kinds of dependence of
    one accumulator are one reuse), and a pair of equal sizes is one size.
    """
    caches = [ZERO] * len(machine.caches)
    memory = ZERO
    pairs = dict.fromkeys((found.min_footprint.bytes, found.max_footprint.bytes) for found in working_sets)
    for low, high in pairs:
        for size in (low,) if low == high else (low, high):
            index = level_of(size, machine)
            if index is None:
                memory += size
            else:
                caches[index] += size
    return LevelSizes(tuple(caches), memory)


def assign_batch(found: BatchWorkingSets, nest: BoxNest, machine: Machine, variants: int) -> IntArray:
    """`assign` for each of `variants` variants of a box nest: (V, caches + 1) bytes, memory last."""
    element_bytes = np.array([nest.element_bytes[array] for array in found.arrays], dtype=np.int64)
    low, high = found.minimum @ element_bytes, found.maximum @ element_bytes
    pairs = np.unique(np.stack([found.variant, low, high], axis=1), axis=0)
    capacities = np.array([cache.bytes for cache in machine.caches], dtype=np.int64)
    result = np.zeros((variants, len(capacities) + 1), dtype=np.int64)
    for column in (1, 2):
        chosen = pairs if column == 1 else pairs[pairs[:, 1] != pairs[:, 2]]
        fits = chosen[:, column, None] <= capacities
        level = np.where(fits.any(axis=1), fits.argmax(axis=1), len(capacities))
        np.add.at(result, (chosen[:, 0], level), chosen[:, column])
    return result
