"""Copies of operands in the layout that a microkernel reads best, as calls of generated functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.records import dataclass
from polydl.kernels.family import Cycles
from polydl.kernels.microkernel_spec import MOST_REDUCTIONS
from polydl.kernels.packing import PackLoop, PackRoutine, PackSpec, pack_routine, plain_loops
from polydl.model.layout import Layout
from polydl.model.types import ElementType
from polydl.target.isa import Isa
from polydl.target.products import FMA


@dataclass(frozen=True, slots=True)
class CopyPiece:
    """An operand to be copied: its width (the columns of B, the rows of A), and the loops of the reductions that move
    it."""

    element: ElementType
    """Of the copy."""
    width_stride: int | None
    """Elements between neighbours along the width; None: an argument of the function."""
    loops: tuple[PackLoop, ...]
    """Outermost first."""
    source: ElementType | None = None
    """Of the operand; None: that of the copy."""
    group: int = 1
    """Neighbours along a loop in a word of the copy; 1: none."""
    grouped: int = 0
    """Index of that loop."""
    sums: int = 0
    """See `PackSpec.sums`."""
    flips: bool = False
    """See `PackSpec.flips`."""
    run: int = 0
    """See `PackSpec.run`."""
    depth: int = 0
    """See `PackSpec.depth`."""


class Packing:
    """Panels of a kernel's block, the steps of the reductions one after the other in each: `packing`."""

    name = "packing"

    def matches(self, piece: CopyPiece) -> Sequence[CopyPiece]:
        """A copy is what it is: there are no roles to find."""
        known = piece.element in FMA.sums or piece.group > 1
        return (piece,) if known and len(piece.loops) <= MOST_REDUCTIONS else ()

    def shapes(self, use: CopyPiece, isa: Isa) -> Sequence[int]:
        """None of its own: a panel is as wide as the block of the kernel that reads it."""
        return ()

    def layouts(self, use: CopyPiece, shape: int) -> Mapping[str, Layout]:
        """None: the source may lie as it likes."""
        return {}

    def cycles(self, use: CopyPiece, shape: int, isa: Isa) -> Cycles:
        """None: a copy takes the time of its transfers, which estimates count as they do those of other loops
        (`rank.estimate_steps.Copied`)."""
        return Cycles(0.0)

    def emit(self, use: CopyPiece, shape: int) -> PackRoutine:
        return pack_routine(_specified(use, shape))

    def meaning(self, use: CopyPiece, shape: int) -> str:
        return plain_loops(_specified(use, shape))


def _specified(use: CopyPiece, shape: int) -> PackSpec:
    return PackSpec(
        use.element, shape, use.width_stride, use.loops, use.source, use.group, use.grouped, use.sums, use.flips,
        use.run, use.depth,
    )  # fmt: skip
