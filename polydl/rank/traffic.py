"""`traffic`: predicted seconds from the bytes that move between cache levels and the microkernel's own speed, for many
structures of a nest at once.

An execution-cache-memory model (Hofmann, Treibig, Hager et al.: "Quantifying performance bottlenecks of stencil
computations using the execution-cache-memory model", ICS 2015) with LRU reuse decided loop by loop from footprints in
cache lines: a loop keeps in a cache what it reuses when one of its iterations touches no more than the cache holds.
Pages in the TLB are counted the same way (rank.pages). `rank.estimate_steps` says the same of one program of any shape;
where both know it, they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polydl.dependences.nests import Nest
from polydl.locality.boxes import BoxNest, LoopBatch
from polydl.locality.contiguity import UnitFootprints, unit_footprints
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.compute import before, compute_seconds
from polydl.rank.conflicts import again, inflation
from polydl.rank.curve_traffic import curve_factors, curve_positions
from polydl.rank.each_once import by_copies
from polydl.rank.estimate import Estimates, Resources
from polydl.rank.estimate_steps import borders, busiest, runs_going_on
from polydl.rank.pages import page_footprints, page_misses
from polydl.rank.plain import Work
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.streams import late_seconds, piece_bytes, read_in_place, unfollowed
from polydl.rank.summing import copies_bytes
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.schedule.as_tree import as_tree
from polydl.schedule.grouping import copied_bytes
from polydl.schedule.loops import NestLoops
from polydl.target import CacheLevel, Machine


@dataclass(frozen=True, slots=True)
class _Loops:
    """Trip counts of a batch."""

    batch: LoopBatch
    full: FloatArray
    """(V, D) iterations of a loop each time that it is entered, on average."""
    mine: FloatArray
    """(V, D) those that one thread runs; fractions spread what does not divide."""
    imbalance: FloatArray
    """(V,) time of the busiest thread over the mean."""
    forks: FloatArray
    """(V,) times that threads are forked, or wait for each other at a barrier of their team."""


def _mean_trips(batch: LoopBatch, instances: float) -> FloatArray:
    """(V, D) iterations of loops each time that they are entered, on average: partial tiles count as parts, and of a
    triangle the outermost loops have fewer."""
    entered = np.maximum(instances / batch.cover.astype(np.float64).prod(axis=2), 1.0)
    return np.asarray(entered[:, 1:] / entered[:, :-1])


def _thread_loops(batch: LoopBatch, threads: int, instances: float) -> _Loops:
    full = _mean_trips(batch, instances)
    mine = full.copy()
    left = np.full(len(batch), float(threads))
    work = np.ones(len(batch))
    outside = np.ones(len(batch))
    for d in range(batch.depth):
        shared = batch.parallel[:, d]
        work = np.where(shared, work * full[:, d], work)
        taken = np.minimum(left, full[:, d])
        mine[:, d] = np.where(shared, full[:, d] / taken, full[:, d])
        left = np.where(shared, left / taken, left)
        entered = batch.parallel[:, : d + 1].any(axis=1)
        outside = np.where(entered, outside, outside * mine[:, d])
    any_parallel = batch.parallel.any(axis=1)
    balance = np.where(any_parallel, busiest(work, threads), 1.0)
    return _Loops(batch, full, mine, balance, np.where(any_parallel, outside, 0.0))


def _growth(footprint: FloatArray, full: FloatArray, mine: FloatArray) -> FloatArray:
    """By what a thread's share of a loop's iterations multiplies the footprint of one of them.

    `footprint` (V, D + 1, A), `full` and `mine` (V, D): all the loop's iterations, and those of one thread.
    """
    ratio = footprint[:, :-1, :] / np.maximum(footprint[:, 1:, :], 1.0)
    share = np.where(full > 1, (mine - 1) / np.where(full > 1, full - 1, 1.0), 0.0)
    return np.asarray(1.0 + (ratio - 1.0) * share[:, :, None])


def level_bytes(
    lines: FloatArray,
    taken: FloatArray,
    loops: _Loops,
    cache: CacheLevel,
    threads: int,
    curves: Mapping[int, int],
    far: FloatArray,
) -> FloatArray:
    """(V, A) bytes that one thread moves into a cache level.

    `lines` (V, D + 1, A) bytes of the cache lines touched, `taken` what they take up of the cache; `curves`: see
    rank.curve_traffic; `far` (A,) bytes touched since an array was touched before the nest.
    """
    sizes = taken.sum(axis=2)
    sharers = min(threads, cache.shared_by_cores)
    if sharers > 1:
        # Inside the parallel loops each sharer has a working set of its own.
        inside = np.zeros_like(sizes, dtype=np.bool_)
        inside[:, 1:] = np.cumsum(loops.batch.parallel, axis=1) > 0
        sizes = np.where(inside, np.minimum(sizes * sharers, np.maximum(sizes[:, :1], sizes)), sizes)
    kept = sizes[:, 1:] <= cache.usable
    factors = np.where(kept[:, :, None], _growth(lines, loops.full, loops.mine), loops.mine[:, :, None])
    for v, p in curves.items():
        steps = float(loops.mine[v, p] * loops.mine[v, p + 1])
        rows, columns = float(loops.full[v, p]), float(loops.full[v, p + 1])
        outside, between, inside_ = taken[v, p : p + 3]
        factors[v, p] = curve_factors(outside, between, inside_, cache.usable / sharers, rows, columns, steps)
        factors[v, p + 1] = 1.0
    moved = lines[:, -1, :] * np.prod(factors, axis=1)
    warm = np.maximum(sizes[:, :1], far) <= cache.usable
    return np.asarray(np.where(warm, 0.0, moved))


def _packing(
    iterators: Sequence[str], structures: Sequence[NestLoops], loops: _Loops, threads: int
) -> tuple[FloatArray, FloatArray]:
    """(V,) bytes that one thread copies, and forks for shared copies. `iterators`: of the nest, as of the loops'."""
    bytes_, forks = np.zeros(len(structures)), np.zeros(len(structures))
    around = before(loops.mine)
    known: dict[tuple[int, str], tuple[float, list[bool]]] = {}
    rows: list[tuple[int, int, list[bool], float, bool]] = []
    for v, structure in enumerate(structures):
        for pack in structure.packs:
            if pack.function:
                continue
            which = id(structure.kernel), pack.operand
            if which not in known:
                strides = structure.operand(pack.operand).strides
                known[which] = copied_bytes(structure, pack.operand), [strides[i] != 0 for i in iterators]
            each, moving = known[which]
            shared = bool(structure.parallel) and structure.is_shared(pack)
            rows.append((v, structure.pack_depth(pack), moving, each, shared))
    if rows:
        at, depth, counted, bytes_each, by_all = (np.array(values) for values in zip(*rows, strict=True))
        times = around[at, depth]
        # Where the operand's elements are those of several iterations (windows that overlap), each has its own copy.
        elements = np.where(counted, loops.batch.cover[at, depth].astype(np.float64), 1.0).prod(axis=1)
        np.add.at(bytes_, at, bytes_each * times * elements / np.where(by_all, threads, 1))
        np.add.at(forks, at, np.where(by_all, times, 0.0))
    return bytes_, forks


