"""Another order of the loops."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

from polydl.base.errors import InputError
from polydl.schedule.limits import AGAIN, ILLEGAL, ORDERS, Limits
from polydl.schedule.loops import Loop, LoopTransform, NestLoops, loops_over_rows, trips
from polydl.schedule.quick_legality import is_legal


class Permute(LoopTransform, frozen=True):
    """Reorder the loops that are not inside a microkernel.

    before:    for i: for j: for k
    after:     for k: for i: for j     (order = k, i, j)
    requires:  every dependence stays lexicographically positive
    """

    order: tuple[str, ...]
    """Every loop, outermost first."""

    def applied(self, structure: NestLoops) -> NestLoops:
        if structure.packs or structure.parallel:
            raise InputError("Permute comes before Parallelize and Pack")
        loops = tuple(structure.loop(name) for name in self.order)
        if len(set(self.order)) != len(structure.loops) or len(loops) != len(structure.loops):
            known = ", ".join(loop.name for loop in structure.loops)
            raise InputError(f"Permute must name each loop once: {known}")
        for inner, outer in ((a, b) for i, a in enumerate(loops) for b in loops[i + 1 :] if a.iterator == b.iterator):
            if inner.step < outer.step:
                raise InputError(
                    f"loop '{outer.name}' must stay outside of '{inner.name}', which runs within its tiles"
                )
        return structure.after(self, loops=loops)


def choices(structure: NestLoops, limits: Limits) -> Iterator[NestLoops]:
    """Every legal order of the loops, the written one first."""
    written = tuple(loop.name for loop in structure.loops)
    count = broken = 0
    for order in itertools.chain([written], (o for o in _orders(structure) if o != written)):
        if count >= limits.space.orders:
            limits.pruned[ORDERS] += _number_of_orders(structure) - count - broken
            return
        made = structure if order == written else Permute(order).applied(structure)
        if order != written and _comes_back(made, limits.threads):
            broken += 1
            limits.pruned[AGAIN] += 1
        elif is_legal(made, limits.legality):
            count += 1
            yield made
        else:
            broken += 1
            limits.pruned[ILLEGAL] += 1


def _comes_back(structure: NestLoops, threads: int) -> bool:
    """Whether a loop over rows is inside of another one."""
    rows = loops_over_rows(structure, threads)
    moving = [loop.name in rows for loop in structure.loops if trips(structure.nest, loop) != 1]
    return bool(rows) and moving != sorted(moving, reverse=True)


def _number_of_orders(structure: NestLoops) -> int:
    """How many `_orders` gives: the orders of the loops that really loop, those of one original loop fixed."""
    pieces = Counter(loop.iterator for loop in structure.loops if trips(structure.nest, loop) != 1)
    return math.factorial(pieces.total()) // math.prod(math.factorial(n) for n in pieces.values())


def _orders(structure: NestLoops) -> Iterator[tuple[str, ...]]:
    """Orders of the loops that really loop, tile loops outside of their points; the others stay outermost."""
    nest = structure.nest
    idle = tuple(loop.name for loop in structure.loops if trips(nest, loop) == 1)
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]

    def extend(chosen: tuple[Loop, ...], rest: list[Loop]) -> Iterator[tuple[str, ...]]:
        if not rest:
            yield tuple(loop.name for loop in chosen)
        for i, loop in enumerate(rest):
            if not any(other.iterator == loop.iterator and other.step > loop.step for other in rest):
                yield from extend((*chosen, loop), rest[:i] + rest[i + 1 :])

    for order in extend((), moving):
        yield _with_idle(structure, idle, order)


def _with_idle(structure: NestLoops, idle: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """Loops of one iteration go outermost, unless that would take a point loop out of its tile loop."""
    loops = {loop.name: loop for loop in structure.loops}
    outside = tuple(n for n in idle if loops[n].within is None)
    inside = tuple(n for n in idle if loops[n].within is not None)
    return (*outside, *order, *inside)
