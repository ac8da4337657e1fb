"""The cost of data that prefetchers do not bring ahead of their use.

A prefetcher follows a few streams of neighbouring lines. Where loops touch more pieces of an array in turn than that,
nothing is asked for ahead of time where a piece begins, and a core waits with as many lines under way as it has room
for: a block of 32 of 512 channels reads two lines here and two lines there, though all lines are read at last
(`late_seconds`). So does a microkernel that reads short runs of a column-wise operand from memory, a run for each of
many steps (`unfollowed`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.locality.boxes import BoxNest, IntArray
from polydl.model.strides import known
from polydl.rank.each_once import Alike
from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import Loop, NestLoops, Packed
from polydl.target import Machine

STREAMS = 16
"""That prefetchers follow. Read a line each in turn, 16 come at all of a core's bandwidth, 32 at 0.4 of it (Zen 4);
Intel's follow 32 at most, one of each page (Optimization Reference Manual, "Data Prefetch to L2 and LLC")."""
SOME = 4
"""So many times as many are followed in part: a core gets as much of 32 or 64 streams whose lines are read in turn as
of long runs of any number (Zen 4, 12 of 31 GB/s; 5.4 for lines one by one of 128 or more)."""
UNDER_WAY = 16
"""Lines that a core waits for at once: 10 line fill buffers in Intel's cores up to Skylake, 12 in Sunny Cove, 16 in
Golden Cove; 13 from the rate and latency of single lines measured on Zen 4. Over 394 measured pairs of three machines
the first choice loses least, of 10, 12, 16 and 24, with the last two."""
NEXT = 0.4
"""What the other lines of a run take, of the time of its first: prefetchers bring neighbours. Runs of 1, 4 and 16 lines
take 11.9, 24 and 83 ns (Zen 4)."""
PAGE_BYTES = 4096
"""Prefetchers go along in a page, over gaps too, and stop at its end. Rows of A so far apart are asked for ahead of
time by the microkernels themselves."""
LATE_FROM = 3
"""Caches from this level on are so far that a core waits for pieces that begin; it has enough to do while the second
level answers."""
_MOST_STEPS = 4096
"""Of a reduction, looked at one by one."""


def piece_bytes(lines: FloatArray, runs: FloatArray, innermost: IntArray) -> FloatArray:
    """(V, A) bytes of an array that follow one another in memory and in time: of what the loops at depth `innermost`
    (V,) and inside touch; longer where prefetchers follow all of its runs through the loops around them. `lines` and
    `runs` (V, D + 1, A): bytes of the lines that the loops at each depth and inside touch, and the runs that they make.
    """
    depths = np.arange(lines.shape[1])[None, :, None]
    inside = depths > innermost[:, None, None]
    many = (runs > SOME * STREAMS) & ~inside
    # The outermost depth at which, and inside of which, there are few enough runs: behind the last with too many.
    first = np.minimum(np.where(many, depths + 1, 0).max(axis=1), innermost[:, None])[:, None, :]
    bytes_, count = (np.take_along_axis(values, first, axis=1)[:, 0] for values in (lines, runs))
    return np.minimum(bytes_ / np.maximum(count, 1.0), PAGE_BYTES)


def read_in_place(nest: BoxNest, structures: Alike) -> FloatArray:
    """(V, A) 0 for arrays that are read from copies, whose elements lie in the order of their use; 1 for the others.
    `structures`: alike in their copies."""
    place = {name: a for a, name in enumerate(nest.arrays)}

    def of(structure: NestLoops) -> FloatArray:
        found = np.ones(len(nest.arrays))
        for pack in structure.packs:
            found[place[structure.operand(pack.operand).array]] = 0.0
        return found

    return structures.asked(len(nest.arrays), of)