def resources_of(
    scop: Scop,
    nest: Nest,
    structures: Sequence[NestLoops],
    machine: Machine,
    threads: int,
    far: Mapping[str, float] | None = None,
) -> Resources:
    """What structures of a perfect nest take of each resource. `far`: by array the bytes that the program touches
    from its last use before the nest to the end of the nest; the nest alone, again and again, where it is None."""
    box = box_nest(scop, nest, hull=True)
    assert box is not None
    batch = loop_batch(box, structures)
    instances = max((Work(scop, s).instances for s in nest.statements), default=1.0)
    loops = _thread_loops(batch, threads, instances)
    for v, structure in enumerate(structures):
        if structure.nowait:
            loops.forks[v] = structure.forks(loops.mine[v])
    distance = np.array([(far or {}).get(name, 0.0) for name in box.arrays])
    curves = curve_positions(structures)
    found = {
        size: unit_footprints(box, batch, size)
        for size in {1, *(cache.line_bytes for cache in machine.caches)}
        if size > 1 or any(s.packs or s.summed for s in structures)
    }
    touched = {size: each.units.astype(np.float64) * size for size, each in found.items()}
    moved: dict[str, FloatArray] = {}
    late: dict[str, FloatArray] = {}
    innermost = np.array([len(s.loops) if s.kernel is not None else batch.depth for s in structures])
    alike = by_copies(structures)
    direct = read_in_place(box, alike)
    for place, cache in enumerate(machine.caches):
        lines = touched[cache.line_bytes]
        taken = lines * inflation(box, alike, cache)[:, None, :]
        once = level_bytes(lines, taken, loops, cache, threads, curves, distance)
        moved[f"L{cache.level}"] = (once * again(box, alike, cache)) @ written_twice(box)
        pieces = piece_bytes(lines, found[cache.line_bytes].runs.astype(np.float64), innermost)
        slower = direct * late_seconds(box, pieces, machine, place)
        if cache is machine.caches[-1]:
            slower = np.maximum(slower, unfollowed(box, structures, machine, threads))
        late[f"L{cache.level}"] = (once * slower).sum(axis=1)
    dense = touched.get(1, np.zeros((len(structures), batch.depth + 1, len(box.arrays))))
    pages = page_footprints(box, batch, structures, machine.tlb.page_bytes, dense)
    copied, copy_forks = _packing(box.iterators, structures, loops, threads)
    return Resources(
        compute_seconds(scop, nest, structures, loops.full, loops.mine, machine),
        moved,
        late,
        page_misses(pages, loops.full, loops.mine, machine.tlb.l2_entries, curves),
        loops.imbalance,
        copied,
        copies_bytes(box, structures, dense[:, 0, :]),
        loops.forks + copy_forks,
        _contended(box, structures, found[machine.caches[-1].line_bytes], loops, threads),
    )


