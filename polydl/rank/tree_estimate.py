"""The estimate of a schedule tree of any shape, and of what is fused into its microkernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polydl.model.scop import Scop, Statement
from polydl.rank.conflicts import again, inflation
from polydl.rank.each_once import by_copies
from polydl.rank.estimate import Estimate, Resources
from polydl.rank.estimate_steps import (
    Innermost,
    Level,
    Step,
    Threads,
    brought,
    contended,
    innermost,
    rows_around,
    shared_out,
)
from polydl.rank.footprints import Footprints, Part
from polydl.rank.instruction_set import target_isa
from polydl.rank.of_tree import Program
from polydl.rank.plain import Inner, Way, Work, iteration_cycles
from polydl.rank.ranker import FloatArray
from polydl.rank.streams import late_seconds, piece_bytes, unfollowed
from polydl.rank.summing import written_bytes
from polydl.schedule.tree import Kernel, Node, rows_of, summed_cut
from polydl.target import Machine

Far = Mapping[str, float]
"""By array the bytes that a program touches from its last use before a part of it to the end of the part. A part by
itself, again and again, where an array is missing."""


def footprints_of(scop: Scop, some: Sequence[Statement]) -> Footprints:
    """For the estimates of trees of some statements."""
    return Footprints({s.name: Work(scop, s) for s in some})


def tree_estimate(
    footprints: Footprints, tree: Node, machine: Machine, threads: int, far: Far | None = None
) -> Estimate:
    """Predicted seconds of a schedule tree: of a perfect nest without rows the same as `traffic.resources_of` says,
    more slowly. `footprints`: of its own statements; what is fused into its microkernels is not counted
    (`inside_estimate`)."""
    return estimates([prepared(footprints, tree, machine)], threads, far)[0]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schedule tree, ready for its estimate."""

    program: Program
    root: Step
    tree: Node


def prepared(footprints: Footprints, tree: Node, machine: Machine) -> Prepared:
    """A tree as steps and pieces, which is what isl is asked for."""
    program = Program(footprints, machine)
    return Prepared(program, program.steps(tree), tree)


def estimates(several: Sequence[Prepared], threads: int, far: Far | None = None) -> list[Estimate]:
    """The same (`tree_estimate`) of several trees of the same statements: what their pieces touch is found for all of
    them at once."""
    if len(several) > 1:
        first = several[0].program
        boxes = {box: None for one in several for row in one.program.rows for box in row.boxes}
        for unit in sorted({first.machine.tlb.page_bytes, *(cache.line_bytes for cache in first.machine.caches)}):
            first.footprints.touched(list(boxes), unit)
    return [_estimate(one.program, one.root, one.tree, threads, far or {}) for one in several]


def inside_estimate(
    footprints: Footprints, around: Kernel, machine: Machine, threads: int, far: Far | None = None
) -> Estimate:
    """Predicted seconds of what is fused into a microkernel. Its statements run between two calls, on a block of the
    output that is in registers: what else they touch passes by once. `footprints`: of these statements."""
    heavy, kernel = around.use, around.use.kernel
    assert kernel is not None
    sharing = threads if heavy.parallel else 1
    own = {a.array for s in heavy.nest.statements for a in s.accesses}
    other = np.array([0.0 if name in own else 1.0 for name in footprints.arrays])
    box = tuple(Part(name, tuple(round(r) for r in work.ranges)) for name, work in footprints.works.items())
    distance = np.array([(far or {}).get(name, 0.0) for name in footprints.arrays])
    moved: dict[str, FloatArray] = {}
    for cache in machine.caches:
        lines = footprints.touched([box], cache.line_bytes)[0] * other
        warm = np.maximum(lines.sum(), distance) <= cache.usable
        moved[f"L{cache.level}"] = np.array([np.where(warm, 0.0, lines) @ _passes(footprints) / sharing])
    cycles = 0.0
    for work in footprints.works.values():
        step = tuple(float(d == work.statement.depth - 1) for d in range(work.statement.depth))
        inner = Inner(work, step, (1.0,) * len(work.rows), 1.0)
        # The vectors of a block are written out one after the other, without a loop of their own.
        cycles += iteration_cycles([inner], Way.ROW, work.instances, target_isa(machine)) * work.instances
    none = np.zeros(1)
    core = np.array([machine.seconds(cycles) / sharing])
    return Resources(core, moved, {}, none, np.ones(1), none, none, none, none).estimates(machine, threads).total()


