"""Estimates the time in the core alone, with all data in the first-level cache."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from polydl.dependences.nests import Nest
from polydl.kernels.families import block_cycles
from polydl.model.scop import Assignment, Scop
from polydl.rank.instruction_set import target_isa
from polydl.rank.plain import LOOP_CYCLES, Inner, Work, cycles_of_compiler, in_loop_around
from polydl.rank.ranker import FloatArray
from polydl.rank.slanted import NOTHING, Left, left_out
from polydl.schedule.loops import NestLoops
from polydl.target import Machine
from polydl.target.isa import Isa

KEPT = 0.5
"""The part of a cache up to which it keeps what a table leads to, in no order."""
BEYOND = 2
"""Lines that are fetched in vain behind each run of columns that a table leads to."""


def kernel_cycles(
    structure: NestLoops, work: Work, instances: float, calls: float, machine: Machine, left: Left = NOTHING
) -> float:
    """Cycles of microkernel calls that run so many instances of a nest's statement, all threads together, those that it
    leaves out included.

    `calls`: the instances over those of a whole block. The rows and columns are cut into blocks over the nest's whole
    extents, or over those of a tile.
    """
    arithmetic, stores, each_part = _call_cycles(structure, work, instances, machine, left)
    return arithmetic + calls * (stores + _parts_counted(structure) * each_part)


def _call_cycles(
    structure: NestLoops, work: Work, instances: float, machine: Machine, left: Left
) -> tuple[float, float, float]:
    """Cycles of the arithmetic of all calls, with what is left out; of the stores of one call; and of what
    each part of a block takes beside."""
    kernel = structure.kernel
    assert kernel is not None
    row_extent, column_extent = (
        1 if loop is None else _extent(structure, loop.iterator) for loop in (kernel.rows, kernel.columns)
    )
    steps = instances / (row_extent * column_extent)
    cycles = block_cycles(structure, target_isa(machine), (row_extent, column_extent))
    coming = column_extent * _table_cycles(structure, work.scop, machine)
    whole, rest = divmod(row_extent, kernel.m)
    own = [cycles.step * rows / row_extent for rows in (kernel.m, rest)]
    arithmetic = steps * (whole * max(own[0], coming) + (rest > 0) * max(own[1], coming))
    arithmetic += left.share * (instances * left.cycles - arithmetic)
    # The reduction loop's exit is mispredicted; for a part of a block as well.
    return arithmetic, cycles.stores, machine.call_cycles + cycles.drain + LOOP_CYCLES


def _table_cycles(structure: NestLoops, scop: Scop, machine: Machine) -> float:
    """Cycles in which an element of B comes that a table leads to, for each block of rows anew: from the cache that
    keeps the columns of the array that the rows of the sparse matrix pass over, or from memory. 0 for other operands,
    and for what the first cache keeps."""
    found = structure.nest.contraction
    assert found is not None
    b = structure.operand("B")
    if not any(one.left_table if b is found.left else one.right_table for one in found.within):
        return 0.0
    tile, extent = columns_at_once(structure)
    run = tile * b.element.bytes
    size = scop.arrays[b.array].layout.size
    bytes_ = math.inf if size is None else size / extent * run
    # Threads that share out the columns are each at others.
    apart = bool(structure.parallel) and structure.parallel_positions[0] == 0 and tile < extent
    tiles = extent / tile if apart else 1.0
    kept = (cache for cache in machine.caches if bytes_ * min(tiles, cache.shared_by_cores) <= cache.usable * KEPT)
    holding = next(kept, None)
    if holding is not None and holding.level == 1:
        return 0.0
    cycles = b.element.bytes * (1 + BEYOND * machine.caches[0].line_bytes / run)
    if holding is None:
        return cycles * machine.frequency_ghz / machine.memory.bandwidth_gbs
    return cycles / holding.bandwidth_bytes_per_cycle


def columns_at_once(structure: NestLoops) -> tuple[int, int]:
    """Columns for which all rows run before the next ones, in tiles that are outermost; and all columns."""
    kernel = structure.kernel
    if kernel is None or kernel.columns is None:
        return 1, 1
    columns = kernel.columns.iterator
    outermost = itertools.takewhile(lambda loop: loop.iterator == columns, structure.loops)
    extent = _extent(structure, columns)
    return min([extent, *(loop.step for loop in outermost)]), extent


def _parts_counted(structure: NestLoops) -> float:
    """Blocks over whole blocks' worth of iterations: more than one where blocks do not divide the extents."""
    steps: dict[str, int] = {}
    for loop in structure.loops:
        steps[loop.iterator] = min(loop.step, steps.get(loop.iterator, loop.step))
    ratio = 1.0
    for iterator, step in steps.items():
        blocks = _extent(structure, iterator) / step
        ratio *= math.ceil(blocks) / blocks
    return ratio


