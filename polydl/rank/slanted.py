"""What a microkernel leaves out: the blocks at the slanted edges of a domain, which are no boxes. Their rows run in
calls of their own (schedule.kernel_call.edge_rows)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from polydl.base.by_identity import once_for_each
from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import Nest
from polydl.kernels.contraction_blocks import Block
from polydl.kernels.families import block_cycles
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.rank.instruction_set import target_isa
from polydl.rank.plain import LOOP_CYCLES, Inner, Work, iteration_cycles, way_of_compiler
from polydl.schedule.kernel_call import blocks_of
from polydl.schedule.loops import KernelLoops, Loop, NestLoops
from polydl.target import Machine

_OPERATIONS = 2_000_000
"""Of isl, for one kernel's blocks: a hundred times the usual."""
_BUDGET = 10_000
_PART = 0.4
"""Of a block's box that an edge through it leaves: a half where blocks are square, less where they are wide."""


@dataclass(frozen=True, slots=True)
class Left:
    """Instances that a microkernel leaves out."""

    share: float
    """Of all instances."""
    cycles: float
    """Of one such instance."""


NOTHING = Left(0.0, 0.0)


def left_out(structure: NestLoops, work: Work, machine: Machine) -> Left:
    """What a structure's microkernel leaves out. Of where blocks begin and end, only the microkernel decides: tiles are
    whole numbers of blocks."""
    kernel = structure.kernel
    if structure.nest.box or kernel is None:
        return NOTHING
    key = tuple((loop.iterator, loop.within) for loop in kernel.all)
    if key not in work.left:
        work.left[key] = _left(structure, work, machine)
    found: Left = work.left[key]
    return found


def _left(structure: NestLoops, work: Work, machine: Machine) -> Left:
    kernel, nest = structure.kernel, structure.nest
    assert kernel is not None
    try:
        every, boxes = (count(blocks, _OPERATIONS, _BUDGET) for blocks in _blocks(nest, kernel, work.scop.sizes))
    except QuotaExceeded:
        return NOTHING
    slanted = max(0.0, (every.lower + every.upper - boxes.lower - boxes.upper) / 2)
    if not slanted:
        return NOTHING
    share = _PART * slanted / ((boxes.lower + boxes.upper) / 2 + _PART * slanted)
    return Left(share, _plain(structure, work, machine) if kernel.rows is None else _in_rows(structure, machine))


def _blocks(nest: Nest, kernel: KernelLoops, sizes: Mapping[str, int]) -> tuple[isl.Set, isl.Set]:
    """All blocks, and those that are boxes: found once for all sizes of a program, where iterations are counted from
    the same ones at each. Raises QuotaExceeded."""
    general = nest.symbolic
    if general is None or any(_origin(general, loop) != _origin(nest, loop) for loop in nest.loops):
        return _found(nest, kernel)
    known = _known(general)
    key = tuple((loop.iterator, loop.within) for loop in kernel.all)
    if key not in known:
        known[key] = _found(general, kernel)
    every, boxes = known[key]
    return isl.at_values(every, sizes), isl.at_values(boxes, sizes)


@once_for_each
def _known(nest: Nest) -> dict[object, tuple[isl.Set, isl.Set]]:
    """The blocks of a nest with its sizes as parameters, by the loops of the microkernel."""
    return {}


def _origin(nest: Nest, loop: str) -> tuple[int, int]:
    return nest.counts[loop].first, nest.counts[loop].stride


def _found(nest: Nest, kernel: KernelLoops) -> tuple[isl.Set, isl.Set]:
    inside = {loop.iterator: loop for loop in kernel.all}
    around = tuple(
        Loop(iterator, iterator, 1 if loop is None else loop.within or 1, None)
        for iterator in nest.loops
        if (loop := inside.get(iterator)) is None or loop.within is not None
    )
    (statement,) = nest.statements
    with quota(f"the blocks of {nest.name}", _OPERATIONS):
        made = blocks_of(NestLoops(nest, around, kernel=kernel), statement, kernel.all)
    return made.every, made.boxes.coalesce()


def _in_rows(structure: NestLoops, machine: Machine) -> float:
    """Cycles of an instance in a call for one row of a block that is cut."""
    kernel = structure.kernel
    assert kernel is not None
    extents = structure.nest.counts
    steps = math.prod(loop.within or extents[loop.iterator].extent or 1 for loop in kernel.reductions)
    cycles = block_cycles(structure, target_isa(machine), (1, kernel.n), Block(1, kernel.n))
    arithmetic = steps * cycles.step
    call = machine.call_cycles + cycles.drain + LOOP_CYCLES
    return (arithmetic + call) / (steps * kernel.n * _PART)


def _plain(structure: NestLoops, work: Work, machine: Machine) -> float:
    """Cycles of an instance in plain loops."""
    kernel, nest, target = structure.kernel, structure.nest, target_isa(machine)
    assert kernel is not None
    last, (statement,) = kernel.columns, nest.statements  # innermost there (schedule.as_tree)
    extent = last.within or nest.counts[last.iterator].extent or 1
    sign = -1 if last.iterator in statement.descending else 1
    step = tuple(float(nest.counts[i].stride * sign) if i == last.iterator else 0.0 for i in statement.iterators)
    inner = [Inner(work, step, (1.0,) * len(work.rows), 1.0)]
    return iteration_cycles(inner, way_of_compiler(inner, target), float(extent), target)
