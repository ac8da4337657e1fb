"""A region in another order altogether."""

from __future__ import annotations

from polydl.base.errors import InputError
from polydl.schedule.structure import Structure
from polydl.schedule.transform import Transform, stated


class Schedule(Transform, frozen=True):
    """Order the statements of one or several nests anew, whatever their shape.

    before:    the loops as they are written
    after:     a schedule tree: tiled bands, tiles in wavefronts, the outermost independent loop parallel, the loop
               with the best strides innermost and in vectors
    requires:  every dependence stays lexicographically positive; parallel and vector loops carry none
    source:    isl's schedulers; Bondhugula et al., PLDI 2008; time skewing (Wonnacott, 2000)
    """

    base: str
    """Where the tree comes from: `written`, `skewed`, or a setting of isl's scheduler (`pluto-max`, …)."""
    sizes: tuple[int, ...] = ()
    """Tile sizes of each permutable band, outermost loop first; the last one holds for all further in."""
    parallel: bool = stated(True)
    simd: bool = stated(True)
    diagonal: bool = False
    """Where the innermost loop waits for its own results: run the two innermost loops along diagonals, whose
    iterations are independent."""
    outer: int = 1
    """Tiles of a second level hold this many tiles in each direction; 1: one level."""
    block: tuple[int, ...] = ()
    """Rows and columns of the microkernel that takes the whole tiles of contractions; empty: they stay loops."""
    unroll: bool = False
    """Write short innermost loops out, and run the loop around them in vectors."""

    def applied(self, structure: Structure) -> Structure:
        raise InputError(f"Schedule orders whole regions: it cannot be a step of nest {structure.nest.name}")
