"""What a microkernel leaves to plain loops: the blocks at the slanted edges of a domain, which are no boxes."""

from __future__ import annotations

from dataclasses import dataclass

from polydl.base.errors import QuotaExceeded
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.rank.plain import Inner, Work, iteration_cycles, way_of_compiler
from polydl.schedule.kernel_call import kernel_call
from polydl.schedule.structure import Loop, Structure
from polydl.target.isa import Isa

_OPERATIONS = 2_000_000
"""Of isl, for one kernel's blocks: a hundred times the usual."""
_BUDGET = 10_000
_PART = 0.4
"""Of a block's box that an edge through it leaves, on average."""


@dataclass(frozen=True, slots=True)
class Left:
    """Instances that run in plain loops beside a microkernel."""

    share: float
    """Of all instances."""
    cycles: float
    """Of one such instance."""


NOTHING = Left(0.0, 0.0)


def left_plain(structure: Structure, work: Work, target: Isa) -> Left:
    """What a structure's microkernel leaves out. Of where blocks begin and end, only the microkernel decides: tiles are
    whole numbers of blocks."""
    kernel = structure.kernel
    if structure.nest.box or kernel is None:
        return NOTHING
    key = tuple((loop.iterator, loop.within) for loop in kernel.all)
    if key not in work.left:
        work.left[key] = _left(structure, work, target)
    found: Left = work.left[key]
    return found


def _left(structure: Structure, work: Work, target: Isa) -> Left:
    kernel, nest = structure.kernel, structure.nest
    assert kernel is not None
    inside = {loop.iterator: loop for loop in kernel.all}
    around = tuple(
        Loop(iterator, iterator, 1 if loop is None else loop.within or 1, None)
        for iterator in nest.loops
        if (loop := inside.get(iterator)) is None or loop.within is not None
    )
    (statement,) = nest.statements
    try:
        with quota(f"the blocks of {nest.name}", _OPERATIONS):
            call = kernel_call(Structure(nest, around, kernel=kernel), statement)
        every, boxes = (count(blocks, _OPERATIONS, _BUDGET) for blocks in (call.blocks, call.domain))
    except QuotaExceeded:
        return NOTHING
    slanted = max(0.0, (every.lower + every.upper - boxes.lower - boxes.upper) / 2)
    whole = (boxes.lower + boxes.upper) / 2
    share = _PART * slanted / (whole + _PART * slanted) if slanted else 0.0
    last = kernel.all[-1]
    extent = last.within or nest.counts[last.iterator].extent or 1
    sign = -1 if last.iterator in statement.descending else 1
    step = tuple(float(nest.counts[i].stride * sign) if i == last.iterator else 0.0 for i in statement.iterators)
    inner = [Inner(work, step, (1.0,) * len(work.rows), 1.0)]
    return Left(share, iteration_cycles(inner, way_of_compiler(inner, target), float(extent), target))