def _contended(
    box: BoxNest, structures: Sequence[NestLoops], found: UnitFootprints, loops: _Loops, threads: int
) -> FloatArray:
    """(V,) lines of which two threads write a part each, as `estimate_steps.contended`."""
    if not loops.batch.depth:
        return np.zeros(len(loops.batch))
    every = np.arange(len(loops.batch))
    first = loops.batch.parallel.argmax(axis=1)
    trips, runs, lines = loops.full[every, first], found.runs.astype(np.float64), found.units.astype(np.float64)
    going_on = runs_going_on(
        runs[every, first], runs[every, first + 1], lines[every, first], lines[every, first + 1], trips
    )
    places = [borders(s.omp_schedule, float(n), threads) for s, n in zip(structures, trips, strict=True)]
    lines_each = (going_on * (written_twice(box) - 1.0)).sum(axis=1) * np.array(places)
    return np.asarray(np.where(loops.batch.parallel.any(axis=1), lines_each * before(loops.full)[every, first], 0.0))


def estimates_of(
    scop: Scop,
    nest: Nest,
    structures: Sequence[NestLoops],
    machine: Machine,
    threads: int,
    far: Mapping[str, float] | None = None,
) -> Estimates:
    """Estimates of structures of a nest: all at once where it is perfect, with constant bounds; else one by one."""
    box = box_nest(scop, nest, hull=True) if nest.perfect else None
    if box is not None and box.accesses:
        return resources_of(scop, nest, structures, machine, threads, far).estimates(machine, threads)
    footprints = footprints_of(scop, nest.statements)
    return Estimates.of([tree_estimate(footprints, as_tree(one), machine, threads, far) for one in structures])


def written_twice(nest: BoxNest) -> FloatArray:
    """(A,) 2 for the arrays that are written, whose lines come and go again; 1 for the others."""
    written = {a.array for a in nest.accesses if a.write}
    return np.array([2.0 if name in written else 1.0 for name in nest.arrays])


class TrafficRanker:
    """Predicted seconds. See the module's documentation."""

    name = "traffic"

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores in seconds; features: their parts by resource, in seconds, and bytes of one thread."""
        return estimates_of(scop, nest, structures, machine, threads).scored()