def late_seconds(nest: BoxNest, pieces: FloatArray, machine: Machine, level: int) -> FloatArray:
    """(V, A) seconds that a byte takes longer to come into a cache, by its place in the hierarchy, since pieces of so
    many bytes begin where no prefetcher has been. What is written waits in the store buffer instead of the core."""
    below = machine.caches[level + 1] if level + 1 < len(machine.caches) else None
    if below is not None and below.level < LATE_FROM:
        return np.zeros_like(pieces)
    latency = machine.memory.latency_ns * 1e-9 if below is None else machine.seconds(below.latency_cycles)
    written = {access.array for access in nest.accesses if access.write}
    read = np.array([0.0 if name in written else 1.0 for name in nest.arrays])
    return np.asarray(read * latency / UNDER_WAY / np.maximum(pieces, machine.caches[level].line_bytes))


def unfollowed(nest: BoxNest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> FloatArray:
    """(V, A) seconds that a byte from memory takes longer than at the thread's bandwidth."""
    place = {name: a for a, name in enumerate(nest.arrays)}
    memory: dict[object, float] = {}

    def of(structure: NestLoops) -> FloatArray:
        found = np.zeros(len(nest.arrays))
        if structure.kernel is None or structure.over_segment:
            return found
        for role, block in (("A", structure.kernel.rows), ("B", structure.kernel.columns)):
            packs = [pack for pack in structure.packs if pack.operand == role]
            column = place.get(structure.operand(role).array)  # none: what the array's boxes are is not known
            if column is None or block is None or any(pack.function for pack in packs):
                continue
            together = _together(structure, block, packs)
            key = (role, block.iterator, structure.kernel.reductions, together)
            if key not in memory:
                memory[key] = _of_operand(nest, structure, role, together, machine, threads)
            found[column] = max(found[column], memory[key])
        return found

    return Alike.by(_copies, structures).asked(len(nest.arrays), of)


def _copies(structure: NestLoops) -> object:
    """The copies that a structure makes, and where among its loops."""
    return structure.packs and (id(structure.loops), *((p.operand, p.after, p.function) for p in structure.packs))


def _together(structure: NestLoops, block: Loop, packs: Sequence[Packed]) -> int:
    """Iterations of a loop of the block that are read at once: by the microkernel, or by what makes a copy."""
    found = block.within or 1
    for pack in packs:
        around = [x.step for x in structure.loops[: structure.pack_depth(pack)] if x.iterator == block.iterator]
        found = max(found, min(around, default=structure.nest.counts[block.iterator].extent or found))
    return found


def _of_operand(nest: BoxNest, structure: NestLoops, role: str, together: int, machine: Machine, threads: int) -> float:
    kernel, operand = structure.kernel, structure.operand(role)
    assert kernel is not None
    block = kernel.rows if role == "A" else kernel.columns
    assert block is not None
    size, line = nest.element_bytes[operand.array], machine.caches[-1].line_bytes
    apart = abs(known(operand.strides[block.iterator])) * size
    if apart >= PAGE_BYTES:
        return 0.0
    starts = np.zeros(1, dtype=np.int64)
    for loop in kernel.reductions:
        trips = min(n for n in (loop.within, structure.nest.counts[loop.iterator].extent, _MOST_STEPS) if n is not None)
        trips = min(trips, max(1, _MOST_STEPS // len(starts)))
        starts = np.add.outer(starts, np.arange(trips) * known(operand.strides[loop.iterator])).ravel()
    starts = np.unique(starts) * size
    length = max(size, together * apart)
    runs = 1 + int((np.diff(starts) >= max(length + line, PAGE_BYTES)).sum())
    if runs <= STREAMS:
        return 0.0
    lines = max(1.0, len(starts) * length / runs / line)
    first = machine.memory.latency_ns * 1e-9 / UNDER_WAY
    each = first * (NEXT if runs <= SOME * STREAMS else (1 + (lines - 1) * NEXT) / lines)
    return max(0.0, each / line - 1 / machine.memory_bandwidth(threads))
