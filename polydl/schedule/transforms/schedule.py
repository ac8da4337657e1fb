"""A region in another order altogether."""

from __future__ import annotations

from polydl.schedule.transform import Transform, stated

_ORDERS = {
    "written": "order as written",
    "skewed": "skewed in time",
    "pluto-max": "fused by isl",
    "pluto-min": "kept apart by isl",
    "outer-max": "fused by isl, outer loops parallel",
    "outer-min": "kept apart by isl, outer loops parallel",
    "feautrier": "ordered by isl for parallel inner loops",
    "pluto-max-renamed": "fused by isl, another solution",
    "pluto-min-renamed": "kept apart by isl, another solution",
}
"""Where a tree comes from (`Schedule.base`), for people."""


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

    @property
    def as_written(self) -> bool:
        """Whether statements and loops keep their order."""
        return self.base == "written" and not self.sizes and not self.diagonal

    @property
    def described(self) -> str:
        """What it does, for people: `fused by isl, tiles of 32x32x256`."""
        said = [_ORDERS.get(self.base, self.base)]
        if self.sizes:
            said.append(f"tiles of {'x'.join(map(str, self.sizes))}")
        if self.outer > 1:
            said.append(f"{self.outer} of them each way in larger ones")
        if self.diagonal:
            said.append("along diagonals")
        if self.block:
            said.append(f"microkernel {'x'.join(map(str, self.block))}")
        if self.unroll:
            said.append("short loops written out")
        return ", ".join(said)
