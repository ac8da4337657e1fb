"""Within which limits transforms are tried, and why choices are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.dependences.directions import NestLegality
from polydl.dependences.nests import Nest
from polydl.schedule.loops import Loop, NestLoops
from polydl.schedule.uneven import shares

RegisterBlocks = Callable[[Nest], Sequence[tuple[str | None, str, int, int] | tuple[str | None, str, int, int, str]]]
"""(rows loop, columns loop, m, n) worth trying for a contraction, most promising first; where it is not that of the
types, then the inner product (`Microkernel.product`)."""


@dataclass(frozen=True, slots=True)
class Space:
    """Limits of the space of structures."""

    name: str
    blocks: int
    """Register blocks (with their rows and columns loops) tried, at most."""
    tile_sizes: tuple[int, ...]
    """Candidate tile sizes, in iterations of the loop."""
    tiled_at_once: int
    """Loops tiled in the same variant, at most."""
    levels: int
    """Nested tile loops per loop, at most."""
    orders: int
    """Loop orders tried per choice of the rest, at most; all of them where there are no more than that."""
    starts: int
    """Loops tried as the outermost parallel one, at most, from the outside."""
    least_packed: int
    """Operands are packed when neighbours in the microkernel (rows, columns or innermost reduction) are at least this
    many elements apart; a denser operand gains nothing."""
    schedules: int
    """Settings of isl's schedulers that are tried for nests without a microkernel, at most."""
    limit: int
    """Variants per nest, at most."""


SPACES = {
    "small": Space("small", 1, (), 0, 0, 24, 1, 1 << 62, 2, 500),
    "default": Space("default", 5, (256, 512, 1024), 3, 1, 120, 3, 512, 7, 10_000),
    "wide": Space("wide", 12, (16, 32, 64, 128, 256, 512, 1024), 3, 2, 5040, 9, 1, 7, 200_000),
}


BLOCKS, TILES, ILLEGAL, ORDERS, IDLE, RAGGED, EQUAL, AGAIN, FEW_UNEVEN = (
    "register blocks beyond the most efficient",
    "tiles as large as the loop or as small as the register block",
    "orders that break a dependence",
    "orders beyond the most that are tried",
    "parallel loops with fewer iterations than threads",
    "loops that cannot be collapsed, since the last tile of the outer one is cut short",
    "equal to another variant",
    "loops outside of those over rows of a sparse matrix, and forks for each row",
    "parallel loops over few tiles of a triangle",
)
"""Why choices are left out, as they are counted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A nest, and within which limits choices for it are made."""

    nest: Nest
    legality: NestLegality
    space: Space
    blocks: RegisterBlocks
    threads: int
    pruned: Counter[str] = field(default_factory=Counter)
    """Takes the number of choices left out, per reason; what a limit keeps from being looked at is not counted."""
    _shares: dict[Loop, tuple[float, ...]] = field(default_factory=dict)

    def shares(self, loop: Loop) -> tuple[float, ...]:
        """See `uneven.shares`, of each loop once."""
        if loop not in self._shares:
            self._shares[loop] = shares(self.nest, loop, self.threads)
        return self._shares[loop]


Choices = Callable[[NestLoops, Limits], Iterator[NestLoops]]
"""The structures that one kind of transform makes of a structure, itself among them where that is worth trying: legal
ones only, in a fixed order."""
