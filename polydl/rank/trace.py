"""`trace`: per thread the trace of tensor slices that the microkernel calls touch, through LRU stacks of the caches.

PARLOOPER's performance model (Georganas et al., "Harnessing Deep Learning and HPC Kernels via High-Level Loop and
Tensor Abstractions on CPU Architectures", 2023): each call touches one slice of each operand, whole; an LRU stack of
slices says in which cache (up to three levels, each with a size and a bandwidth) or whether in memory a slice lies; a
call takes the longer of its arithmetic and of the transfer of its slices from where they lie; a thread takes the sum
of its calls, the nest the time of the slowest thread.

The trace is not walked. In a rectangular nest the previous touch of a slice is known from the loop counters, and so
is the number of slices of each operand touched in between: the stack distance of any call in closed form (`served`).
Nests of at most SAMPLES calls per thread are evaluated call by call, longer ones at SAMPLES calls spread evenly over
the box of its loops (`sampled_share` says how many of all that is; the score is then an estimate).

Departures: the trace is that of the second of two runs of the nest, since timed runs follow each other, where
PARLOOPER begins with empty caches. Slices that are written move twice. A cache that threads share is divided equally.
What the first tiles do stands for all (partial tiles count as full ones), and the trace of a thread whose share of
collapsed loops is no box is that of the smallest box that holds as many iterations. A loop that shifts a window along
another one (kj in `in[oj + kj]`) does not change slices: the rows that it moves to are those of the other loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.locality.batch import BoxAnalysis
from polydl.locality.boxes import BoolArray, BoxNest, IntArray, LoopBatch
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.compute import compute_seconds
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.summing import copies_bytes, summing_seconds
from polydl.schedule.grouping import copied_bytes
from polydl.schedule.loops import NestLoops
from polydl.target import Machine

SAMPLES = 256
"""Calls of a thread that are evaluated, at most."""

LEVELS = 3
"""Cache levels that are simulated, at most: the fastest ones, as in PARLOOPER."""

_CHUNK = 64
"""Variants evaluated together: their arrays stay in the cache of the machine that polydl runs on."""


@dataclass(frozen=True, slots=True)
class Traces:
    """What the threads of V variants execute: a box of calls each."""

    trips: IntArray
    """(V, D) iterations of each loop around the calls, in one thread; 1 where there is none."""
    moved: BoolArray
    """(V, D, A): the loop changes the slice of the operand."""
    slices: FloatArray
    """(V, A) bytes of a slice."""

    def take(self, variants: slice | npt.NDArray[np.intp]) -> Traces:
        """Some of the variants."""
        return Traces(self.trips[variants], self.moved[variants], self.slices[variants])


def sampled_calls(trips: IntArray, samples: int = SAMPLES) -> tuple[IntArray, BoolArray]:
    """(V, K, D) loop counters of the evaluated calls, and (V, K) which of them count.

    All calls in their order where there are no more than `samples`. Else a Latin hypercube of `samples` calls
    (McKay, Beckman, Conover: each loop's range is cut into that many strata, each stratum drawn once), always the same.
    """
    total = trips.prod(axis=1)
    k = np.arange(min(samples, int(total.max(initial=1))))
    index = np.minimum(k, total[:, None] - 1)
    counters = np.empty((*index.shape, trips.shape[1]), dtype=np.int64)
    for d in reversed(range(trips.shape[1])):
        index, counters[:, :, d] = np.divmod(index, trips[:, d, None])
    # The same for each loop whatever the others are, so that a variant's score doesn't depend on its neighbours.
    orders = [np.random.default_rng(d).permutation(k) for d in range(trips.shape[1])]
    strata = np.array(orders, dtype=np.int64).reshape(trips.shape[1], len(k)).T
    spread = ((strata + 0.5) / max(len(k), 1) * trips[:, None, :]).astype(np.int64)
    many = total > samples
    counters[many] = spread[many]
    return counters, many[:, None] | (k < total[:, None])


def stack_bytes(traces: Traces, calls: IntArray) -> FloatArray:
    """(V, K, A) bytes of the distinct slices touched since the call's slice was last touched, itself included: the
    smallest LRU cache in which it still lies.

    `calls` (V, K, D) are loop counters in the second run of the nest, in which every slice has been touched before.
    The last touch is at the same counters of the loops that move the operand (D), and the preceding ones of the others:
    of those the innermost that isn't at 0, called r, is one less, and those inside of it are at their end; if all are
    at 0, the touch was in the run before. Since then another operand's slices were touched for counters inside of r
    behind the old ones and before the new ones: as numbers in the mixed radix of the loops that move that operand, an
    interval at the end and one at the beginning.
    """
    variants, samples, depth = calls.shape
    operands = traces.slices.shape[1]
    loops = np.arange(depth)
    result = np.zeros((variants, samples, operands))
    for o in range(operands):
        fixed = traces.moved[:, None, :, o]
        steps = np.where(~fixed & (calls > 0), loops, -1)
        r = steps.max(axis=2, initial=-1)
        old = np.where(fixed, calls, traces.trips[:, None, :] - 1)
        new = np.where(fixed, calls, 0)
        for other in range(operands):
            size, behind, before = np.ones_like(r), np.zeros_like(r), np.zeros_like(r)
            open_old = np.zeros(r.shape, dtype=np.bool_)
            open_new = np.zeros(r.shape, dtype=np.bool_)
            moves_r = np.zeros(r.shape, dtype=np.bool_)
            for d in loops:
                if (traces.trips[:, d] == 1).all():
                    continue
                inside = r < d
                moves = traces.moved[:, d, other, None]
                trip = traces.trips[:, d, None]
                moves_r |= (r == d) & moves
                # Once a loop that doesn't move the operand has room, all counters further inside are reached.
                first = np.where(open_old, 0, old[:, :, d])
                last = np.where(open_new, trip - 1, new[:, :, d])
                counted = inside & moves
                size = np.where(counted, size * trip, size)
                behind = np.where(counted, behind * trip + first, behind)
                before = np.where(counted, before * trip + last, before)
                open_old |= inside & ~moves & (old[:, :, d] < trip - 1)
                open_new |= inside & ~moves & (new[:, :, d] > 0)
            # [behind, size) and [0, before). A call touches its operands in order, so that of the two calls at the
            # ends the operands after, or before, this one are in between too.
            behind = np.where(open_old | (other > o), behind, behind + 1)
            before = np.where(open_new | (other < o), before + 1, before)
            overlap = np.where(moves_r, 0, np.maximum(before - behind, 0))
            result[:, :, o] += (size - behind + before - overlap) * traces.slices[:, None, other]
        result[:, :, o] += traces.slices[:, None, o]
    return result


def served(traces: Traces, calls: IntArray, capacity: FloatArray) -> npt.NDArray[np.int8]:
    """(V, K, A) index of the fastest cache that holds a call's slices, the number of caches for memory.

    `capacity` (V, L) bytes.
    """
    needed = stack_bytes(traces, calls)
    return np.asarray((needed[:, :, :, None] > capacity[:, None, None, :]).sum(axis=3), dtype=np.int8)


def _moves(nest: BoxNest) -> BoolArray:
    """(iterators, A): an iterator changes the slice of an array. Of the iterators of one subscript only the one that
    reaches furthest does: the others shift a window along it."""
    place = {name: a for a, name in enumerate(nest.arrays)}
    result = np.zeros((len(nest.iterators), len(nest.arrays)), dtype=np.bool_)
    for access in nest.accesses:
        for row in access.rows:
            reach = [abs(c) * (extent - 1) for c, extent in zip(row, nest.extents, strict=True)]
            if any(reach):
                result[reach.index(max(reach)), place[access.array]] = True
    return result


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """What one of the threads executes of a structure's calls."""

    trips: tuple[int, ...]
    """Iterations of each loop of the box of calls that one thread executes."""
    active: int
    """Threads with something to do."""
    calls: int
    """Of the slowest thread."""
    forks: float
    """Times that threads are forked, or wait for each other."""


def share_of(structure: NestLoops, trips: Sequence[int], threads: int) -> ThreadShare:
    """How the calls of a structure whose loops have so many iterations are shared out."""
    mine, at = list(trips), [d for d in structure.parallel_positions if d < len(trips)]
    rest = math.prod(n for d, n in enumerate(trips) if d not in at)
    if not at:
        return ThreadShare(tuple(mine), 1, rest, 0)
    forks = structure.forks(trips)
    if structure.grid:
        chunks = {axis.loop: axis.chunk for axis in structure.grid}
        for d in at:
            mine[d] = min(chunks[structure.loops[d].name], trips[d])
        cells = math.prod(-(-trips[d] // mine[d]) for d in at)
        calls = rest * math.prod(mine[d] for d in at) * -(-cells // threads)
        return ThreadShare(tuple(mine), min(threads, cells), calls, forks)
    left = threads
    for d in at:
        taken = min(left, trips[d])
        mine[d] = -(-trips[d] // taken)
        left = max(1, left // taken)
    work = math.prod(trips[d] for d in at)
    return ThreadShare(tuple(mine), min(threads, work), rest * -(-work // threads), forks)


def _packing_seconds(
    nest: BoxNest, structures: Sequence[NestLoops], cover: IntArray, trips: IntArray, machine: Machine, threads: int
) -> FloatArray:
    """(V,) seconds of one thread's copies: read and written at the speed of the outermost cache."""
    rate = machine.cache_bandwidth(machine.caches[-1], threads)
    seconds = np.zeros(len(structures))
    for v, structure in enumerate(structures):
        for pack in (p for p in structure.packs if not p.function):
            strides, depth = structure.operand(pack.operand).strides, structure.pack_depth(pack)
            times = math.prod(int(t) for t in trips[v, :depth])
            elements = math.prod(
                int(n) for i, n in zip(nest.iterators, cover[v, depth], strict=True) if strides[i] != 0
            )
            copied = elements * copied_bytes(structure, pack.operand)
            together = structure.is_shared(pack) and bool(structure.parallel)
            seconds[v] += times * copied * 2 / rate / (threads if together else 1)
            seconds[v] += times * machine.parallel_region_us * 1e-6 if together else 0.0
    return seconds


def traces_of(nest: BoxNest, structures: Sequence[NestLoops], batch: LoopBatch, footprint: IntArray) -> Traces:
    """The calls of each structure, all threads together. Without a microkernel the innermost loop is the call."""
    depth = np.array([len(s.loops) - (s.kernel is None and len(s.loops) > 0) for s in structures])
    trips = np.where(np.arange(batch.depth) < depth[:, None], batch.trip, 1)
    moved = _moves(nest)[np.maximum(batch.iterator, 0)] & (batch.iterator >= 0)[:, :, None]
    elements = footprint[np.arange(len(structures)), depth]
    return Traces(trips, moved, elements * np.array([float(nest.element_bytes[a]) for a in nest.arrays]))


class TraceRanker:
    """Predicted seconds. See the module's documentation."""

    name = "trace"

    def __init__(self, samples: int = SAMPLES) -> None:
        """`samples`: calls of a thread that are evaluated, at most."""
        self.samples = samples

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores in seconds; features: bytes that one thread's calls take from each level, and times in seconds."""
        box = box_nest(scop, nest, hull=True)
        if box is None or not box.accesses:
            return Scored(np.arange(len(structures), dtype=np.float64), {})
        batch = loop_batch(box, structures)
        footprint = BoxAnalysis(box).footprints(batch)
        whole = traces_of(box, structures, batch, footprint)
        shares = [share_of(s, trips, threads) for s, trips in zip(structures, whole.trips.tolist(), strict=True)]
        own = np.array([one.trips for one in shares], dtype=np.int64).reshape(whole.trips.shape)
        calls, forks = (np.array([float(getattr(s, name)) for s in shares]) for name in ("calls", "forks"))
        traces = Traces(own, whole.moved, whole.slices)
        full = batch.trip.astype(np.float64)
        each_call = compute_seconds(scop, nest, structures, full, full, machine) / whole.trips.prod(axis=1)
        writes = np.array([2.0 if any(a.write and a.array == n for a in box.accesses) else 1.0 for n in box.arrays])
        capacity, rate = _levels([one.active for one in shares], machine)
        mean, moved = _mean_call(traces, writes, each_call, capacity, rate, self.samples)
        packing = _packing_seconds(box, structures, batch.cover, own, machine, threads)
        total = traces.trips.prod(axis=1)
        names = [f"from_L{c.level}_bytes" for c in machine.caches[:LEVELS]] + ["from_memory_bytes"]
        columns: dict[str, FloatArray] = {n: moved[:, i] * calls for i, n in enumerate(names)}
        columns["core_seconds"] = each_call * calls
        columns["packing_seconds"] = packing
        whole_bytes = footprint[:, 0, :] * np.array([box.element_bytes[a] for a in box.arrays])
        summing = summing_seconds(copies_bytes(box, structures, whole_bytes), machine, threads)
        columns["summing_seconds"] = summing
        columns["forks"] = forks
        columns["sampled_share"] = np.minimum(self.samples / total, 1.0)
        seconds = mean * calls + packing + summing + forks * machine.parallel_region_us * 1e-6
        columns["predicted_seconds"] = seconds
        return Scored(seconds, columns, seconds=True)


def _levels(active: Sequence[int], machine: Machine) -> tuple[FloatArray, FloatArray]:
    """(V, L) bytes of each cache that a thread has, and (V, L + 1) bytes per second from each cache and memory."""
    caches = machine.caches[:LEVELS]
    capacity = np.array([[c.bytes / min(n, c.shared_by_cores) for c in caches] for n in active])
    rates = {
        n: [*(machine.cache_bandwidth(c, n) for c in caches), machine.memory_bandwidth(n)] for n in sorted(set(active))
    }
    return capacity, np.array([rates[n] for n in active])


def _mean_call(
    traces: Traces, writes: FloatArray, compute: FloatArray, capacity: FloatArray, rate: FloatArray, samples: int
) -> tuple[FloatArray, FloatArray]:
    """(V,) mean seconds of a call, and (V, L + 1) mean bytes that it takes from each level.

    `compute` (V,) seconds of a call's arithmetic. Variants with equal traces (they differ in what is packed) are
    evaluated once.
    """
    flat = traces.moved.reshape(len(traces.trips), -1)
    rows = np.concatenate([traces.trips, flat, traces.slices.astype(np.int64), capacity.astype(np.int64)], axis=1)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    mean, moved = np.empty(len(compute)), np.zeros((len(compute), rate.shape[1]))
    for start in range(0, len(first), _CHUNK):
        chosen = first[start : start + _CHUNK]
        some = traces.take(chosen)
        calls, counts = sampled_calls(some.trips, samples)
        level = served(some, calls, capacity[chosen])
        # Every variant with one of these traces.
        members = np.flatnonzero((which >= start) & (which < start + len(chosen)))
        local = which[members] - start
        lies, weight = level[local], counts[local] / counts[local].sum(axis=1, keepdims=True)
        bytes_ = (traces.slices[members] * writes)[:, None, :]
        transfer = np.zeros(lies.shape[:2])
        for index in range(rate.shape[1]):
            taken = np.where(lies == index, bytes_, 0.0).sum(axis=2)
            transfer += taken / rate[members, index, None]
            moved[members, index] = (taken * weight).sum(axis=1)
        mean[members] = (np.maximum(transfer, compute[members, None]) * weight).sum(axis=1)
    return mean, moved
