"""One loop in nested tile loops and a point loop."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from polydl.base.errors import InputError
from polydl.schedule.limits import TILES, Limits
from polydl.schedule.loops import SHALLOW, Loop, LoopTransform, NestLoops


class Tile(LoopTransform, frozen=True):
    """Split one loop into nested tile loops and a point loop.

    before:    for i in [0, N)
    after:     for i.0 in [0, ceil(N / s0)): for i.1 in [0, s0 / s1): … for i.n in [0, s_last)
    invariant: i == i.0*s0 + i.1*s1 + … + i.n; partial tiles run short
    requires:  sizes strictly decreasing, each dividing the one before, the last > 1
    """

    loop: str
    sizes: tuple[int, ...]
    """Iterations of the original loop per tile, outermost tile first."""

    def applied(self, structure: NestLoops) -> NestLoops:
        loop = structure.loop(self.loop)
        sizes = (*self.sizes, 1)
        if len(sizes) < 2 or any(a <= b or a % b for a, b in itertools.pairwise(sizes)):
            raise InputError(
                f"Tile({self.loop}) has sizes {self.sizes}",
                hint="tile sizes must decrease, each dividing the one before, the last greater than 1",
            )
        if loop.within is not None or loop.step != 1:
            raise InputError(
                f"loop '{self.loop}' is a piece of a tiled loop already", hint="give all sizes in one Tile"
            )
        pieces = [
            Loop(f"{loop.name}.{i}", loop.iterator, size, None if i == 0 else sizes[i - 1])
            for i, size in enumerate(sizes)
        ]
        at = structure.loops.index(loop)
        return structure.after(self, loops=(*structure.loops[:at], *pieces, *structure.loops[at + 1 :]))


def tilings(limits: Limits, blocks: Mapping[str, int], shallow: Collection[str] = ()) -> Iterator[tuple[Tile, ...]]:
    """Combinations of tilings, untiled first: what is tried. A parallel loop may also be cut into one tile for each
    thread; `blocks` has the iterations that run together in a microkernel, per loop that has one; `shallow` reductions
    may be cut into SHALLOW steps."""
    nest, space, threads = limits.nest, limits.space, limits.threads
    shared = limits.legality.parallel_loops(nest) if threads > 1 else ()
    sizes: dict[str, list[tuple[int, ...]]] = {}
    for loop in nest.loops:
        extent, unit = nest.counts[loop].extent, blocks.get(loop, 1)
        # A tile of a blocked loop is a whole number of blocks: the size nearest to the wanted one.
        wanted = {max(1, round(s / unit)) * unit for s in space.tile_sizes}
        if loop in shallow:
            wanted.add(SHALLOW)
        if loop in shared and extent is not None and space.tiled_at_once > 0:
            wanted.add(-(-extent // (threads * unit)) * unit)
        fitting = [s for s in sorted(wanted) if s > unit and (extent is None or s < extent)]
        limits.pruned[TILES] += len(wanted) - len(fitting)
        sizes[loop] = [(s,) for s in fitting]
        if space.levels > 1:
            sizes[loop] += [(big, small) for small in fitting for big in fitting if big > small and big % small == 0]
    tileable = [loop for loop in nest.loops if sizes[loop]]
    yield ()
    for many in range(1, space.tiled_at_once + 1):
        for loops in itertools.combinations(tileable, many):
            for chosen in itertools.product(*(sizes[loop] for loop in loops)):
                yield tuple(Tile(loop, size) for loop, size in zip(loops, chosen, strict=True))
