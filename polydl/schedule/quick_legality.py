"""Legality of a nest's structures from direction vectors: quick enough for every variant of a space.

Sound: what it accepts, the exact check of dependences.legality accepts too. It may refuse a tiling that is legal only
because of the sizes of its tiles.
"""

from __future__ import annotations

from polydl.dependences.directions import NestLegality
from polydl.dependences.legality import Signs
from polydl.schedule.loops import Loop, NestLoops


def _last_pieces(structure: NestLoops) -> dict[str, Loop]:
    """Per iterator, the loop outside of the microkernel that fixes its value; absent when it goes on inside."""
    last = {loop.iterator: loop for loop in structure.loops}
    for loop in structure.inner:
        last.pop(loop.iterator, None)
    return last


def is_legal(structure: NestLoops, legality: NestLegality) -> bool:
    """Whether every dependence stays in order, and none is carried by a parallel loop."""
    place = {iterator: d for d, iterator in enumerate(structure.nest.loops)}
    last = _last_pieces(structure)
    inside = {loop.iterator for loop in structure.inner}
    in_order = structure.kernel.reductions if structure.kernel is not None and structure.steps else ()
    # Two accumulations into one element must not be in different accumulators of one register block.
    held = [place[loop.iterator] for loop in structure.held]
    return (
        all(_keeps_order(structure, signs, place, last, inside, in_order) for signs in legality.ordered)
        and all(
            _keeps_apart(structure, signs, place, last, structure.summed if signs not in legality.exclusive else "")
            for signs in legality.concurrent
        )
        and all(signs[d] == 0 for signs in legality.concurrent for d in held)
    )


def _keeps_order(
    structure: NestLoops,
    signs: Signs,
    place: dict[str, int],
    last: dict[str, Loop],
    inside: set[str],
    in_order: tuple[Loop, ...],
) -> bool:
    """`in_order`: the loops inside of the microkernel whose iterations it runs one after the other."""
    for loop in structure.loops:
        sign = signs[place[loop.iterator]]
        if sign < 0:
            return False
        if sign > 0 and last.get(loop.iterator) is loop:
            return True
        # A tile loop may leave both ends in one tile: what is inside then decides.
    ordered = {loop.iterator for loop in in_order}
    if any(signs[place[i]] for i in inside - ordered):
        return False
    return next((signs[place[loop.iterator]] > 0 for loop in in_order if signs[place[loop.iterator]]), True)


def _keeps_apart(structure: NestLoops, signs: Signs, place: dict[str, int], last: dict[str, Loop], summed: str) -> bool:
    """`summed`: the loop whose blocks have accumulators of their own, for a dependence between accumulations."""
    if structure.nowait and not _stays(structure, signs, place):
        return False
    started = False  # on a grid no thread waits for another before the last parallel loop has ended
    for loop in structure.loops:
        sign = signs[place[loop.iterator]]
        if loop.name in structure.parallel:
            if sign and loop.name != summed:
                return False
        elif sign and last.get(loop.iterator) is loop and not (structure.grid and started):
            return True
        started = started or loop.name in structure.parallel
    return True


def _stays(structure: NestLoops, signs: Signs, place: dict[str, int]) -> bool:
    """Whether what the loops around the parallel ones of a team carry is covered by a barrier further in, or on one
    thread (see `schedule.teams`). Only rectangular nests without partial tiles have the same iterations each time."""
    names = [loop.name for loop in structure.loops]
    covered = max(map(names.index, structure.barriers), default=0)
    extents = {i: count.extent for i, count in structure.nest.counts.items()}
    alike = structure.nest.box and all(
        loop.within is None or (extent := extents[loop.iterator]) is None or extent % loop.within == 0
        for loop in structure.loops
    )
    static = structure.omp_schedule.partition(",")[0] in ("", "static")
    moves = any(signs[place[structure.loop(name).iterator]] for name in structure.parallel)
    carried = any(signs[place[loop.iterator]] for loop in structure.loops[covered : structure.parallel_positions[0]])
    return not carried or (static and alike and not moves)
