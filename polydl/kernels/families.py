"""The table of kernels' families, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polydl.dependences.nests import Nest
from polydl.kernels.best_two import BestTwo
from polydl.kernels.contraction_blocks import Block, Contractions, ContractionUse, inside
from polydl.kernels.copy import CopyPiece, Packing
from polydl.kernels.family import Cycles, Family
from polydl.kernels.innermost import VECTOR, Innermost, RowFunction
from polydl.kernels.microkernel import Microkernel
from polydl.kernels.packing import PackRoutine
from polydl.kernels.rare_changes import RareChanges
from polydl.kernels.rows import GeneralRow
from polydl.kernels.transposes import Rectangle, TransposeFunction, Transposes, Turned
from polydl.schedule.loops import NestLoops
from polydl.target.isa import Isa

INNERMOST: tuple[Family[Innermost, Any, int, RowFunction], ...] = (
    BestTwo(),
    GeneralRow(),
    RareChanges(),
)  # fmt: skip
"""Of innermost loops: the first that matches runs them. Those for special loops stand before the general one, and what
takes any loop, but not at the same speed on all data, behind."""

RECTANGLES: tuple[Family[Rectangle, Turned, int, TransposeFunction], ...] = (Transposes(),)
"""Of two innermost loops of which neither is a row."""

NESTS: tuple[Family[Nest, ContractionUse, Block, Microkernel], ...] = (Contractions(),)
"""Of nests, in blocks."""

COPIES: tuple[Family[CopyPiece, CopyPiece, int, PackRoutine], ...] = (Packing(),)
"""Of operands that a kernel cannot, or had better not, read where they are."""


def row_function(piece: Innermost) -> RowFunction | None:
    """The function that runs a piece; None where no family has one."""
    return next((family.emit(use, VECTOR) for family in _asked(piece) for use in family.matches(piece)), None)


def has_row(piece: Innermost) -> bool:
    """Whether a family has a function that runs a piece."""
    return any(True for family in _asked(piece) for _ in family.matches(piece))


def _asked(piece: Innermost) -> Sequence[Family[Innermost, Any, int, RowFunction]]:
    """The families that may run a piece. The general one alone loads all of a step before it stores."""
    return [family for family in INNERMOST if isinstance(family, GeneralRow)] if piece.in_place else INNERMOST


def rectangle_function(piece: Rectangle) -> TransposeFunction | None:
    """The function that runs two innermost loops; None where no family has one."""
    found = next(((family, use) for family in RECTANGLES for use in family.matches(piece)), None)
    return None if found is None else found[0].emit(found[1], VECTOR)


def rectangle_cycles(piece: Rectangle, isa: Isa) -> tuple[int, Cycles] | None:
    """Along which of the loops a function would write, and what it takes for each vector of the result; None where no
    family has one."""
    found = next(((family, use) for family in RECTANGLES for use in family.matches(piece)), None)
    return None if found is None else (found[1].along, found[0].cycles(found[1], VECTOR, isa))


def row_cycles(piece: Innermost, isa: Isa) -> Cycles:
    """What the function that runs a piece takes for each vector of columns. Loops that are written out leave more
    statements than their piece shows: that is for the general family."""
    several = any(times != 1.0 for times in piece.times)
    asked = [family for family in INNERMOST if isinstance(family, GeneralRow) or not several]
    family, use = next((family, use) for family in asked for use in family.matches(piece))
    return family.cycles(use, VECTOR, isa)


def block_kernel(
    structure: NestLoops,
) -> tuple[Family[Nest, ContractionUse, Block, Microkernel], ContractionUse, Block]:
    """What runs the blocks of a structure with a microkernel: the family, the roles of the loops, the block."""
    kernel = structure.kernel
    assert kernel is not None
    family, use = next(
        (family, use)
        for family in NESTS
        for use in family.matches(structure.nest)
        if use.columns == kernel.columns.iterator
    )
    return family, inside(use, structure), Block(kernel.m, kernel.n)


def block_cycles(
    structure: NestLoops, isa: Isa, extents: tuple[int, int] | None = None, block: Block | None = None
) -> Cycles:
    """What a structure's microkernel takes. `extents`: rows and columns, those of the nest unless given. `block`: its
    own unless given."""
    family, use, own = block_kernel(structure)
    if extents is not None:
        use = replace(use, row_extent=extents[0], column_extent=extents[1])
    return family.cycles(use, block or own, isa)


def copy_function(copy: CopyPiece, block: int) -> PackRoutine:
    """The function that makes a copy in panels of a kernel's block."""
    family, use = next((family, use) for family in COPIES for use in family.matches(copy))
    return family.emit(use, block)
