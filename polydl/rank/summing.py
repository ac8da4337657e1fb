"""What copies of the output cost where a reduction is shared out among threads (`Parallelize.summed`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.locality.boxes import BoxNest, IntArray
from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import NestLoops
from polydl.target import Machine


def copies_bytes(nest: BoxNest, structures: Sequence[NestLoops], footprint: FloatArray | IntArray) -> FloatArray:
    """(V,) bytes of all copies of the output together; 0 where nothing is summed up.

    `footprint` (V, A): bytes of the elements of each array that the nest touches.
    """
    result = np.zeros(len(structures))
    for v, structure in enumerate(structures):
        if structure.summed:
            ways = next(axis.ways for axis in structure.grid if axis.loop == structure.summed)
            result[v] = ways * written_bytes(nest, footprint[v])
    return result


def written_bytes(nest: BoxNest, footprint: FloatArray | IntArray) -> float:
    """Of one copy of the output. `footprint` (A,): bytes of the elements of each array that the nest touches."""
    written = [a for a, name in enumerate(nest.arrays) if any(w.write and w.array == name for w in nest.accesses)]
    return sum(float(footprint[a]) for a in written)


def summing_seconds(copies: FloatArray, machine: Machine, threads: int) -> FloatArray:
    """(V,) seconds to zero copies of so many bytes, then to read them and read and write the output for each: at the
    speed of the outermost cache, through which they come from other cores; and to start the threads for the zeroing."""
    rate = machine.cache_bandwidth(machine.caches[-1], threads)
    return np.asarray(np.where(copies > 0, 4 * copies / rate + machine.parallel_region_us * 1e-6, 0.0))