def _estimate(program: Program, root: Step, tree: Node, threads: int, far: Far) -> Estimate:
    machine, footprints = program.machine, program.footprints
    shared = shared_out(root, threads)
    bodies = list(innermost(root))
    passes = _passes(footprints, {name for rows in rows_of(tree).values() for name in rows.stream})
    distance = np.array([far.get(name, 0.0) for name in footprints.arrays])
    moved: dict[str, FloatArray] = {}
    slow: dict[Kernel | None, FloatArray] = {None: np.zeros(len(footprints.arrays))}
    for kernel in dict.fromkeys(row.kernel for row in program.rows if row.kernel is not None):
        slow[kernel] = unfollowed(footprints.nest, [kernel.use], machine, threads)[0]
    late: dict[str, FloatArray] = {}
    direct = np.array([[float(a not in program.rows[b.row].packed) for a in footprints.arrays] for b in bodies])
    for place, cache in enumerate(machine.caches):
        lines = program.touched(cache.line_bytes)
        crowding: dict[Kernel | None, FloatArray] = {None: np.ones(len(footprints.arrays))}
        times = dict(crowding)
        for kernel in dict.fromkeys(row.kernel for row in program.rows if row.kernel is not None):
            crowding[kernel] = inflation(footprints.nest, by_copies([kernel.use]), cache)[0]
            times[kernel] = again(footprints.nest, by_copies([kernel.use]), cache)[0]
        taken = lines * np.array([crowding[row.kernel] for row in program.rows])
        level = Level(lines, taken, cache.usable, min(threads, cache.shared_by_cores))
        warm = np.maximum(taken[root.row].sum(), distance) <= cache.usable
        found = brought(root, level, shared)
        into = [np.where(warm, 0.0, found[body]) for body in bodies]
        kernels = [program.rows[body.row].kernel for body in bodies]
        moved[f"L{cache.level}"] = np.array([come * times[k] @ passes for come, k in zip(into, kernels, strict=True)])
        pieces = _pieces(program, root, bodies, lines, cache.line_bytes)
        slower = direct * late_seconds(footprints.nest, pieces, machine, place)
        if cache is machine.caches[-1]:
            slower = np.maximum(slower, np.array([slow[k] for k in kernels]))
        late[f"L{cache.level}"] = (np.array(into) * slower).sum(axis=1)
    copied = sum(times * copy.bytes for copy, times in shared.copies.items())
    summed = 0.0
    if (cut := summed_cut(tree)) is not None:
        dense = footprints.touched([program.rows[root.row].box], 1)
        summed = cut.ways * written_bytes(footprints.nest, dense[0])
    first = np.array([1.0, *(0.0 for _ in bodies[1:])])
    used = Resources(
        np.array([body.seconds * shared.part[body] for body in bodies]),
        moved,
        late,
        _walks(program, root, shared, bodies),
        np.array([shared.imbalance[body] for body in bodies]),
        first * copied,
        first * summed,
        first * shared.forks,
        first * _contended(program, root, threads),
    )
    return used.estimates(machine, threads).total()


def _contended(program: Program, root: Step, threads: int) -> float:
    """Lines of which two threads write a part each."""
    if threads == 1:
        return 0.0
    line, footprints = program.machine.caches[-1].line_bytes, program.footprints
    written = np.array([float(passes == 2.0) for passes in _passes(footprints)])
    runs = footprints.runs([row.box for row in program.rows], line)
    return contended(root, runs, program.touched(line), written, threads)


def _pieces(program: Program, root: Step, bodies: Sequence[Innermost], lines: FloatArray, unit: int) -> FloatArray:
    """(bodies, arrays) `streams.piece_bytes`; `lines` (rows, arrays) bytes of the lines that rows touch."""
    runs = program.footprints.runs([row.box for row in program.rows], unit)
    around = rows_around(root)
    result = []
    for body in bodies:
        rows = list(around[body])
        depth = sum(not program.rows[row].called for row in rows) - 1
        result.append(piece_bytes(lines[None, rows], runs[None, rows], np.array([depth]))[0])
    return np.array(result)


def _bytes(program: Program, row: int, array: str) -> float:
    """Of an array's elements that a piece touches."""
    return float(program.footprints.touched([program.rows[row].box], 1)[0][program.footprints.arrays.index(array)])


def _passes(footprints: Footprints, streamed: Collection[str] = ()) -> FloatArray:
    """(arrays,) how often a line of an array passes: those that are written come and go, but go only where they are
    stored past the caches."""
    written = {a.array for a in footprints.nest.accesses if a.write}
    return np.array([2.0 if name in written and name not in streamed else 1.0 for name in footprints.arrays])


def _walks(program: Program, root: Step, shared: Threads, bodies: Sequence[Innermost]) -> FloatArray:
    """Per body the translations that one thread looks up in the page table."""
    footprints, tlb = program.footprints, program.machine.tlb
    pages = program.touched(tlb.page_bytes) / tlb.page_bytes
    for number, row in enumerate(program.rows):
        for array in row.packed:
            column = footprints.arrays.index(array)
            dense = np.ceil(_bytes(program, number, array) / tlb.page_bytes)
            pages[number, column] = min(pages[number, column], dense)
    if pages[root.row].sum() <= tlb.l2_entries:
        return np.zeros(len(bodies))
    found = brought(root, Level(pages, pages, tlb.l2_entries), shared)
    return np.array([found[body].sum() for body in bodies])