def _extent(structure: NestLoops, iterator: str) -> int:
    """Iterations of an iterator's loop that is cut into blocks."""
    extent = structure.nest.counts[iterator].extent or 1
    if structure.nest.box:
        return extent
    pieces_ = [loop for loop in structure.loops if loop.iterator == iterator and loop.within is not None]
    return min([extent, *(loop.within or extent for loop in pieces_)])


def _plain_cycles(
    works: Sequence[Work], structure: NestLoops, full: FloatArray, target: Isa, memory: dict[object, float]
) -> float:
    """Cycles of a perfect nest of plain loops, all threads together. `full`: iterations of each loop."""
    last = structure.loops[-1].iterator if structure.loops else ""
    trips = float(full[-1]) if len(full) else 1.0
    rounds = _rounds(works[0], structure, full) if len(works) == 1 else 1.0
    outer = structure.loops[-2] if len(full) > 1 else None
    trips_around = float(full[-2]) if outer is not None else 1.0
    key = last, trips, rounds, outer and (outer.iterator, outer.step), trips_around
    if key not in memory:
        nest = structure.nest
        inner = [Inner(work, _step(nest, work, last), (1.0,) * len(work.rows), 1.0) for work in works]
        around = []
        if outer is not None:
            steps = (tuple(outer.step * x for x in _step(nest, work, outer.iterator)) for work in works)
            around = [in_loop_around(one, step, trips) for one, step in zip(inner, steps, strict=True)]
        memory[key] = cycles_of_compiler(inner, around, (trips_around, trips), target, rounds)
    return memory[key] * max(work.instances for work in works)


def _rounds(work: Work, structure: NestLoops, full: FloatArray) -> float:
    """How often the innermost loop of a nest runs before the sum of integers in it is put together; 1 of others."""
    body, found = work.statement.body, 1.0
    if not work.regroups or not isinstance(body, Assignment):
        return found
    for place in reversed(range(len(structure.loops) - 1)):
        step = _step(structure.nest, work, structure.loops[place].iterator)
        if structure.loops[place].name in structure.parallel or work.moves(step)[body.target] != 0:
            break
        found *= float(full[place])
    return found


def _step(nest: Nest, work: Work, last: str) -> tuple[float, ...]:
    """By how much the iterators move from one iteration of the innermost loop to the next."""
    sign = -1 if last in work.statement.descending else 1
    return tuple(float(nest.counts[i].stride * sign) if i == last else 0.0 for i in work.statement.iterators)


def before(trips: FloatArray) -> FloatArray:
    """(V, D + 1) how often what is inside of the first d loops runs; `trips` (V, D)."""
    return np.concatenate([np.ones((len(trips), 1)), np.cumprod(trips, axis=1)], axis=1)


def compute_seconds(
    scop: Scop, nest: Nest, structures: Sequence[NestLoops], full: FloatArray, mine: FloatArray, machine: Machine
) -> FloatArray:
    """(V,) seconds in the core of one thread, of a perfect nest. `full` and `mine` (V, D): iterations of each loop, on
    average each time that it is entered, those inside the microkernel last; in all and of one thread."""
    target = target_isa(machine)
    works = [Work(scop, s) for s in nest.statements]
    memory: dict[object, float] = {}
    calls_of: dict[object, tuple[float, float, float]] = {}
    parts: dict[int, float] = {}
    around = before(full)
    result = np.empty(len(structures))
    share = np.prod(mine, axis=1) / np.prod(full, axis=1)
    for v, structure in enumerate(structures):
        outer = len(structure.loops)
        if structure.kernel is not None:
            table = (columns_at_once(structure), structure.parallel) if structure.over_segment else None
            key = id(structure.kernel), 0 if nest.box else id(structure.loops), table
            if key not in calls_of:
                left = left_out(structure, works[0], machine)
                calls_of[key] = _call_cycles(structure, works[0], works[0].instances, machine, left)
            arithmetic, stores, each_part = calls_of[key]
            if id(structure.loops) not in parts:
                parts[id(structure.loops)] = _parts_counted(structure)
            spent = arithmetic + float(around[v, outer]) * (stores + parts[id(structure.loops)] * each_part)
        else:
            spent = _plain_cycles(works, structure, full[v, :outer], target, memory)
        result[v] = machine.seconds(spent)
    return np.asarray(result * share)
