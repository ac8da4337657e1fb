"""`traffic`: predicted seconds from the bytes that move between cache levels and the microkernel's own speed.

An execution-cache-memory model (Hofmann, Treibig, Hager et al.: "Quantifying performance bottlenecks of stencil
computations using the execution-cache-memory model", ICS 2015) with LRU reuse decided loop by loop from footprints:
a loop keeps in a cache what it reuses when one of its iterations touches no more than the cache holds. Pages in the
TLB are counted the same way (rank.pages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydl.dependences.nests import Nest
from polydl.locality.batch import BoxAnalysis
from polydl.locality.boxes import BoxNest, LoopBatch
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.compute import compute_seconds
from polydl.rank.curves import along_curves, curve_positions
from polydl.rank.pages import translation_seconds
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.summing import copies_bytes, summing_seconds
from polydl.schedule.structure import Structure
from polydl.schedule.transforms import Pack
from polydl.target import CacheLevel, Machine

OVERLAP = 2.5
"""Exponent of the norm that joins the times of core and levels: 1 adds them up (no overlap), infinity takes the
longest (full overlap). 2.5 orders measured variants best: over 91 convolutions the first choice reaches 0.937 of the
best measured with it, 0.930 with 2 and 0.916 with 3, the best of five 0.976, 0.965 and 0.975 (Zen 5; the data of
experiments/collect.py)."""


@dataclass(frozen=True, slots=True)
class _Loops:
    """Trip counts of a batch as one thread sees them."""

    batch: LoopBatch
    trips: FloatArray
    """(V, D) iterations of a loop that one thread runs; fractions spread what does not divide."""
    imbalance: FloatArray
    """(V,) time of the busiest thread over the mean."""
    forks: FloatArray
    """(V,) times that threads are forked."""


def _thread_loops(batch: LoopBatch, threads: int) -> _Loops:
    trips = batch.trip.astype(np.float64)
    left = np.full(len(batch), float(threads))
    work = np.ones(len(batch))
    outside = np.ones(len(batch))
    for d in range(batch.depth):
        shared = batch.parallel[:, d]
        work = np.where(shared, work * trips[:, d], work)
        taken = np.minimum(left, trips[:, d])
        trips[:, d] = np.where(shared, trips[:, d] / taken, trips[:, d])
        left = np.where(shared, left / taken, left)
        entered = batch.parallel[:, : d + 1].any(axis=1)
        outside = np.where(entered, outside, outside * trips[:, d])
    any_parallel = batch.parallel.any(axis=1)
    balance = np.where(any_parallel, np.ceil(work / threads) * np.minimum(work, threads) / work, 1.0)
    # Fewer iterations than threads: the rest idles, which the trips above say already.
    return _Loops(batch, trips, balance, np.where(any_parallel, outside, 0.0))


def _growth(footprint: FloatArray, full: FloatArray, mine: FloatArray) -> FloatArray:
    """By what a thread's share of a loop's iterations multiplies the footprint of one of them.

    `footprint` (V, D + 1, A), `full` and `mine` (V, D): all the loop's iterations, and those of one thread.
    """
    ratio = footprint[:, :-1, :] / np.maximum(footprint[:, 1:, :], 1.0)
    share = np.where(full > 1, (mine - 1) / np.maximum(full - 1, 1), 0.0)
    return np.asarray(1.0 + (ratio - 1.0) * share[:, :, None])


def _inflation(nest: BoxNest, structures: Sequence[Structure], cache: CacheLevel) -> FloatArray:
    """(V, A) by what large power-of-two strides enlarge an operand's footprint in a cache of few sets.

    Rows that start a multiple of sets * line apart compete for the same sets: with `used` of the cache's sets the
    operand fits only `used / sets` of the ways' capacity.
    """
    place = {name: a for a, name in enumerate(nest.arrays)}
    result = np.ones((len(structures), len(nest.arrays)))
    memory: dict[tuple[object, ...], tuple[int, float]] = {}
    for v, structure in enumerate(structures):
        if structure.kernel is None:
            continue
        packed = {p.operand for p in structure.packs}
        for role in ("A", "B"):
            if role in packed:
                continue
            key = (role, structure.kernel.columns, structure.kernel.rows, structure.kernel.n, structure.inside[-1])
            if key not in memory:
                memory[key] = _operand_inflation(nest, structure, role, cache, place)
            index, factor = memory[key]
            result[v, index] = max(result[v, index], factor)
    return result


def _operand_inflation(
    nest: BoxNest, structure: Structure, role: str, cache: CacheLevel, place: dict[str, int]
) -> tuple[int, float]:
    operand = structure.operand(Pack(role, ""))
    size = nest.element_bytes[operand.array]
    kernel = structure.kernel
    assert kernel is not None
    last = structure.inside[-1].iterator
    rows = structure.inside[0].iterator
    if role == "B":
        apart, run, count = abs(operand.strides[last]) * size, kernel.n * size, structure.nest.counts[last].extent or 1
    else:
        inner = abs(operand.strides[last])
        length = min(structure.inside[-1].within or (structure.nest.counts[last].extent or 1), 4096)
        apart, run, count = abs(operand.strides[rows]) * size, length * size if inner == 1 else size, kernel.m
    if apart <= run:
        return place[operand.array], 1.0
    lines = max(1, run // cache.line_bytes)
    distinct = cache.sets // np.gcd(cache.sets, max(1, apart // cache.line_bytes))
    used = min(cache.sets, int(distinct) * lines, count * lines)
    wanted = min(cache.sets, count * lines)
    return place[operand.array], float(wanted) / used


def level_bytes(
    footprint: FloatArray,
    bytes_of: FloatArray,
    loops: _Loops,
    cache: CacheLevel,
    threads: int,
    inflation: FloatArray,
    curves: dict[int, int] | None = None,
) -> FloatArray:
    """(V, A) bytes that one thread moves into a cache level, all data of the nest warm in it if it fits.

    `footprint` (V, D + 1, A) elements, `bytes_of` (A,); `curves`: see rank.curves.
    """
    sizes = (footprint * bytes_of * inflation[:, None, :]).sum(axis=2)
    sharers = min(threads, cache.shared_by_cores)
    if sharers > 1:
        # Inside the parallel loops each sharer has a working set of its own.
        inside = np.zeros_like(sizes, dtype=np.bool_)
        inside[:, 1:] = np.cumsum(loops.batch.parallel, axis=1) > 0
        sizes = np.where(inside, np.minimum(sizes * sharers, np.maximum(sizes[:, :1], sizes)), sizes)
    # One way is left to what streams through (Low et al., "Analytical modeling is enough for high-performance BLIS",
    # TOMS 2016, equations for kc and mc).
    usable = cache.bytes * (cache.ways - 1) / cache.ways
    kept = sizes[:, 1:] <= usable
    growth = _growth(footprint, loops.batch.trip.astype(np.float64), loops.trips)
    factors = np.where(kept[:, :, None], growth, loops.trips[:, :, None])
    if curves:
        inflated = footprint * inflation[:, None, :]
        along_curves(factors, inflated, bytes_of, loops.batch, loops.trips, curves, cache, sharers)
    moved = footprint[:, -1, :] * np.prod(factors, axis=1)
    warm = sizes[:, :1] <= usable
    return np.asarray(np.where(warm, 0.0, moved * bytes_of))


def _packing_seconds(
    nest: BoxNest, structures: Sequence[Structure], footprint: FloatArray, loops: _Loops, machine: Machine, threads: int
) -> tuple[FloatArray, FloatArray]:
    """(V,) seconds of one thread's copies, and forks for shared ones. A copy reads and writes at the speed of the
    outermost cache, where operands worth packing lie."""
    place = {name: a for a, name in enumerate(nest.arrays)}
    rate = machine.cache_bandwidth(machine.caches[-1], threads)
    seconds = np.zeros(len(structures))
    forks = np.zeros(len(structures))
    for v, structure in enumerate(structures):
        for pack in (p for p in structure.packs if not p.function):
            array = structure.operand(pack).array
            depth = structure.pack_depth(pack)
            shared = structure.is_shared(pack) and bool(structure.parallel)
            times = float(np.prod(loops.trips[v, :depth]))
            copied = footprint[v, depth, place[array]] * nest.element_bytes[array]
            seconds[v] += times * copied * 2 / rate / (threads if shared else 1)
            forks[v] += times if shared else 0
    return seconds, forks


class TrafficRanker:
    """Predicted seconds. See the module's documentation."""

    name = "traffic"

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[Structure], machine: Machine, threads: int) -> Scored:
        """Scores in seconds; features in seconds and bytes, per thread."""
        box = box_nest(scop, nest, hull=True)
        if box is None or not box.accesses:
            flat = np.arange(len(structures), dtype=np.float64)
            return Scored(flat, {})
        batch = loop_batch(box, structures)
        loops = _thread_loops(batch, threads)
        footprint = BoxAnalysis(box).footprints(batch).astype(np.float64)
        core = compute_seconds(scop, nest, structures, batch.trip.astype(np.float64), loops.trips, machine)
        columns: dict[str, FloatArray] = {"core_seconds": core}
        joined = core**OVERLAP
        written = np.array([2.0 if any(a.write and a.array == n for a in box.accesses) else 1.0 for n in box.arrays])
        bytes_of = np.array([float(box.element_bytes[n]) for n in box.arrays])
        curves = curve_positions(structures)
        for index, cache in enumerate(machine.caches):
            inflation = _inflation(box, structures, cache)
            moved = (level_bytes(footprint, bytes_of, loops, cache, threads, inflation, curves) * written).sum(axis=1)
            if index + 1 < len(machine.caches):
                rate = machine.cache_bandwidth(machine.caches[index + 1], threads)
            else:
                rate = machine.memory_bandwidth(threads)
            columns[f"into_L{cache.level}_bytes"] = moved
            joined = joined + (moved / rate) ** OVERLAP
        translation = translation_seconds(box, batch, structures, loops.trips, machine)
        columns["translation_seconds"] = translation
        joined = joined + translation**OVERLAP
        packing, packing_forks = _packing_seconds(box, structures, footprint, loops, machine, threads)
        columns["packing_seconds"] = packing
        summing = summing_seconds(copies_bytes(box, structures, footprint[:, 0, :]), machine, threads)
        columns["summing_seconds"] = summing
        columns["imbalance"] = loops.imbalance
        columns["forks"] = loops.forks + packing_forks
        seconds = (
            joined ** (1 / OVERLAP) * loops.imbalance
            + packing
            + summing
            + columns["forks"] * machine.parallel_region_us * 1e-6
        )
        columns["predicted_seconds"] = seconds
        return Scored(seconds, columns)
