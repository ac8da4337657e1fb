"""Which level serves each working set (Algorithm 2 of PolyDL, Tavarageri et al., TACO 2021)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polydl.locality.exact import WorkingSet
from polydl.machine.model import Machine
from polydl.model.counting import ZERO, Count


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """Bytes of working sets by the level that serves them."""

    caches: tuple[Count, ...]
    """One a cache level, fastest first."""
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
